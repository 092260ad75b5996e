"""A status tells what is so whatever others say and whatever the API server refuses."""

from tests.configmapsync.world import until
from tests.manifestsync.admission import DENIAL, denied_by_policy, denied_by_webhook
from tests.manifestsync.world import Manifests, ManifestSync

SENTENCE = "red is the only colour that is allowed here until the review board has met again, in spring"


def written(sync: ManifestSync) -> list[str]:
    return list(sync.status.get("written", []))


def suspended(world: Manifests) -> ManifestSync:
    """Make a sync that the operator leaves alone, to try policies on."""
    source = world.find("ConfigMap", world.home, "none")
    sync = world.msync("probe", source, into=[world.home], suspend=True, targetName="other")
    sync.becomes("Suspended")
    return sync


def refuse_statuses(sync: ManifestSync) -> object:
    """Try a status as no operator would write it, and store nothing."""
    body = {**sync.read(), "status": {"targetStatuses": [], "kept": ["probe"]}}
    return sync.sandbox.request("PUT", f"{sync.path}/status?dryRun=All", body)


def refused_again(world: Manifests, mark: int, times: int) -> None:
    """Wait until so many writes of a status were refused since then."""
    until(
        lambda: [one for one in world.requests(mark) if one.subresource == "status" and one.code == 403],
        lambda refused: len(refused) >= times,
    )


def test_a_denial_whose_reason_is_a_sentence_is_told_as_a_failure(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    denial = {"code": 403, "reason": SENTENCE, "message": "denied by the board"}
    with denied_by_webhook(world.sandbox, target, {"colour": "blue"}, denial):
        source.put("data", "colour", value="blue")
        ready = sync.becomes("Forbidden", failed=1)
        assert ready["status"] == "False"
        entry = sync.target(target)
        assert (entry["status"], entry["reason"]) == ("Failed", "Forbidden")
        assert SENTENCE in entry["message"]
        # A sync that never had a status has one too.
        fresh = world.msync("fresh", source, into=[target], targetName="fresh")
        assert fresh.becomes("Forbidden", failed=1)["status"] == "False"
        assert sync.tells("Forbidden")


def test_a_name_that_becomes_too_long_is_a_failure_of_its_targets_alone(world: Manifests) -> None:
    long, short = f"{'n' * 249}x", "app"
    sources = [world.make("ConfigMap", name=name, data={"a": "b"}) for name in (long, short)]
    target = world.namespace("a")
    sync = world.msync("sync", *sources, into=[target], targetName="{{ source.name }}-copy")
    sync.becomes("InvalidName", failed=1, synced=1)
    entry = next(one for one in sync.status["targetStatuses"] if one["status"] == "Failed")
    assert entry["name"] == long
    assert entry["message"] == "write a shorter targetName: it gives a name of 255 characters, and 253 are allowed"
    world.find("ConfigMap", target, "app-copy").appears()


def test_where_a_status_is_refused_the_essential_of_it_is_stored_and_an_event_says_why(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    probe = suspended(world)
    liked = "!has(object.status) || !has(object.status.targetStatuses)"
    with denied_by_policy(world.sandbox, world.home, "manifestsyncs/status", liked, lambda: refuse_statuses(probe)):
        sync = world.msync("sync", source, into=[target])
        ready = sync.becomes("StatusRefused")
        assert ready["status"] == "False"
        assert ready["message"].startswith("the API server refuses the status; let the policy or webhook")
        assert DENIAL in ready["message"]
        assert ready["message"].endswith("otherwise Ready would be True (Synced)")
        assert written(sync) == ["ConfigMap"]
        assert sync.status["scope"]
        assert DENIAL in sync.tells("StatusRefused")["note"]
        # What could be done was done, and the history of it is not lost.
        world.find("ConfigMap", target).holds_data(colour="red")
        assert [entry["changes"] for entry in sync.status["history"]] == ["1 created"]
        # It is tried again by itself, and the same once more is no news.
        version, mark = sync.read()["metadata"]["resourceVersion"], world.mark()
        refused_again(world, mark, 2)
        assert sync.read()["metadata"]["resourceVersion"] == version
    sync.becomes("Synced", synced=1)


def test_what_cannot_be_recorded_is_not_written(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    probe = suspended(world)
    mark = world.mark()
    with denied_by_policy(world.sandbox, world.home, "manifestsyncs/status", "false", lambda: refuse_statuses(probe)):
        sync = world.msync("sync", source, into=[target])
        event = sync.tells("StatusRefused")
        assert DENIAL in event["note"]
        refused_again(world, mark, 4)
        assert world.find("ConfigMap", target).look() is None
        assert "status" not in sync.read()
        assert world.copying(mark) == []
    sync.becomes("Synced", synced=1)


def test_a_finalizer_that_is_refused_is_told_and_nothing_is_written(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    probe = suspended(world)

    def hold() -> object:
        body = probe.read()
        body["metadata"]["finalizers"] = ["example.com/probe"]
        return world.sandbox.request("PUT", f"{probe.path}?dryRun=All", body)

    liked = "!has(object.metadata.finalizers) || has(oldObject.metadata.finalizers)"
    with denied_by_policy(world.sandbox, world.home, "manifestsyncs", liked, hold):
        sync = world.msync("sync", source, into=[target])
        ready = sync.becomes("FinalizerRefused")
        assert ready["status"] == "False"
        assert "nothing is written without it" in ready["message"]
        assert DENIAL in ready["message"]
        assert world.find("ConfigMap", target).look() is None
    sync.becomes("Synced", synced=1)


def test_a_finalizer_that_cannot_be_removed_is_told(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)

    def let_go() -> object:
        body = sync.read()
        body["metadata"]["finalizers"] = []
        return world.sandbox.request("PUT", f"{sync.path}?dryRun=All", body)

    liked = "has(object.metadata.finalizers) || !has(oldObject.metadata.finalizers)"
    with denied_by_policy(world.sandbox, world.home, "manifestsyncs", liked, let_go):
        sync.delete()
        ready = until(lambda: sync.conditions["Ready"], lambda seen: seen["reason"] == "FinalizerRefused")
        assert "the sync stays until then" in ready["message"]
        assert world.find("ConfigMap", target).look() is None
    sync.gone()
