"""One source, bundles of several, sets that labels select; and what becomes of copies when a source goes."""

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests, Object


def chosen(world: Manifests, kind: str = "Secret", api_version: str = "v1", **labels: str) -> dict[str, object]:
    """Return a source that selects by labels."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": world.home,
        "selector": {"matchLabels": labels or {"copy": "yes"}},
    }


def labelled(world: Manifests, name: str, **labels: str) -> Object:
    """Create a Secret that may be selected."""
    return world.make("Secret", name=name, metadata={"labels": labels or {"copy": "yes"}}, stringData={"is": name})


def test_a_bundle_of_several_kinds_is_copied_as_one(world: Manifests) -> None:
    sources = [world.secret(), world.make("ConfigMap", data={"colour": "red"}), world.deployment(), world.service()]
    first, second = world.namespaces("a", "b")
    sync = world.msync("sync", *sources, into=[first, second])
    sync.becomes("Synced", desired=8, synced=8)
    assert sync.conditions["Ready"]["message"] == "8 targets agree with the source"
    for target in (first, second):
        for source in sources:
            assert world.find(source.kind, target).marked
    assert sync.status["written"] == ["ConfigMap", "Deployment.apps", "Secret", "Service"]
    world.stays_quiet(sync)


def test_when_one_source_of_a_bundle_is_deleted_only_its_copies_go(world: Manifests) -> None:
    secret, config, deployment = world.secret(), world.make("ConfigMap", data={"colour": "red"}), world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", secret, config, deployment, into=[target])
    sync.becomes("Synced", synced=3)
    uids = {kind: world.find(kind, target).uid for kind in ("ConfigMap", "Deployment")}
    secret.delete()
    world.find("Secret", target).gone()
    ready = sync.becomes("SourceNotFound")
    assert ready["message"] == f"the source Secret {world.home}/app does not exist"
    assert {kind: world.find(kind, target).uid for kind in uids} == uids
    config.put("data", "colour", value="blue")
    world.find("ConfigMap", target).shows("data", "colour", value="blue")
    world.secret(password="again")
    world.find("Secret", target).holds(password="again")
    sync.becomes("Synced", synced=3)


def test_an_object_that_gains_the_label_is_copied_and_one_that_loses_it_is_not_any_more(world: Manifests) -> None:
    labelled(world, "first")
    second = labelled(world, "second", other="yes")
    target = world.namespace("a")
    sync = world.msync(sourceRefs=[chosen(world)], targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", synced=1)
    second.label(copy="yes")
    world.find("Secret", target, "second").holds(**{"is": "second"})
    sync.becomes("Synced", synced=2)
    second.label(copy=None)
    world.find("Secret", target, "second").gone()
    sync.becomes("Synced", synced=1, desired=1)
    labelled(world, "third")
    world.find("Secret", target, "third").holds(**{"is": "third"})
    assert world.find("Secret", target, "first").marked


def test_a_selected_object_that_changes_is_copied_again_and_one_that_is_deleted_takes_its_copies(
    world: Manifests,
) -> None:
    first, second = labelled(world, "first"), labelled(world, "second")
    target = world.namespace("a")
    sync = world.msync(sourceRefs=[chosen(world)], targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", synced=2)
    first.keep(**{"is": "changed"})
    world.find("Secret", target, "first").holds(**{"is": "changed"})
    second.delete()
    world.find("Secret", target, "second").gone()
    sync.becomes("Synced", synced=1, desired=1)
    assert world.find("Secret", target, "first").marked


def test_a_selection_that_selects_nothing_is_at_peace(world: Manifests) -> None:
    target = world.namespace("a")
    sync = world.msync(sourceRefs=[chosen(world)], targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", desired=0)
    labelled(world, "first")
    world.find("Secret", target, "first").appears()


def test_copies_are_not_selected_though_they_carry_the_label(world: Manifests) -> None:
    labelled(world, "first")
    one, two = world.namespaces("one", "two")
    first = world.msync("first", sourceRefs=[chosen(world)], targets={"inCluster": {"namespaces": [one]}})
    first.becomes("Synced", synced=1)
    copy = world.find("Secret", one, "first")
    assert copy.labels == {"copy": "yes"}
    second = world.msync(
        "second",
        sourceRefs=[{**chosen(world), "namespace": one}],
        targets={"inCluster": {"namespaces": [two]}},
    )
    second.becomes("Synced", desired=0)
    world.stays_quiet(first, second)
    assert world.find("Secret", two, "first").look() is None


def test_a_selected_set_is_never_copied_onto_itself(world: Manifests) -> None:
    labelled(world, "first")
    target = world.namespace("a")
    sync = world.msync(sourceRefs=[chosen(world)], targets={"inCluster": {"namespaces": [world.home, target]}})
    sync.becomes("Synced", desired=1, synced=1)


def test_a_set_and_a_name_that_mean_one_object_are_one_source(world: Manifests) -> None:
    source = labelled(world, "first")
    target = world.namespace("a")
    sync = world.msync(sourceRefs=[chosen(world), source.ref], targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", desired=1, synced=1)


def test_two_sources_for_one_place_are_refused(world: Manifests) -> None:
    one, two = world.secret("one"), world.secret("two")
    target = world.namespace("a")
    sync = world.msync("sync", one, two, into=[target], targetName="same")
    ready = sync.becomes("SameTarget")
    assert "would both become" in ready["message"]
    assert "Stalled" in sync.conditions
    assert world.find("Secret", target, "same").look() is None


@pytest.mark.parametrize("kind", ["Secret", "Deployment"])
def test_when_the_source_is_deleted_its_copies_go(world: Manifests, kind: str) -> None:
    source = world.secret() if kind == "Secret" else world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    source.delete()
    world.find(kind, target).gone()
    sync.becomes("SourceNotFound")
    assert sync.target(target)["status"] == "Pending"


def test_when_the_source_is_deleted_orphans_stay_if_the_policy_says_so(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], sourceDeletionPolicy="Orphan")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    uid = copy.uid
    source.delete()
    ready = sync.becomes("SourceNotFound")
    assert "its copies stay (sourceDeletionPolicy Orphan)" in ready["message"]
    sync.now()
    assert copy.uid == uid
    world.deployment(replicas=3)
    copy.shows("spec", "replicas", value=3)
    assert copy.uid == uid


def test_of_a_selected_set_too_orphans_stay_but_what_is_no_longer_selected_goes(world: Manifests) -> None:
    deleted, deselected = labelled(world, "deleted"), labelled(world, "deselected")
    target = world.namespace("a")
    sync = world.msync(
        sourceRefs=[chosen(world)],
        targets={"inCluster": {"namespaces": [target]}},
        sourceDeletionPolicy="Orphan",
    )
    sync.becomes("Synced", synced=2)
    deleted.delete()
    deselected.label(copy=None)
    world.find("Secret", target, "deselected").gone()
    sync.becomes("Synced", desired=0)
    assert world.find("Secret", target, "deleted").values == {"is": "deleted"}
    world.stays_quiet(sync)
    labelled(world, "deleted")
    sync.becomes("Synced", synced=1)


def test_a_source_that_is_replaced_keeps_its_copies(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    uid = copy.uid
    source.delete()
    world.secret(password="new")
    copy.holds(password="new")
    assert copy.uid == uid


def test_another_kind_in_the_spec_removes_the_copies_of_the_former_one(world: Manifests) -> None:
    secret, deployment = world.secret(), world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", secret, into=[target])
    sync.becomes("Synced", synced=1)
    sync.change(sourceRef=deployment.ref)
    world.find("Deployment", target).appears()
    world.find("Secret", target).gone()
    sync.becomes("Synced", desired=1, synced=1)
    sync.change(sourceRef={**secret.ref})
    world.find("Secret", target).appears()
    world.find("Deployment", target).gone()


def test_another_source_of_the_same_name_takes_the_copies_over(world: Manifests) -> None:
    other, target = world.namespaces("other", "a")
    one, two = world.secret(password="one"), world.secret(namespace=other, password="two")
    sync = world.msync("sync", one, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    uid = copy.uid
    sync.change(sourceRef=two.ref)
    copy.holds(password="two")
    assert copy.uid == uid


def test_a_source_of_a_mebibyte_is_copied(world: Manifests) -> None:
    text = "x" * 64 * 1024
    source = world.make("ConfigMap", data={f"part-{number:02}": text for number in range(15)})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("ConfigMap", target)
    assert copy.at("data") == source.at("data")
    source.put("data", "part-00", value="y" * 64 * 1024)
    until(lambda: copy.at("data", "part-00"), lambda seen: seen.startswith("y"))
    world.stays_quiet(sync)
