"""A plan made from an outdated view: its write fails by its guard, or it is still right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.oracle import is_ours
from tests.core.server import ApiServer, RefusedError
from tests.core.strategies import Edit, Story, desireds, edits, happen, play, policies, stories
from tests.core.world import CLUSTER, HOME, OWNER, Sync, want
from tests.sampling import thorough

from syncline.core.objects import Desired
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.core.plan import WRITES, Policy, Verb
from syncline.core.prune_plan import plan_prune
from syncline.core.request_bodies import release_patch


@thorough
@given(stories, policies, desireds(), st.lists(edits, min_size=1, max_size=2))
def test_a_late_write_hits_only_the_object_that_was_planned_for(
    story: Story, policy: Policy, desired: Desired, meanwhile: list[Edit]
) -> None:
    sync = Sync(play(story), policy)
    action, observed = sync.plan(desired)
    for edit in meanwhile:
        happen(sync.server, HOME, edit)
    before, snapshot = sync.server.see(HOME), sync.server.snapshot()

    try:
        sync.carry_out(action, desired, observed)
    except RefusedError:
        assert sync.server.snapshot() == snapshot
    else:
        if action.verb in WRITES and observed is not None:
            assert before is not None
            assert (before.uid, before.owner) == (observed.uid, observed.owner)
            assert action.change is not None
            assert before.version == observed.version or not action.change.guard_version
        elif action.verb in WRITES:
            assert before is None

    _ends_well(sync, desired)


@thorough
@given(stories, st.lists(edits, min_size=1, max_size=2))
def test_a_late_removal_hits_only_the_object_that_was_planned_for(story: Story, meanwhile: list[Edit]) -> None:
    server = play(story)
    observed = server.see(HOME)
    action = plan_prune(observed, OWNER, CLUSTER, "Pruned", "is no longer wanted") if observed is not None else None
    for edit in meanwhile:
        happen(server, HOME, edit)
    before, snapshot = server.see(HOME, body=True), server.snapshot()

    try:
        if observed is not None and action is not None and action.verb is Verb.DELETE:
            server.delete(HOME, uid=observed.uid, version=observed.version)
        elif observed is not None and action is not None and action.verb is Verb.RELEASE:
            server.patch(HOME, release_patch(observed))
    except RefusedError:
        pass
    if server.snapshot() != snapshot:
        assert before is not None
        assert observed is not None
        assert (before.uid, before.owner) == (observed.uid, observed.owner)
        # Taking our own marks off is right whatever became of them; deleting needs them whole.
        after = server.see(HOME, body=True)
        assert after is not None or is_ours(before)
        assert after is None or (after.digest, after.labels) == (before.digest, before.labels)


MEANWHILE = {
    "the object was made anew by somebody else": [Edit("make anew", "", ({"a": "theirs"}, {}))],
    "somebody took our label off": [Edit("unlabel", OWNER_LABEL)],
    "another sync took it": [Edit("label", OWNER_LABEL, "another")],
    "it was deleted": [Edit("delete")],
}


@pytest.mark.parametrize("conflict", ["SourceWins", "Skip", "Merge"])
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
def test_an_update_fails_when(meanwhile: list[Edit], conflict: str) -> None:
    sync = Sync(ApiServer()).under(conflict=conflict)
    sync.reconcile(want({"a": "1"}))
    desired = want({"a": "2"}, revision="2")
    action, observed = sync.plan(desired)
    assert action.verb is Verb.UPDATE
    for edit in meanwhile:
        happen(sync.server, HOME, edit)

    with pytest.raises(RefusedError):
        sync.carry_out(action, desired, observed)


@pytest.mark.parametrize(("conflict", "refused"), [("SourceWins", False), ("Skip", True), ("Merge", True)])
def test_only_source_wins_may_write_over_an_edit_that_it_has_not_seen(conflict: str, refused: bool) -> None:
    sync = Sync(ApiServer()).under(conflict=conflict)
    sync.reconcile(want({"a": "1"}))
    desired = want({"a": "2"}, revision="2")
    action, observed = sync.plan(desired)
    happen(sync.server, HOME, Edit("set data", "a", "by hand"))

    if refused:
        with pytest.raises(RefusedError, match="Conflict"):
            sync.carry_out(action, desired, observed)
        assert sync.server.objects[HOME]["data"] == {"a": "by hand"}
    else:
        sync.carry_out(action, desired, observed)
        assert sync.server.objects[HOME]["data"] == {"a": "2"}


@pytest.mark.parametrize("management", ["Adopt", "Overwrite"])
def test_taking_over_fails_when_anybody_wrote_since(management: str) -> None:
    sync = Sync(ApiServer()).under(management)
    happen(sync.server, HOME, Edit("make anew", "", ({"a": "theirs"}, {})))
    desired = want({"a": "1"})
    action, observed = sync.plan(desired)
    assert action.verb is Verb.ADOPT
    happen(sync.server, HOME, Edit("label", "theirs", "red"))

    with pytest.raises(RefusedError, match="Conflict"):
        sync.carry_out(action, desired, observed)
    assert MARKER not in sync.server.objects[HOME]["metadata"].get("annotations", {})


def _ends_well(sync: Sync, desired: Desired) -> None:
    sync.reconcile(desired)
    action, _ = sync.plan(desired)
    assert action.verb is Verb.LEAVE
    observed = sync.server.see(HOME)
    merges = "Merge" in {sync.policy.conflict, *(one.policy for one in sync.policy.key_policies)}
    if action.state == "Synced" and not merges:  # a merge keeps what others have put in
        assert observed is not None
        assert observed.digest == desired.digest
