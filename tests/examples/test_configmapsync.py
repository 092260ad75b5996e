"""Each file of examples/configmapsync is taken by a real API server and does what its first lines say."""

from collections.abc import Callable

from tests.examples.scene import Scene

from syncline.core.ownership import MARKER, OWNER_LABEL

Play = Callable[[str], Scene]


def test_01_every_namespace_with_the_label_gets_a_copy(play: Play) -> None:
    scene = play("configmapsync/01-namespaces-by-label.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    source = scene.data("platform", "app-settings")
    assert [scene.data(team, "app-settings") for team in ("team-a", "team-b", "team-c")] == [source] * 3
    assert scene.data("scratch", "app-settings") is None


def test_02_some_keys_are_copied_under_other_names(play: Play) -> None:
    scene = play("configmapsync/02-keys-and-names.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    assert set(scene.data("shop-web", "shop-web-nginx") or ()) == {"nginx.conf", "mime.types"}
    assert scene.data("shop-web", "nginx") is None


def test_03_each_copy_says_something_of_its_own(play: Play) -> None:
    scene = play("configmapsync/03-transforms.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    for region in ("bank-eu", "bank-us"):
        assert scene.data(region, "app") == {
            "app.yaml": f"host: app.{region}.example.com\n",
            "log-level": "warn",
            "managed-by": "Syncline, from bank/app",
        }


def test_04_an_adopted_object_is_given_back(play: Play) -> None:
    scene = play("configmapsync/04-adopt.yaml")
    scene.eventually(lambda: scene.data("clinic-ward", "limits") == {"beds": "20"})
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    scene.delete_sync()
    released = scene.config_map("clinic-ward", "limits")
    assert released is not None
    assert released["data"] == {"beds": "20"}
    assert OWNER_LABEL not in released["metadata"].get("labels", {})
    assert MARKER not in released["metadata"].get("annotations", {})


def test_05_a_team_overrides_single_keys(play: Play) -> None:
    scene = play("configmapsync/05-merge.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    scene.edit("press-desk", "defaults", {"font": "mono", "motto": "ours"})
    scene.edit("press", "defaults", {"columns": "4"})
    expected = {"font": "mono", "motto": "ours", "columns": "4"}
    scene.eventually(lambda: scene.data("press-desk", "defaults") == expected)
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))


def test_06_a_starting_point_is_handed_out_once(play: Play) -> None:
    scene = play("configmapsync/06-starter.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    scene.edit("lab-1", "welcome", {"README": "Changed."})
    scene.delete("lab-2", "welcome")
    scene.edit("school", "welcome", {"README": "A new edition."})

    def both_kept() -> bool:
        return [target["reason"] for target in scene.targets() if target["status"] == "Skipped"] == ["Kept", "Kept"]

    scene.eventually(both_kept)
    assert scene.data("lab-1", "welcome") == {"README": "Changed."}
    assert scene.data("lab-2", "welcome") is None
    scene.delete_sync()
    assert scene.data("lab-1", "welcome") == {"README": "Changed."}


def test_07_a_sync_acts_with_the_rights_of_its_account(play: Play) -> None:
    scene = play("configmapsync/07-as-a-service-account.yaml")
    scene.eventually(lambda: scene.ready() == ("False", "Forbidden"))
    assert scene.data("port-north", "tides") == {"high": "06:12"}
    assert scene.data("port-south", "tides") is None
    (failed,) = (target for target in scene.targets() if target["status"] == "Failed")
    assert failed["namespace"] == "port-south"
    assert 'cannot create resource "configmaps"' in failed["message"]


def test_08_both_sides_may_edit(play: Play) -> None:
    scene = play("configmapsync/08-both-ways.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    scene.edit("duo-two", "shared", {"theme": "light"})
    scene.edit("duo", "shared", {"size": "large"})
    expected = {"theme": "light", "size": "large"}
    for side in ("duo", "duo-two"):
        scene.eventually(lambda: scene.data(side, "shared") == expected)  # noqa: B023 - called at once
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))


def test_09_each_key_has_the_policy_that_suits_it(play: Play) -> None:
    scene = play("configmapsync/09-key-policies.yaml")
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    scene.edit("cinema-north", "branding", {"logo": "ours.svg", "greeting": "Hello", "notice": "Closed."})
    scene.edit("cinema", "branding", {"screen-size": "huge"})
    expected = {"logo": "reel.svg", "screen-size": "huge", "greeting": "Hello", "notice": "Closed."}
    scene.eventually(lambda: scene.data("cinema-north", "branding") == expected)
    scene.eventually(lambda: scene.ready() == ("False", "Edited"))
    scene.edit("cinema-north", "branding", {"greeting": "Hello", "notice": "Doors open at eight."})
    scene.eventually(lambda: scene.ready() == ("True", "Synced"))
    assert scene.data("cinema-north", "branding") == {**expected, "notice": "Doors open at eight."}
