"""The promises of the design, over generated histories: whatever happened at a target, the next pass is right."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.oracle import content_by_the_book, is_ours
from tests.core.strategies import Story, desireds, play, policies, stories
from tests.core.world import HOME, OWNER, Sync, here
from tests.sampling import quick, thorough

from syncline.core.objects import Desired
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL
from syncline.core.plan import WRITES, Policy, Verb, plan


@thorough
@given(stories, policies, desireds())
def test_a_second_pass_is_empty(story: Story, policy: Policy, desired: Desired) -> None:
    sync = Sync(play(story), policy)
    sync.reconcile(desired)
    quiet = sync.server.snapshot()

    action, _ = sync.plan(desired)

    assert action.verb is Verb.LEAVE
    sync.reconcile(desired)
    assert sync.server.snapshot() == quiet


@thorough
@given(stories, policies, desireds())
def test_after_a_pass_the_content_is_what_the_policy_promises(story: Story, policy: Policy, desired: Desired) -> None:
    sync = Sync(play(story), policy)
    before = sync.server.snapshot()
    promised = content_by_the_book(desired, sync.server.see(HOME, body=True), policy)

    action = sync.reconcile(desired)

    if promised is None:
        assert action.verb is Verb.LEAVE
        assert sync.server.snapshot() == before
    else:
        after = sync.server.see(HOME, body=True)
        assert after is not None
        assert after.content is not None
        assert after.content.value_digests() == promised
        assert after.immutable or not desired.content.immutable


@thorough
@given(stories, policies, desireds())
def test_a_plan_that_does_not_ask_for_the_body_is_the_same_with_it(
    story: Story, policy: Policy, desired: Desired
) -> None:
    server = play(story)
    reduced, whole = server.see(HOME), server.see(HOME, body=True)

    action = plan(desired, reduced, OWNER, here(HOME), policy)

    assert action.verb is Verb.READ or action == plan(desired, whole, OWNER, here(HOME), policy)


@thorough
@given(stories, policies.filter(lambda policy: policy.management in ("Sync", "Keep")), desireds())
def test_what_is_not_ours_is_bit_identical_afterwards(story: Story, policy: Policy, desired: Desired) -> None:
    sync = Sync(play(story), policy)
    before = sync.server.snapshot()
    observed = sync.server.see(HOME)
    foreign = observed is not None and not is_ours(observed)

    sync.reconcile(desired)

    assert not foreign or sync.server.snapshot() == before


@thorough
@given(stories, policies, desireds())
def test_labels_and_annotations_follow_the_source_and_leave_those_of_others(
    story: Story, policy: Policy, desired: Desired
) -> None:
    sync = Sync(play(story), policy)
    before = sync.server.see(HOME, body=True)
    action = sync.reconcile(desired)
    after = sync.server.see(HOME, body=True)

    if action.verb not in WRITES:
        assert after == before
        return
    assert after is not None
    assert after.owner == OWNER.label
    written = sync.server.objects[HOME]["metadata"]
    sent_before = before.marker if before is not None else None
    for there, wanted, known, sent in (
        ("labels", desired.labels, before.labels if before else {}, sent_before.labels if sent_before else ()),
        (
            "annotations",
            desired.annotations,
            before.annotations if before else {},
            sent_before.annotations if sent_before else (),
        ),
    ):
        found = {key: value for key, value in written[there].items() if not key.startswith("syncline.dev/")}
        assert found | dict(wanted) == found
        theirs = {key for key in known if not key.startswith("syncline.dev/")} - set(sent) - wanted.keys()
        if policy.management == "Overwrite" or action.verb is Verb.RECREATE:
            theirs = frozenset()
        assert found.keys() == wanted.keys() | theirs


@quick
@given(stories, policies, desireds())
def test_an_update_leaves_every_other_field_alone(story: Story, policy: Policy, desired: Desired) -> None:
    sync = Sync(play(story), policy)
    before = sync.server.get(HOME)
    action = sync.reconcile(desired)

    if before is not None and action.verb in (Verb.UPDATE, Verb.ADOPT):
        after = sync.server.objects[HOME]
        for field in ("uid", "name", "namespace", "finalizers"):
            assert after["metadata"].get(field) == before["metadata"].get(field)


@quick
@given(stories, policies, desireds(), st.sampled_from(("", "ConfigMapSync/ops/older")), st.booleans())
def test_every_action_has_a_reason_and_a_message(
    story: Story, policy: Policy, desired: Desired, rival: str, kept: bool
) -> None:
    server = play(story)
    for observed in (server.see(HOME), server.see(HOME, body=True)):
        action = plan(desired, observed, OWNER, here(HOME), policy, competing_owner=rival, created_once=kept)
        assert action.reason.isalpha()
        assert action.message.strip()
        assert (action.change is not None) == (action.verb in WRITES)
    assert action.verb is not Verb.READ, "with the body at hand there is nothing left to read"


@quick
@given(stories, policies, desireds())
def test_an_action_that_says_synced_is_true_once_it_is_done(story: Story, policy: Policy, desired: Desired) -> None:
    sync = Sync(play(story), policy)
    action = sync.reconcile(desired)
    observed = sync.server.see(HOME)

    merges = "Merge" in (policy.conflict, *(rule.policy for rule in policy.key_policies))
    if action.state == "Synced" and not merges:
        assert observed is not None
        assert observed.digest == desired.digest
    if action.verb in WRITES:
        assert observed is not None
        assert is_ours(observed)
        assert observed.marker is not None
        assert observed.marker.digest == observed.digest


@thorough
@given(stories)
def test_only_what_names_this_place_and_this_sync_is_deleted(story: Story) -> None:
    sync = Sync(play(story))
    before = sync.server.get(HOME)

    sync.remove(HOME)

    if before is None or HOME in sync.server.objects:
        return
    marker = msgspec.json.decode(before["metadata"]["annotations"][MARKER])
    assert marker["sync"] == "ConfigMapSync/ops/settings"
    assert marker["at"] == "cluster-uid/ConfigMap/team-a/settings"
    assert marker.get("mode", "Created") == "Created"
    assert before["metadata"]["labels"][OWNER_LABEL] == OWNER.label
    assert before["metadata"]["annotations"].get("syncline.dev/prune") != "Disabled"


@quick
@given(stories)
def test_a_removal_is_final_or_takes_our_marks_alone(story: Story) -> None:
    sync = Sync(play(story))
    before = sync.server.get(HOME)
    snapshot = sync.server.snapshot()
    action = sync.remove(HOME)
    after = sync.server.get(HOME)

    if action is None or action.verb is Verb.LEAVE:
        assert sync.server.snapshot() == snapshot
    elif action.verb is Verb.DELETE:
        assert after is None
    else:
        assert before is not None
        assert after is not None
        assert (after.get("data"), after.get("binaryData")) == (before.get("data"), before.get("binaryData"))
        assert before["metadata"]["labels"].keys() - after["metadata"].get("labels", {}).keys() == {OWNER_LABEL}
        gone = before["metadata"]["annotations"].keys() - after["metadata"].get("annotations", {}).keys()
        assert MARKER in gone
        assert gone <= {MARKER, BASE}
        assert sync.remove(HOME) is None


@quick
@given(stories, desireds(), policies)
def test_a_copy_that_we_made_goes_without_a_trace(story: Story, desired: Desired, policy: Policy) -> None:
    sync = Sync(play(story), policy)
    made = sync.server.get(HOME) is None
    sync.reconcile(desired)
    action = sync.remove(HOME)

    if made:
        assert action is not None
        assert action.verb is Verb.DELETE
        assert not sync.server.objects
