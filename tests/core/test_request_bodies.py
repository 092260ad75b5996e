"""The bodies of writes: complete, no larger than needed, and guarded."""

import pytest
from tests.core.server import ApiServer, RefusedError
from tests.core.strategies import LONG, Edit, happen
from tests.core.world import HOME, OTHER, OWNER, Sync, here, want

from syncline.core import plan
from syncline.core.objects import Desired
from syncline.core.ownership import MARKER, OWNER_LABEL, Owner
from syncline.core.plan import Policy
from syncline.core.request_bodies import create_body, release_patch, update_patch, write_digest

GUARDS = ["test /metadata/uid", "test /metadata/labels/syncline.dev~1owner"]


def steps(sync: Sync, desired: Desired) -> list[str]:
    """Say what the patch of the next pass would do."""
    action, observed = sync.plan(desired)
    assert action.change is not None
    assert observed is not None
    patch = update_patch(desired, observed, sync.owner, here(HOME), action.change)
    return [f"{step['op']} {step['path']}" for step in patch]


def copied(desired: Desired, policy: Policy | None = None) -> Sync:
    sync = Sync(ApiServer(), policy or Policy())
    sync.reconcile(desired)
    return sync


class TestCreate:
    def test_the_copy_carries_content_metadata_and_marks(self) -> None:
        desired = want({"a": "1"}, {"b": "AA=="}, immutable=True, labels={"team": "red"}, annotations={"note": "x"})
        made = copied(desired).server.objects[HOME]
        assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
        assert (made["data"], made["binaryData"], made["immutable"]) == ({"a": "1"}, {"b": "AA=="}, True)
        assert made["metadata"]["labels"] == {"team": "red", OWNER_LABEL: OWNER.label}
        assert made["metadata"]["annotations"].keys() == {"note", MARKER}

    def test_what_is_empty_is_left_out(self) -> None:
        action, _ = Sync(ApiServer()).plan(want())
        assert action.change is not None
        body = create_body(want(), OWNER, here(HOME), action.change, want().content)
        assert body.keys() == {"apiVersion", "kind", "metadata"}

    def test_the_marker_names_sync_place_source_revision_and_digest(self) -> None:
        desired = want({"a": "1"}, labels={"team": "red"}, revision="7")
        observed = copied(desired).server.see(HOME)
        assert observed is not None
        marker = observed.marker
        assert marker is not None
        assert (marker.sync, marker.object_id) == (
            "ConfigMapSync/ops/settings",
            "cluster-uid/ConfigMap/team-a/settings",
        )
        assert (marker.source, marker.revision, marker.digest) == ("shared/settings", "7", desired.digest)
        assert (marker.mode, marker.labels, marker.annotations) == ("Created", ("team",), ())


