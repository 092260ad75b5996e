"""What a copy holds: keys, transforms, binary data, labels and annotations, immutability."""

import pytest
from tests.configmapsync.world import World, until

PLANTED = "hunter2-swordfish"


def test_keys_are_included_excluded_and_renamed(world: World) -> None:
    world.source(**{"app.yaml": "1", "log.yaml": "2", "secret.yaml": "3", "notes.txt": "4"})
    target = world.namespace("a")
    world.sync(
        destinationNamespace=target,
        keys={"include": ["*.yaml"], "exclude": ["secret*"], "rename": {"app.yaml": "main.yaml"}},
    ).becomes("Synced")
    assert world.config_map(target).data == {"main.yaml": "1", "log.yaml": "2"}


def test_a_renamed_key_that_meets_another_is_invalid_until_the_source_or_the_spec_changes(world: World) -> None:
    source = world.source(old="1", new="2")
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, keys={"rename": {"old": "new"}})
    ready = sync.becomes("InvalidContent")
    assert ready["status"] == "False"
    assert ready["message"] == ("keys.rename gives 'new' and 'old' the same name 'new'; rename or exclude one of them")
    assert sync.conditions["Stalled"]["reason"] == "InvalidContent"
    assert world.config_map(target).look() is None
    source.set(new=None)
    world.config_map(target).becomes(new="1")
    sync.becomes("Synced")
    assert "Stalled" not in sync.conditions


def test_transforms_set_replace_and_template_values_in_order(world: World) -> None:
    world.source(url="http://db.old.example:80/x", level="info", greeting="hello")
    one, two = world.namespaces("one", "two")
    world.sync(
        destinationNamespaces=[one, two],
        destinationName="settings",
        transforms=[
            {"key": "url", "replace": {"pattern": r"http://([a-z]+)\.old", "with": r"https://\1.new"}},
            {"key": "level", "set": "debug"},
            {"key": "added", "set": "new"},
            {"key": "greet*", "template": "{{ value | upper }} {{ target.namespace }}/{{ target.name }}"},
            {"key": "greeting", "template": "{{ value }} from {{ source.namespace }}/{{ source.name }} ({{ key }})"},
        ],
    ).becomes("Synced")
    for namespace in (one, two):
        assert world.config_map(namespace, "settings").data == {
            "url": "https://db.new.example:80/x",
            "level": "debug",
            "added": "new",
            "greeting": f"HELLO {namespace}/settings from {world.home}/app (greeting)",
        }


@pytest.mark.parametrize(
    ("template", "cause"),
    [("{{ value", "unexpected end of input"), ("{{ valeu }}", "an undefined value"), ("{{ value + 1 }}", "operation")],
    ids=["syntax", "undefined", "types"],
)
def test_a_broken_template_stalls_the_sync_and_names_the_key_never_the_value(
    world: World, template: str, cause: str
) -> None:
    world.source(password=PLANTED, other="x")
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, transforms=[{"key": "password", "template": template}])
    ready = sync.becomes("InvalidContent")
    assert ready["message"].startswith("transforms[0], key password")
    assert cause in ready["message"]
    assert sync.conditions["Stalled"]["message"] == ready["message"]
    assert PLANTED not in str(sync.read()) + str(sync.events())
    assert world.config_map(target).look() is None
    sync.change(transforms=[{"key": "password", "template": "{{ value | length }}"}])
    world.config_map(target).becomes(password=str(len(PLANTED)), other="x")
    sync.becomes("Synced")


