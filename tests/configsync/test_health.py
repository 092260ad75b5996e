"""What was applied is waited for, by events and not by turns; what is newer is never held up by it."""

from tests.configmapsync.world import until
from tests.configsync.world import GitWorld, config_map, fares, manifest, stateful_set
from tests.manifestsync.world import deployment_spec


def test_ready_waits_until_what_was_applied_is_healthy(world: GitWorld) -> None:
    commit = world.push({"app.yaml": stateful_set()})
    sync = world.csync(wait=True)
    ready = sync.becomes("Progressing")
    assert "app" in ready["message"]
    assert sync.conditions["Reconciling"]["status"] == "True"
    assert sync.conditions["Healthy"]["status"] == "Unknown"
    assert sync.conditions["Failed"]["status"] == "False"
    fares(world.find("StatefulSet", world.home))
    status = sync.at(commit)
    assert status["lastHealthyRevision"] == commit
    assert sync.conditions["Healthy"]["status"] == "True"
    assert "Reconciling" not in sync.conditions


def test_what_falls_ill_is_not_ready_until_it_is_well_again(world: GitWorld) -> None:
    commit = world.push({"app.yaml": stateful_set()})
    sync = world.csync(wait=True)
    app = world.find("StatefulSet", world.home)
    app.appears()
    fares(app)
    sync.at(commit)
    fares(app, well=False)
    sync.becomes("Progressing")
    fares(app)
    sync.at(commit)


def test_a_rollout_that_has_failed_is_told_at_once_and_not_after_the_timeout(world: GitWorld) -> None:
    spec = {**deployment_spec(), "progressDeadlineSeconds": 1, "replicas": 1}
    world.push({"app.yaml": manifest("apps/v1", "Deployment", "app", spec=spec)})
    sync = world.csync(wait=True, timeout="1h")
    ready = sync.becomes("HealthCheckFailed")
    assert "progress" in ready["message"]
    assert sync.conditions["Healthy"]["status"] == "False"
    assert sync.status["history"][0]["result"] == "Failed"


def test_what_is_not_healthy_in_time_has_failed(world: GitWorld) -> None:
    world.push({"app.yaml": stateful_set()})
    sync = world.csync(wait=True, timeout="1s")
    ready = sync.becomes("HealthCheckFailed")
    assert "after 1 s" in ready["message"]


def test_a_fix_replaces_a_revision_that_is_still_waited_for(world: GitWorld) -> None:
    world.push({"app.yaml": stateful_set(image="example.com/app:broken")})
    sync = world.csync(wait=True, timeout="1h")
    sync.becomes("Progressing")
    fixed = world.push({"app.yaml": stateful_set(image="example.com/app:fixed")})
    sync.now()
    app = world.find("StatefulSet", world.home)
    app.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/app:fixed")
    fares(app)
    sync.at(fixed)


def test_a_fix_replaces_a_revision_of_which_a_part_cannot_be_applied(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "bad.yaml": manifest("example.com/v1", "Unheard", "bad")})
    sync = world.csync(wait=True, timeout="1h")
    sync.becomes("KindNotServed", failed=1)
    fixed = world.push({"app.yaml": config_map(colour="blue"), "bad.yaml": None})
    sync.now()
    sync.at(fixed)
    world.find("ConfigMap", world.home).holds_data(colour="blue")


def test_a_sync_goes_ahead_as_soon_as_the_one_that_it_depends_on_is_ready(world: GitWorld) -> None:
    commit = world.push({"base/app.yaml": stateful_set("base"), "top/app.yaml": config_map("top")})
    top = world.csync("top", git={"path": "top"}, dependsOn=[{"name": "base"}])
    assert "does not exist" in top.becomes("DependencyNotReady")["message"]
    base = world.csync("base", git={"path": "base"}, wait=True)
    base.becomes("Progressing")
    until(lambda: top.message, lambda message: "not ready" in message)
    assert world.find("ConfigMap", world.home, "top").look() is None
    fares(world.find("StatefulSet", world.home, "base"))
    top.at(commit)


def test_what_is_applied_already_is_still_repaired_while_a_dependency_is_not_ready(world: GitWorld) -> None:
    commit = world.push({"base/app.yaml": stateful_set("base"), "top/app.yaml": config_map("top", colour="red")})
    base = world.csync("base", git={"path": "base"}, wait=True)
    world.find("StatefulSet", world.home, "base").appears()
    fares(world.find("StatefulSet", world.home, "base"))
    base.at(commit)
    top = world.csync("top", git={"path": "top"}, dependsOn=[{"name": "base"}])
    top.at(commit)
    fares(world.find("StatefulSet", world.home, "base"), well=False)
    base.becomes("Progressing")
    copy = world.find("ConfigMap", world.home, "top")
    copy.put("data", "colour", value="green")
    copy.holds_data(colour="red")
    top.at(commit)


def test_syncs_that_depend_on_each_other_say_so(world: GitWorld) -> None:
    world.push({"app.yaml": config_map()})
    one = world.csync("one", dependsOn=[{"name": "two"}])
    two = world.csync("two", dependsOn=[{"name": "one"}])
    for sync in (one, two):
        sync.becomes("DependencyCycle")
        assert sync.conditions["Stalled"]["status"] == "True"
    assert world.find("ConfigMap", world.home).look() is None


def test_what_is_left_to_others_is_not_waited_for(world: GitWorld) -> None:
    theirs = stateful_set("theirs")
    world.make("StatefulSet", name="theirs", spec=theirs["spec"])
    commit = world.push({"app.yaml": config_map(), "theirs.yaml": theirs})
    sync = world.csync(wait=True, timeout="1h", resourceManagementPolicy="Keep")
    sync.at(commit)
    assert sync.counts == {"desired": 2, "synced": 1, "skipped": 1}