class TestUpdate:
    def test_it_first_tests_whose_the_object_is(self) -> None:
        sync = copied(want({"a": "1"}))
        assert steps(sync, want({"a": "2"}))[:2] == GUARDS

    def test_a_repaired_label_sends_no_content(self) -> None:
        desired = want({"a": "1"}, labels={"team": "red"})
        sync = copied(desired)
        happen(sync.server, HOME, Edit("unlabel", "team"))
        assert steps(sync, desired) == [
            *GUARDS,
            "add /metadata/labels/team",
            "add /metadata/annotations/syncline.dev~1copy",
        ]

    def test_a_merge_sends_only_the_keys_that_changed(self) -> None:
        sync = copied(want({"a": "1", "b": "1", "c": "1"}), Policy(conflict="Merge"))
        found = steps(sync, want({"a": "2", "b": "1"}))
        assert found[:2] == GUARDS
        assert [step for step in found if "ata/" in step and "meta" not in step] == ["remove /data/c", "add /data/a"]
        assert "replace /metadata/resourceVersion" in found

    def test_an_unchanged_long_annotation_is_not_sent_again(self) -> None:
        sync = copied(want({"a": "1"}, annotations={"note": LONG}))
        assert not any("note" in step for step in steps(sync, want({"a": "2"}, annotations={"note": LONG})))
        assert any("note" in step for step in steps(sync, want({"a": "1"}, annotations={"note": LONG + "more"})))

    def test_keys_with_slashes_and_tildes_are_escaped(self) -> None:
        sync = copied(want({"a": "1"}))
        desired = want({"a": "1"}, labels={"example.com/tier": "1"}, annotations={"example.com/a~b": "x"})
        sync.reconcile(desired)
        metadata = sync.server.objects[HOME]["metadata"]
        assert metadata["labels"]["example.com/tier"] == "1"
        assert metadata["annotations"]["example.com/a~b"] == "x"

    def test_the_last_key_can_go(self) -> None:
        for conflict in ("SourceWins", "Merge"):
            sync = copied(want({"a": "1"}, {"b": "AA=="}), Policy(conflict=conflict))
            sync.reconcile(want())
            assert sync.server.objects[HOME].keys().isdisjoint({"data", "binaryData"})

    def test_a_first_key_can_come(self) -> None:
        for conflict in ("SourceWins", "Merge"):
            sync = copied(want(), Policy(conflict=conflict))
            sync.reconcile(want({"a": "1"}, {"b": "AA=="}))
            assert sync.server.objects[HOME]["data"] == {"a": "1"}
            assert sync.server.objects[HOME]["binaryData"] == {"b": "AA=="}

    def test_an_object_without_any_labels_can_be_taken_over(self) -> None:
        sync = Sync(ApiServer(), Policy(management="Adopt"))
        happen(sync.server, HOME, Edit("make anew", "", ({"a": "1"}, {})))
        sync.reconcile(want({"a": "1"}, labels={"team": "red"}))
        assert sync.server.objects[HOME]["metadata"]["labels"] == {"team": "red", OWNER_LABEL: OWNER.label}


class TestRelease:
    def test_it_takes_our_marks_and_nothing_else(self) -> None:
        sync = copied(want({"a": "1"}, labels={"team": "red"}, annotations={"note": "x"}), Policy(conflict="Merge"))
        observed = sync.server.see(HOME)
        assert observed is not None
        sync.server.patch(HOME, release_patch(observed))
        released = sync.server.objects[HOME]
        assert released["data"] == {"a": "1"}
        assert released["metadata"]["labels"] == {"team": "red"}
        assert released["metadata"]["annotations"] == {"note": "x"}

    def test_it_fails_on_what_another_took_meanwhile(self) -> None:
        sync = copied(want({"a": "1"}))
        observed = sync.server.see(HOME)
        assert observed is not None
        happen(sync.server, HOME, Edit("label", OWNER_LABEL, "another"))
        with pytest.raises(RefusedError):
            sync.server.patch(HOME, release_patch(observed))


class TestDigest:
    """What counts as the same write."""

    def digest(self, desired: Desired, *, owner: Owner = OWNER, base: dict[str, str] | None = None) -> str:
        return write_digest(desired, owner, plan.Change(digest=desired.digest, base=base))

    def test_it_is_of_all_that_is_sent(self) -> None:
        desired = want({"a": "1"}, labels={"team": "red"}, annotations={"note": "x"})
        others = [
            want({"a": "2"}, labels={"team": "red"}, annotations={"note": "x"}),
            want({"a": "1"}, labels={"team": "blue"}, annotations={"note": "x"}),
            want({"a": "1"}, labels={"team": "red"}, annotations={"note": "y"}),
            want({"a": "1"}, labels={"team": "red"}, annotations={"note": "x"}, immutable=True),
            want({"a": "1"}, labels={"team": "red"}, annotations={"note": "x"}, secret_type="Opaque"),
            want({"a": "1"}, labels={"team": "red", "note": "x"}),
        ]
        digests = {self.digest(one) for one in (desired, *others)}
        digests |= {self.digest(desired, base={"data/a": "1"}), self.digest(desired, owner=OTHER)}
        assert len(digests) == len(others) + 3

    def test_another_revision_of_the_source_that_says_the_same_is_the_same_write(self) -> None:
        assert self.digest(want({"a": "1"}, revision="1")) == self.digest(want({"a": "1"}, revision="2"))
