"""A sync works with what the repository has now, not with what somebody read of it some time ago."""

from tests.configmapsync.world import until
from tests.configsync.world import GitWorld, config_map

HOURS = "24h"


def test_a_sync_of_a_folder_that_was_pushed_a_moment_ago_finds_it(world: GitWorld) -> None:
    first = world.push({"one/app.yaml": config_map("one")})
    world.csync("one", git={"path": "one"}, refreshInterval=HOURS).at(first)
    second = world.push({"two/app.yaml": config_map("two")})
    sync = world.csync("two", git={"path": "two"}, refreshInterval=HOURS)
    sync.at(second)
    sync.tells("Synced")
    assert {event["reason"] for event in sync.events()} == {"Synced"}


def test_a_sync_of_what_was_changed_a_moment_ago_applies_the_change_and_nothing_older(world: GitWorld) -> None:
    first = world.push({"one/app.yaml": config_map("one"), "two/app.yaml": config_map("two", colour="red")})
    world.csync("one", git={"path": "one"}, refreshInterval=HOURS).at(first)
    second = world.push({"two/app.yaml": config_map("two", colour="blue")})
    sync = world.csync("two", git={"path": "two"}, refreshInterval=HOURS)
    sync.at(second)
    assert sync.history == [second]


def test_a_branch_that_was_pushed_a_moment_ago_is_found(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map()})
    world.csync("main", refreshInterval=HOURS).at(first)
    commit = world.push({"app.yaml": config_map("other")}, ref="refs/heads/next")
    sync = world.csync("next", git={"revision": "next"}, refreshInterval=HOURS)
    sync.at(commit)
    sync.tells("Synced")
    assert {event["reason"] for event in sync.events()} == {"Synced"}


def test_an_edited_sync_looks_for_its_new_path_at_the_server(world: GitWorld) -> None:
    first = world.push({"one/app.yaml": config_map("one")})
    sync = world.csync(git={"path": "one"}, refreshInterval=HOURS)
    sync.at(first)
    second = world.push({"two/app.yaml": config_map("two")})
    sync.change(source=world.git(path="two"))
    sync.at(second)


def test_a_path_that_is_not_there_is_told_with_the_commit_that_was_looked_at(world: GitWorld) -> None:
    first = world.push({"one/app.yaml": config_map("one")})
    sync = world.csync(git={"path": "two"}, refreshInterval=HOURS)
    message = sync.becomes("PathNotFound")["message"]
    assert message == f"commit {first[:12]} has no file or folder 'two': push it, or correct source.git.path"
    second = world.push({"more/app.yaml": config_map("more")})
    sync.now()
    until(lambda: sync.message, lambda message: second[:12] in message)


def test_one_check_serves_all_syncs_that_appeared_before_it_began(world: GitWorld) -> None:
    files = {f"{number}/app.yaml": config_map(f"app-{number}") for number in range(20)}
    first = world.push({"first/app.yaml": config_map("first"), **files})
    world.csync("first", git={"path": "first"}, refreshInterval=HOURS).at(first)
    before = world.server.checks(world.name)
    world.server.hold(world.name)
    try:
        syncs = [world.csync("sync-0", git={"path": "0"}, refreshInterval=HOURS)]
        until(lambda: world.server.waiting(world.name), lambda waiting: waiting == 1)
        syncs += [
            world.csync(f"sync-{number}", git={"path": str(number)}, refreshInterval=HOURS) for number in range(1, 20)
        ]
        for sync in syncs:
            sync.becomes_held()
    finally:
        world.server.release(world.name)
    for sync in syncs:
        sync.at(first)
    assert world.server.checks(world.name) - before == 2
