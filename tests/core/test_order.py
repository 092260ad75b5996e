"""The order of events does not matter: edits, passes and targets in any order end in the same state."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core.server import ApiServer
from tests.core.strategies import ELSEWHERE, KEYS, Edit, desireds, edits, happen, policies
from tests.core.world import HOME, OTHER, OWNER, Sync, here, want
from tests.sampling import quick

from syncline.core.objects import Desired, Target
from syncline.core.ownership import Owner, Ownership, ownership_of
from syncline.core.plan import Policy, Verb

TARGETS = (HOME, ELSEWHERE, Target("team-b", "settings"))
LABEL = {"team": "red"}


def said(server: ApiServer) -> dict[Target, Any]:
    """What a reader of the objects sees; not when or how often they were written."""
    return {
        target: {
            "data": stored.get("data", {}),
            "binaryData": stored.get("binaryData", {}),
            "immutable": stored.get("immutable", False),
            "labels": stored["metadata"].get("labels", {}),
            "annotations": {
                key: value
                for key, value in stored["metadata"].get("annotations", {}).items()
                if not key.startswith("syncline.dev/")
            },
        }
        for target, stored in server.objects.items()
    }


@quick
@given(
    st.lists(st.tuples(st.sampled_from(TARGETS), edits), max_size=6),
    policies,
    desireds(),
    desireds(),
    st.permutations(TARGETS),
)
def test_targets_are_written_in_any_order(
    edited: list[tuple[Target, Edit]], policy: Policy, first: Desired, then: Desired, order: list[Target]
) -> None:
    ends = []
    for targets in (TARGETS, order):
        sync = Sync(ApiServer(), policy)
        for target in targets:
            sync.reconcile(_at(target, first))
        for target, edit in edited:
            happen(sync.server, target, edit)
        for target in targets:
            sync.reconcile(_at(target, then))
        ends.append(said(sync.server))
    assert ends[0] == ends[1]


_ours_to_repair = edits.filter(lambda edit: edit.what in ("set data", "set binaryData", "drop", "delete")) | st.builds(
    Edit, st.sampled_from(("label", "unlabel")), st.just("team"), st.just("blue")
)


@quick
@given(st.data(), st.lists(_ours_to_repair, max_size=5), st.lists(desireds(), min_size=1, max_size=3))
def test_edits_and_source_changes_in_any_order_end_as_the_source_says(
    data: st.DataObject, edited: list[Edit], sources: list[Desired]
) -> None:
    versions = [
        want(source.content.data, source.content.binary_data, labels=LABEL, revision=str(number))
        for number, source in enumerate(sources)
    ]
    sync = Sync(ApiServer())
    events = data.draw(st.permutations([*edited, *["source changes"] * (len(versions) - 1), *["pass"] * 3]))
    current = 0
    for event in events:
        if event == "source changes":
            current += 1
        elif event == "pass":
            sync.reconcile(versions[current])
        elif isinstance(event, Edit):
            happen(sync.server, HOME, event)
    sync.reconcile(versions[current])

    assert current == len(versions) - 1
    end = sync.server.see(HOME, body=True)
    assert end is not None
    assert end.content == versions[-1].content
    assert end.labels == LABEL


@quick
@given(
    st.data(),
    st.dictionaries(st.sampled_from(KEYS), st.just("at first")),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("from the source", None))),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("by hand", None))),
)
def test_a_merge_keeps_every_edit_and_takes_the_rest_in_any_order(
    data: st.DataObject,
    original: dict[str, str],
    of_source: dict[str, str | None],
    by_hand: dict[str, str | None],
) -> None:
    by_hand = {key: value for key, value in by_hand.items() if value is not None or key in original}
    sync = Sync(ApiServer(), Policy(conflict="Merge"))
    source = dict(original)
    sync.reconcile(want(source))
    events = data.draw(
        st.permutations(
            [*(("source", key) for key in of_source), *(("hand", key) for key in by_hand), *[("pass", "")] * 4]
        )
    )
    for kind, key in events:
        if kind == "source":
            source = _with(source, key, of_source[key])
        elif kind == "hand" and by_hand[key] is None:
            happen(sync.server, HOME, Edit("drop", key))
        elif kind == "hand":
            happen(sync.server, HOME, Edit("set data", key, by_hand[key]))
        else:
            sync.reconcile(want(source))
    sync.reconcile(want(source))

    expected = source
    for key, value in by_hand.items():
        expected = _with(expected, key, value)
    assert sync.server.objects[HOME].get("data", {}) == expected
    assert sync.reconcile(want(source)).verb is Verb.LEAVE


@quick
@given(
    st.lists(st.sampled_from((OWNER, OTHER)), min_size=4, max_size=8).filter(lambda order: len(set(order)) > 1),
    policies,
    policies,
    st.booleans(),
)
def test_two_syncs_that_want_one_object_never_fight(
    order: list[Owner], one: Policy, other: Policy, deleted_once: bool
) -> None:
    server = ApiServer()
    syncs = {OWNER.ref: Sync(server, one, OWNER), OTHER.ref: Sync(server, other, OTHER)}
    desired = {OWNER.ref: want({"from": "one"}), OTHER.ref: want({"from": "other"})}

    def better_claim(owner: Owner) -> str:
        """Name who goes first: who owns the object, or the older one, which is OWNER here."""
        observed = server.see(HOME)
        if observed is None:
            return "" if owner is OWNER else OWNER.ref
        is_rival = ownership_of(observed, owner, here(HOME)) is Ownership.OTHER_SYNC
        return observed.marker.sync if is_rival and observed.marker is not None else ""

    for turn, owner in enumerate((*order, OWNER, OTHER)):
        if deleted_once and turn == 2:
            server.objects.pop(HOME, None)
        syncs[owner.ref].reconcile(desired[owner.ref], rival=better_claim(owner))

    for owner in (OWNER, OTHER):
        action, _ = syncs[owner.ref].plan(desired[owner.ref], rival=better_claim(owner))
        assert action.verb is Verb.LEAVE
    assert server.objects[HOME]["data"] == {"from": "one"}


def _at(target: Target, desired: Desired) -> Desired:
    content = desired.content
    return want(
        content.data,
        content.binary_data,
        target=target,
        immutable=content.immutable,
        labels=desired.labels,
        annotations=desired.annotations,
    )


def _with(content: dict[str, str], key: str, value: str | None) -> dict[str, str]:
    rest = {name: there for name, there in content.items() if name != key}
    return rest if value is None else {**rest, key: value}
