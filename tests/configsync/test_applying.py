"""What is in Git is in the cluster, and stays so."""

from tests.configsync.world import GitWorld, config_map, manifest


def test_what_git_says_is_applied(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    status = sync.at(commit)
    world.find("ConfigMap", world.home).holds_data(colour="red")
    assert status["appliedTargets"] == 1
    assert sync.conditions["Synced"]["status"] == "True"
    assert sync.conditions["InvalidSource"]["status"] == "False"


def test_a_new_commit_replaces_the_old_one(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(colour="red"), "other.yaml": config_map("other")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    other = world.find("ConfigMap", world.home, "other").uid
    commit = world.push({"app.yaml": config_map(colour="blue")})
    sync.now()
    sync.at(commit)
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "blue"}
    assert world.find("ConfigMap", world.home, "other").uid == other


def test_a_push_is_picked_up_by_the_interval_alone(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync(refreshInterval="10s")
    sync.at(first)
    handled = sync.status.get("lastHandledRequest")
    second = world.push({"app.yaml": config_map(colour="blue")})
    sync.at(second)
    world.find("ConfigMap", world.home).holds_data(colour="blue")
    assert (sync.read()["metadata"]["generation"], sync.status.get("lastHandledRequest")) == (1, handled)


def test_what_leaves_git_leaves_the_cluster(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "other.yaml": config_map("other")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    world.push({"other.yaml": None})
    sync.now()
    world.find("ConfigMap", world.home, "other").gone()
    sync.becomes("Synced", synced=1)


def test_a_changed_object_is_repaired(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(commit)
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    app.holds_data(colour="red")
    sync.tells("DriftRepaired")


def test_a_deleted_sync_takes_its_objects_along(world: GitWorld) -> None:
    commit = world.push(
        {"app.yaml": config_map(), "svc.yaml": manifest("v1", "Service", "web", spec={"ports": [{"port": 80}]})}
    )
    sync = world.csync()
    sync.at(commit)
    sync.delete()
    sync.gone()
    assert world.find("ConfigMap", world.home).look() is None
    assert world.find("Service", world.home, "web").look() is None


def test_once_applied_nothing_is_written(world: GitWorld) -> None:
    commit = world.push(
        {"app.yaml": config_map(), "svc.yaml": manifest("v1", "Service", "web", spec={"ports": [{"port": 80}]})}
    )
    sync = world.csync()
    sync.at(commit)
    world.stays_quiet(sync)


def test_a_commit_that_does_not_touch_the_path_writes_nothing_at_all(world: GitWorld) -> None:
    first = world.push({"mine/app.yaml": config_map(), "theirs/app.yaml": config_map("other")})
    sync, witness = world.csync(git={"path": "mine"}), world.csync("witness", git={"path": "theirs"})
    sync.at(first)
    witness.at(first)
    version = sync.read()["metadata"]["resourceVersion"]
    mark = world.mark()
    second = world.push({"theirs/app.yaml": config_map("other", changed="yes")})
    witness.now()
    witness.at(second)
    assert sync.read()["metadata"]["resourceVersion"] == version
    sync.now()
    assert sync.revision == second
    assert not [entry for entry in world.copying(mark) if "/other" not in entry]


def test_finalizers_that_git_asks_for_are_set_and_stay(world: GitWorld) -> None:
    service = manifest("v1", "Service", "web", spec={"ports": [{"port": 80}]})
    service["metadata"]["finalizers"] = ["example.com/hold"]
    first = world.push({"web.yaml": service})
    sync = world.csync()
    sync.at(first)
    service["spec"]["ports"] = [{"port": 81}]
    second = world.push({"web.yaml": service})
    sync.now()
    sync.at(second)
    web = world.find("Service", world.home, "web")
    assert web.at("spec", "ports", 0, "port") == 81
    assert web.at("metadata", "finalizers") == ["example.com/hold"]
    web.put("metadata", "finalizers", value=[])
