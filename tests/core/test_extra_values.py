"""Values that others added to a ConfigMap or Secret of ours: they stay, unless the copy is to be exact."""

from collections.abc import Iterable, Mapping

import msgspec
import pytest
from tests.core.world import HOME, OWNER, here, want

from syncline.core.objects import Content, Desired, Marker, Observed
from syncline.core.plan import Action, Policy, Verb, merged_content, plan

KEEPING = Policy(keep_extras=True)


def there(data: Mapping[str, str], ours: Iterable[str], sent: Mapping[str, str], *, read: bool = True) -> Observed:
    """Return a copy of ours as observed; `read`: live, with its values and whose they are."""
    content = Content(data=data)
    fields = {"f:data": {f"f:{name}": {} if name in ours else None for name in data}}
    return Observed(
        target=HOME,
        uid="uid",
        version="1",
        digest=content.digest(),
        owner=OWNER.label,
        marker=Marker(
            sync=OWNER.ref,
            object_id=here(HOME),
            digest=Content(data=sent).digest(),
            owner=OWNER.label,
            proof=OWNER.keys.current,
            revision="1",
        ),
        value_digests=content.value_digests() if read else None,
        fields=msgspec.json.encode(fields) if read else None,
        content=content if read else None,
    )


def decide(desired: Desired, observed: Observed, policy: Policy = KEEPING) -> Action:
    return plan(desired, observed, OWNER, here(HOME), policy)


def test_a_value_that_somebody_added_stays_and_nothing_is_written() -> None:
    action = decide(want({"a": "1"}), there({"a": "1", "mine": "x"}, ours="a", sent={"a": "1"}))
    assert (action.verb, action.state) == (Verb.LEAVE, "Synced")


def test_whose_a_value_is_is_read_once_it_is_not_what_was_sent() -> None:
    added = there({"a": "1", "mine": "x"}, ours="a", sent={"a": "1"}, read=False)
    assert decide(want({"a": "1"}), added).verb is Verb.READ


@pytest.mark.parametrize("desired", [{"a": "1"}, {"a": "2"}, {}])
def test_nothing_is_read_where_the_copy_is_as_it_was_sent(desired: dict[str, str]) -> None:
    action = decide(want(desired), there({"a": "1"}, ours="a", sent={"a": "1"}, read=False))
    assert action.verb is (Verb.LEAVE if desired == {"a": "1"} else Verb.UPDATE)
    # What somebody adds meanwhile is not to be lost.
    assert action.change is None or action.change.guard_version


def test_a_value_that_we_sent_goes_with_its_source_and_others_stay() -> None:
    observed = there({"a": "1", "b": "1", "mine": "x"}, ours="ab", sent={"a": "1", "b": "1"})
    action = decide(want({"a": "2"}), observed)
    assert action.change is not None
    assert merged_content(want({"a": "2"}), observed, action.change).data == {"a": "2", "mine": "x"}


def test_a_value_of_ours_that_was_edited_is_repaired_and_others_stay() -> None:
    observed = there({"a": "edited", "mine": "x"}, ours="", sent={"a": "1"})
    action = decide(want({"a": "1"}), observed)
    assert (action.verb, action.drift) == (Verb.UPDATE, True)
    assert action.change is not None
    assert merged_content(want({"a": "1"}), observed, action.change).data == {"a": "1", "mine": "x"}


def test_a_key_that_the_source_gets_later_becomes_the_source_s() -> None:
    observed = there({"a": "1", "mine": "x"}, ours="a", sent={"a": "1"})
    action = decide(want({"a": "1", "mine": "ours"}), observed)
    assert action.change is not None
    assert merged_content(want({"a": "1", "mine": "ours"}), observed, action.change).data == {"a": "1", "mine": "ours"}


def test_a_binary_twin_of_a_wanted_key_is_no_extra() -> None:
    observed = there({"mine": "x"}, ours="", sent={})
    twin = want(binary={"mine": "eA=="})
    action = decide(twin, observed)
    assert action.change is not None
    assert action.change.unset == () or "data/mine" in action.change.unset
    after = twin.content if action.change.replace_all else merged_content(twin, observed, action.change)
    assert (after.data, after.binary_data) == ({}, {"mine": "eA=="})


@pytest.mark.parametrize("policy", [Policy(), Policy(exact=True), Policy(exact=True, keep_extras=True)])
def test_an_exact_copy_loses_what_others_added(policy: Policy) -> None:
    action = decide(want({"a": "1"}), there({"a": "1", "mine": "x"}, ours="a", sent={"a": "1"}), policy)
    assert action.change is not None
    assert action.change.replace_all


def test_an_exact_copy_takes_nothing_over() -> None:
    foreign = Observed(target=HOME, uid="uid", version="1", digest=Content(data={"z": "1"}).digest())
    action = decide(want({"a": "1"}), foreign, Policy(exact=True))
    assert (action.verb, action.reason) == (Verb.LEAVE, "NotOurs")
