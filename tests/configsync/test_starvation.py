"""What one namespace makes the operator wait for: another namespace does not wait with it.

The attackers are at a gate: their Git servers and clusters take connections and never answer. So whatever the victim
gets while all of them still wait, it gets without them.
"""

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from tests.configmapsync.world import Sync, conditions, until
from tests.configsync.world import GitWorld
from tests.fleet.forms import kubeconfig

from syncline.git import Limits
from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer

GIT_SERVERS, CLUSTERS = 8, 10
TALKS = Limits().talks // 2  # of one namespace at once
COMMIT = "0123456789" * 4


@pytest.fixture
def victim(sandbox: Sandbox, git_server: GitServer) -> Iterator[GitWorld]:
    """Somebody else's namespaces."""
    world = GitWorld(sandbox, git_server)
    yield world
    world.end()


@pytest.fixture
def silent() -> Iterator[list[socket.socket]]:
    """Servers that take connections and never answer."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
            for _ in range(GIT_SERVERS + CLUSTERS)
        ]


def port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def asked(servers: Sequence[socket.socket]) -> int:
    """Return how many servers somebody waits for an answer of."""
    return len(select.select(servers, [], [], 0)[0])


def test_eight_silent_git_servers_and_ten_dead_clusters_of_one_namespace_hold_up_no_other(
    world: GitWorld, victim: GitWorld, silent: list[socket.socket]
) -> None:
    source = world.secret()
    attackers: list[Sync] = []
    for number, server in enumerate(silent[:GIT_SERVERS]):
        repository = {"git": {"repo": f"https://127.0.0.1:{port(server)}/a.git", "revision": COMMIT}}
        attackers.append(world.csync(f"git-{number}", source=repository))
    for number, server in enumerate(silent[GIT_SERVERS:]):
        name = f"dead-{number}"
        world.secret(name, kubeconfig=kubeconfig(server=f"https://127.0.0.1:{port(server)}"))
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": name}}
        place = {"clusterName": name, "connection": connection, "namespaces": [world.home]}
        attackers.append(world.msync(name, source, targets={"remoteClusters": [place]}))
    until(lambda: asked(silent[:GIT_SERVERS]), lambda count: count >= TALKS)
    until(lambda: asked(silent[GIT_SERVERS:]), lambda count: count == CLUSTERS)
    there = victim.namespace("there")
    commit = victim.push(
        {"a.yaml": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}}
    )
    victim.source()
    files, objects = victim.csync(), victim.msync("objects", victim.secret(), into=[there])
    victim.sync("copies", destinationNamespaces=[there]).becomes("Synced")
    files.at(commit)
    objects.becomes("Synced")
    assert asked(silent[:GIT_SERVERS]) >= TALKS
    for attacker in attackers:
        assert conditions(attacker.read()).get("Ready", {}).get("status") != "True"
