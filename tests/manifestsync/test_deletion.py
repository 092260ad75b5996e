"""What becomes of copies when their sync is deleted."""

from tests.manifestsync.world import Manifests

from syncline.api.common import ABANDON


def test_a_deleted_sync_takes_its_copies_of_all_kinds_along(world: Manifests) -> None:
    sources = [world.secret(), world.make("ConfigMap", data={"a": "b"}), world.deployment(), world.service()]
    first, second = world.namespaces("a", "b")
    sync = world.msync("sync", *sources, into=[first, second])
    sync.becomes("Synced", synced=8)
    sync.delete()
    for target in (first, second):
        for source in sources:
            world.find(source.kind, target).gone()
    sync.gone()
    for source in sources:
        assert source.look() is not None


def test_a_sync_of_a_kind_that_could_never_be_watched_goes_at_once(world: Manifests) -> None:
    quota = world.make("ResourceQuota", spec={"hard": {"pods": "1"}})
    secret = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", secret, into=[target])
    sync.becomes("Synced", synced=1)
    sync.change(sourceRef=None, sourceRefs=[secret.ref, quota.ref])
    sync.becomes("KindNotWatched")
    assert sync.status["written"] == ["Secret"]
    sync.delete()
    sync.gone()
    world.find("Secret", target).gone()


def test_orphan_leaves_the_copies(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], deletionPolicy="Orphan")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    version = copy.spec
    sync.delete()
    sync.gone()
    assert copy.spec == version


def test_an_abandoned_sync_leaves_its_copies_and_says_so(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    sync.annotate({ABANDON: "true"})
    sync.delete()
    sync.gone()
    assert world.find("Secret", target).values == {"password": "red"}
    assert "abandoned on request" in sync.tells("CopiesLeft")["note"]


def test_a_deleted_sync_takes_the_copies_of_kinds_that_its_spec_no_longer_names(world: Manifests) -> None:
    secret, deployment = world.secret(), world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", secret, into=[target], prune=False)
    sync.becomes("Synced", synced=1)
    sync.change(sourceRef=deployment.ref)
    world.find("Deployment", target).appears()
    sync.becomes("Synced", synced=1)
    assert world.find("Secret", target).marked
    sync.delete()
    sync.gone()
    world.find("Deployment", target).gone()
    world.find("Secret", target).gone()


def test_a_deleted_sync_whose_status_was_lost_finds_its_copies_by_their_label(world: Manifests) -> None:
    deployment, secret = world.deployment(), world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", deployment, into=[target], prune=False)
    sync.becomes("Synced", synced=1)
    sync.change(sourceRef=secret.ref)
    world.find("Secret", target).appears()
    sync.becomes("Synced", synced=1)
    # As a restore from a backup leaves it.
    body = sync.read()
    del body["status"]
    sync.sandbox.request("PUT", f"{sync.path}/status", body)
    sync.delete()
    sync.gone()
    world.find("Secret", target).gone()
    world.find("Deployment", target).gone()


def test_orphaned_copies_are_owned_again_by_a_sync_of_the_same_name(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], deletionPolicy="Orphan")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    uid = copy.uid
    sync.delete()
    sync.gone()
    again = world.msync("sync", source, into=[target])
    again.becomes("Synced", synced=1)
    assert copy.uid == uid
    world.stays_quiet(again)
    again.delete()
    copy.gone()


def test_a_sync_whose_kind_is_gone_can_be_deleted(world: Manifests) -> None:
    definition = world.define(f"{world.name}s", world.name.capitalize())
    ref = {"apiVersion": "example.com/v1", "kind": world.name.capitalize(), "name": "app"}
    target = world.namespace("a")
    sync = world.msync(sourceRef=ref, targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("SourceNotFound")
    definition.delete()
    definition.gone()
    sync.becomes("KindNotServed")
    sync.delete()
    sync.gone()


def test_copies_that_are_in_no_namespace_are_orphaned_and_owned_again_as_others_are(world: Manifests) -> None:
    source = world.make("PriorityClass", name=f"{world.name}-source", value=10)
    copy = world.find("PriorityClass", name=f"{world.name}-copy")
    sync = world.msync("sync", source, targetName=copy.name, deletionPolicy="Orphan")
    sync.becomes("Synced", synced=1)
    uid = copy.uid
    sync.delete()
    sync.gone()
    assert copy.uid == uid
    again = world.msync("sync", source, targetName=copy.name)
    again.becomes("Synced", synced=1)
    assert copy.uid == uid
    again.delete()
    copy.gone()
