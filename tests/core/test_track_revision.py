"""A mark names the revision that its copy was made from; where somebody relies on that, it is kept up to date."""

import pytest
from tests.core.server import ApiServer
from tests.core.strategies import Edit, happen
from tests.core.world import HOME, Sync, want

from syncline.core.plan import REVISION_TRACKED, Policy, Verb

FIRST = want({"a": "1"}, labels={"team": "red"})
LATER = want({"a": "1"}, labels={"team": "red"}, revision="2")


def revision(server: ApiServer) -> str:
    observed = server.see(HOME)
    assert observed is not None
    assert observed.marker is not None
    return observed.marker.revision


@pytest.mark.parametrize("conflict", ["SourceWins", "Merge", "Skip"])
@pytest.mark.parametrize("management", ["Sync", "Adopt", "Overwrite"])
def test_a_revision_that_moved_alone_is_written_once_and_nothing_else(conflict: str, management: str) -> None:
    sync = Sync(ApiServer(), Policy(management=management, conflict=conflict, track_revision=True))
    sync.reconcile(FIRST)
    action = sync.reconcile(LATER)
    assert (action.verb, action.reason, action.drift) == (Verb.UPDATE, REVISION_TRACKED, False)
    assert action.change is not None
    assert action.change.metadata_only
    assert action.change.marks_only
    assert revision(sync.server) == "2"
    assert sync.reconcile(LATER).verb is Verb.LEAVE


def test_a_revision_that_moved_alone_writes_nothing_where_nobody_relies_on_it() -> None:
    sync = Sync(ApiServer())
    sync.reconcile(FIRST)
    assert sync.reconcile(LATER).verb is Verb.LEAVE
    assert revision(sync.server) == "1"


def test_a_revision_that_moved_with_the_content_is_one_write() -> None:
    sync = Sync(ApiServer(), Policy(track_revision=True))
    sync.reconcile(FIRST)
    changed = want({"a": "2"}, labels={"team": "red"}, revision="2")
    assert sync.reconcile(changed).reason == "SourceChanged"
    assert sync.reconcile(changed).verb is Verb.LEAVE


def test_an_edited_copy_that_stays_as_it_is_keeps_the_revision_that_it_was_made_from() -> None:
    sync = Sync(ApiServer(), Policy(conflict="Skip", track_revision=True))
    sync.reconcile(FIRST)
    happen(sync.server, HOME, Edit("set data", "a", "by hand"))
    assert sync.reconcile(LATER).reason == "Edited"
    assert revision(sync.server) == "1"


def test_a_copy_that_is_kept_is_not_written_for_its_revision() -> None:
    sync = Sync(ApiServer(), Policy(management="Keep", track_revision=True))
    sync.reconcile(FIRST)
    assert sync.reconcile(LATER).verb is Verb.LEAVE