def test_a_broken_template_leaves_existing_copies_as_they_are(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    world.config_map(target).becomes(colour="red")
    sync.change(transforms=[{"key": "colour", "template": "{{ nothing }}"}])
    sync.becomes("InvalidContent")
    source.set(colour="blue")
    sync.now()
    assert world.config_map(target).data == {"colour": "red"}
    assert sync.status["targetStatuses"][0]["status"] == "Unknown"


def test_a_template_that_fails_for_one_target_leaves_the_others_alone(world: World) -> None:
    world.source(password=PLANTED)
    good, bad = world.namespaces("good", "bad")
    template = "{% if target.namespace == '" + bad + "' %}{{ nothing }}{% endif %}for {{ target.namespace }}"
    sync = world.sync(destinationNamespaces=[good, bad], transforms=[{"key": "password", "template": template}])
    sync.becomes("InvalidContent", synced=1, failed=1)
    assert world.config_map(good).data == {"password": f"for {good}"}
    assert "key password" in sync.target(bad)["message"]
    assert PLANTED not in str(sync.read())
    assert world.config_map(bad).look() is None


def test_binary_data_is_copied_selected_and_renamed(world: World) -> None:
    source = world.put(world.home, body={"data": {"text": "x"}, "binaryData": {"logo": "AAECAw==", "junk": "/w=="}})
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target, keys={"exclude": ["junk"], "rename": {"logo": "icon"}})
    sync.becomes("Synced")
    assert copy.read()["binaryData"] == {"icon": "AAECAw=="}
    assert copy.data == {"text": "x"}
    source.edit(lambda body: body.update(binaryData={"logo": "BAUG"}, data={}))
    copy.becomes()
    assert copy.read()["binaryData"] == {"icon": "BAUG"}


def test_a_key_may_move_from_data_to_binary_data(world: World) -> None:
    source = world.source(logo="text", other="x")
    target = world.namespace("a")
    copy = world.config_map(target)
    world.sync(destinationNamespace=target).becomes("Synced")
    source.edit(lambda body: body.update(data={"other": "x"}, binaryData={"logo": "AAECAw=="}))
    copy.becomes(other="x")
    assert copy.read()["binaryData"] == {"logo": "AAECAw=="}


def test_an_empty_config_map_is_copied_and_emptied_copies_stay(world: World) -> None:
    source = world.put(world.home, body={"data": None})
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy.becomes()
    source.set(colour="red")
    copy.becomes(colour="red")
    source.set(colour=None)
    copy.becomes()
    sync.becomes("Synced", synced=1)


def test_an_immutable_source_makes_immutable_copies_that_are_made_anew_when_it_is(world: World) -> None:
    source = world.source(colour="red")
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target)
    copy.becomes(colour="red")
    first = copy.uid
    source.edit(lambda body: body.update(immutable=True))
    until(copy.read, lambda seen: seen.get("immutable"))
    assert copy.uid == first
    source.delete()
    world.put(world.home, body={"immutable": True, "data": {"colour": "blue"}})
    copy.becomes(colour="blue")
    assert copy.uid != first
    assert copy.read()["immutable"] is True
    sync.did("1 recreated")


def test_labels_and_annotations_travel_those_of_tools_and_owner_references_do_not(world: World) -> None:
    owner = world.put(world.home, "owner")
    tools = {
        "app.kubernetes.io/instance": "argo",
        "app.kubernetes.io/managed-by": "Helm",
        "argocd.argoproj.io/instance": "x",
        "kustomize.toolkit.fluxcd.io/name": "x",
        "syncline.dev/mine": "x",
    }
    notes = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "meta.helm.sh/release-name": "x",
        "argocd.argoproj.io/tracking-id": "x",
    }
    source = world.put(
        world.home,
        metadata={
            "labels": {"example.com/team": "a", "tier": "web", **tools},
            "annotations": {"note": "y" * 100, "reloader.stakater.com/match": "true", **notes},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}],
            "finalizers": ["example.com/hold"],
        },
        colour="red",
    )
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    assert copy.labels == {"example.com/team": "a", "tier": "web"}
    assert copy.annotations == {"note": "y" * 100, "reloader.stakater.com/match": "true"}
    assert "ownerReferences" not in copy.read()["metadata"]
    assert "finalizers" not in copy.read()["metadata"]

    copy.label(mine="kept")
    source.label(**{"example.com/team": None, "tier": "db"})
    source.annotate({"note": None})
    source.edit(lambda body: body["metadata"].update(finalizers=[]))
    copy.wears(tier="db", mine="kept")
    sync.now()
    assert copy.annotations == {"reloader.stakater.com/match": "true"}


def test_a_label_of_ours_that_somebody_changed_or_removed_is_repaired(world: World) -> None:
    world.put(world.home, metadata={"labels": {"team": "a", "tier": "web"}}, colour="red")
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy.label(team="stolen", tier=None)
    copy.wears(team="a", tier="web")
    sync.did("1 updated")
