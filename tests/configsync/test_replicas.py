"""Several replicas of the operator: a push that is announced to any of them arrives, and none is lost."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.configmapsync.world import until
from tests.configsync.test_webhooks import announce, post
from tests.configsync.world import ConfigSync, GitWorld, config_map
from tests.faults.gates import RequestGate
from tests.faults.scene import calm_operator, metric, turns

from syncline import deploy
from syncline.api.common import PUSHED_AT
from syncline.controllers.sources.push_records import SPACING
from syncline.sandbox import Sandbox
from syncline.testing.faults import Asked, Fault
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{deploy.NAMESPACE}/leases"
SECRET = "the-secret-of-the-sync-1"
FLAGS = ("--leader-elect", "--allow-loopback", "--webhook-bind", "127.0.0.1:0", "--git-cache")


class Replica(NamedTuple):
    """One replica, and the proxy that it reaches the API server through."""

    operator: OperatorProcess
    proxy: FaultProxy

    @property
    def url(self) -> str:
        """Where it takes webhooks."""
        serving = next(event for event in self.operator.events() if event.get("event") == "serving")
        return f"http://{serving['webhooks']}/webhook"

    @property
    def leads(self) -> bool:
        return metric(self.operator, "syncline_leader") == 1


class Stage(NamedTuple):
    """A world with a leader and a spare."""

    world: GitWorld
    leader: Replica
    spare: Replica

    def sync(self) -> tuple[ConfigSync, str]:
        """Return a sync that only a webhook can wake, and the commit that it is at."""
        self.world.secret("hook", token=SECRET)
        first = self.world.push({"app.yaml": config_map(colour="red")})
        sync = self.world.csync(webhook={"secretRef": {"name": "hook"}}, refreshInterval="24h")
        sync.at(first)
        for one in (self.leader, self.spare):
            until(lambda url=one.url: self._ping(url), lambda status: status == 202)
        return sync, first

    def _ping(self, url: str) -> int:
        return post(f"{url}/{self.world.home}/sync", SECRET, {"zen": ""}, **{"X-GitHub-Event": "ping"})

    def next(self) -> str:
        """Push a change."""
        return self.world.push({"app.yaml": config_map(colour="blue")})


def is_record(asked: Asked) -> bool:
    return asked.changes and asked.resource == "configsyncs" and not asked.subresource


@contextmanager
def replica(sandbox: Sandbox, kubeconfig: Path, cache: Path) -> Iterator[Replica]:
    """Run a replica with the shipped role."""
    with FaultProxy(sandbox) as proxy, calm_operator(proxy.kubeconfig(kubeconfig), *FLAGS, str(cache)) as operator:
        yield Replica(operator, proxy)


@pytest.fixture
def stage(arena: Sandbox, arena_kubeconfig: Path, git_server: GitServer, tmp_path: Path) -> Iterator[Stage]:
    arena.request("DELETE", LEASES)
    with replica(arena, arena_kubeconfig, tmp_path / "one") as leader:
        until(lambda: leader.leads, bool)
        with replica(arena, arena_kubeconfig, tmp_path / "two") as spare:
            world = GitWorld(arena, git_server)
            yield Stage(world, leader, spare)
            assert leader.leads or spare.leads
            world.end()


def test_a_push_that_is_announced_to_a_spare_reaches_the_cluster(stage: Stage) -> None:
    sync, _ = stage.sync()
    second = stage.next()
    assert announce(stage.spare.url, stage.world, "guessed", second) == 401
    assert announce(stage.spare.url, stage.world, SECRET, second) == 202
    sync.at(second)
    assert stage.leader.leads
    assert not stage.spare.leads
    assert [asked.verb for asked in stage.spare.proxy.requests if is_record(asked)] == ["patch"]


def test_a_spare_knows_a_changed_secret_at_once(stage: Stage) -> None:
    sync, _ = stage.sync()
    stage.world.find("Secret", stage.world.home, "hook").keep(token="another")
    second = stage.next()
    until(lambda: announce(stage.spare.url, stage.world, "another", second), lambda status: status == 202)
    assert announce(stage.spare.url, stage.world, SECRET, second) == 401
    sync.at(second)


def test_a_delivery_that_comes_again_is_written_down_once(stage: Stage) -> None:
    sync, first = stage.sync()
    assert [announce(stage.spare.url, stage.world, SECRET, first) for _ in range(5)] == [202] * 5
    assert stage.spare.proxy.count(is_record) == 1
    assert PUSHED_AT in sync.read()["metadata"]["annotations"]


def test_a_flood_of_deliveries_is_no_flood_of_writes(stage: Stage) -> None:
    sync, _ = stage.sync()
    gate = RequestGate(stage.spare.proxy, is_record)
    began = time.monotonic()
    with ThreadPoolExecutor(25) as senders:
        first = senders.submit(announce, stage.spare.url, stage.world, SECRET, stage.next(), delivery="0")
        until(lambda: gate.is_reached, bool)
        last = stage.next()
        rest = [
            senders.submit(announce, stage.spare.url, stage.world, SECRET, last, delivery=str(number))
            for number in range(1, 25)
        ]
        gate.release()
        assert [sent.result() for sent in (first, *rest)] == [202] * 25
    sync.at(last)
    assert stage.spare.proxy.count(is_record) <= 2 + (time.monotonic() - began) / SPACING


def test_a_delivery_that_cannot_be_written_down_is_refused_and_may_come_again(stage: Stage) -> None:
    sync, _ = stage.sync()
    second = stage.next()
    away = stage.spare.proxy.inject(Fault(status=403), when=is_record)
    assert announce(stage.spare.url, stage.world, SECRET, second) == 503
    assert away.hits
    away.lift()
    assert announce(stage.spare.url, stage.world, SECRET, second) == 202
    sync.at(second)


def test_a_push_that_is_announced_while_the_leader_is_gone_is_not_lost(stage: Stage) -> None:
    sync, _ = stage.sync()
    stage.leader.operator.pause()
    second = stage.next()
    assert announce(stage.spare.url, stage.world, SECRET, second) == 202
    sync.at(second)
    assert stage.spare.leads
    stage.leader.operator.resume()


def test_a_push_that_a_leader_took_and_died_with_is_found_by_one_that_led_before(
    arena: Sandbox, arena_kubeconfig: Path, git_server: GitServer, tmp_path: Path
) -> None:
    arena.request("DELETE", LEASES)
    with replica(arena, arena_kubeconfig, tmp_path / "one") as first, FaultProxy(arena) as proxy:
        until(lambda: first.leads, bool)
        flags = (*FLAGS, str(tmp_path / "two"))
        with OperatorProcess(proxy.kubeconfig(arena_kubeconfig), *flags) as operator:
            second = Replica(operator, proxy)
            stage = Stage(GitWorld(arena, git_server), first, second)
            sync, _ = stage.sync()
            first.operator.pause()
            # A reconcile without a write: nothing but the Git server knows of what the second is told then.
            until(lambda: turns(operator), bool)
            first.operator.resume()
            until(lambda: not first.leads, bool)
            git_server.hold(stage.world.name)
            commit = stage.next()
            assert announce(second.url, stage.world, SECRET, commit) == 202
            until(lambda: git_server.waiting(stage.world.name), bool)
            operator.kill()
            git_server.release(stage.world.name)
        until(lambda: first.leads, bool)
        sync.at(commit)
        stage.world.end()


def test_a_replica_that_starts_takes_no_delivery_before_it_knows_the_secrets(
    arena: Sandbox, arena_kubeconfig: Path, git_server: GitServer, tmp_path: Path
) -> None:
    world = GitWorld(arena, git_server)
    world.secret("hook", token=SECRET)
    commit = world.push({"app.yaml": config_map()})
    sync = world.csync(webhook={"secretRef": {"name": "hook"}}, refreshInterval="24h")
    flags = ("--allow-loopback", "--git-cache", str(tmp_path / "git"), "--webhook-bind", "127.0.0.1:0")
    with FaultProxy(arena) as proxy:
        gate = RequestGate(proxy, lambda asked: asked.verb == "get" and asked.name == "hook")
        with calm_operator(proxy.kubeconfig(arena_kubeconfig), *flags, wait=False) as operator:
            until(lambda: gate.is_reached, bool)
            starting = Replica(operator, proxy)
            assert announce(starting.url, world, SECRET, commit) == 503
            assert announce(starting.url, world, "guessed", commit) == 503
            assert post(f"{starting.url}/nowhere/nobody", SECRET, {"ref": "main"}) == 503
            assert not operator.is_ready()
            gate.release()
            until(operator.is_ready, bool)
            assert announce(starting.url, world, SECRET, commit) == 202
            sync.at(commit)
            world.end()
