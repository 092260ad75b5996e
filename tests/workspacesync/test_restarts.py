"""The operator, the upstream or both start anew: what was below stays, and nothing is written that need not be."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.fleet.world import Remote
from tests.workspacesync.restores import Restorable
from tests.workspacesync.world import UPSTREAM, Workspaces, WorkspaceSync, resource, told

from syncline.api.common import CONFIRM_DELETION
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.fixtures import SandboxFactory
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy


@contextmanager
def running(kubeconfig: Path) -> Iterator[OperatorProcess]:
    """Run an operator for a while."""
    with OperatorProcess(kubeconfig, "--allow-loopback") as operator:
        yield operator
        assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def filled(arena: Sandbox, lone: Remote, west: Remote) -> Workspaces:
    """Some objects upstream, and a cluster below."""
    world = Workspaces(arena, lone, east=west)
    namespace = world.above("shop")
    for name in ("a", "b", "c"):
        world.data(namespace, name)
    return world


def test_a_start_with_a_cold_view_of_the_upstream_deletes_nothing(
    filled: Workspaces, arena: Sandbox, arena_kubeconfig: Path
) -> None:
    """kcp #2041: the syncer started, knew nothing yet of the upstream, and deleted the namespaces below."""
    with FaultProxy(arena) as proxy:
        filled.credential(UPSTREAM, filled.upstream, server=proxy.server)
        with running(arena_kubeconfig):
            sync = filled.wsync()
            sync.is_ready()
        copies, namespaces = filled.copies_at(), filled.namespaces_at()
        slow = proxy.inject(Fault(status=503), when=lambda asked: asked.resource in ("configmaps", "namespaces"))
        with running(arena_kubeconfig):
            until(lambda: len(slow.hits), lambda hits: hits > 2)
            sync.has_trouble()
            sync.now()
            assert (filled.copies_at(), filled.namespaces_at()) == (copies, namespaces)
            slow.lift()
            sync.is_ready()
            assert (filled.copies_at(), filled.namespaces_at()) == (copies, namespaces)
            filled.end()


def test_a_new_operator_that_finds_all_in_order_writes_nothing(
    filled: Workspaces, far: Sandbox, arena_kubeconfig: Path
) -> None:
    with FaultProxy(far) as proxy:
        filled.credential("east", filled.clusters["east"], server=proxy.server)
        with running(arena_kubeconfig):
            sync = filled.wsync()
            sync.is_ready()
            sync.now()
        before = proxy.count(lambda asked: asked.changes)
        mark = filled.mark()
        with running(arena_kubeconfig):
            sync.now()
            sync.is_ready()
            assert proxy.count(lambda asked: asked.changes) == before
            written = [one for one in filled.writes(mark) if " events " not in one and "workspacesyncs" not in one]
            assert written == []
            filled.end()


def test_what_happened_while_no_operator_ran_is_caught_up_with(filled: Workspaces, arena_kubeconfig: Path) -> None:
    namespace = f"{filled.name}-shop"
    with running(arena_kubeconfig):
        sync = filled.wsync()
        sync.is_ready()
    filled.up("ConfigMap", namespace, "a").put("data", "colour", value="blue")
    filled.up("ConfigMap", namespace, "b").delete()
    filled.down("ConfigMap", namespace, "c").put("data", "colour", value="green")
    filled.data(namespace, "d")
    with running(arena_kubeconfig):
        filled.down("ConfigMap", namespace, "a").holds_data(colour="blue")
        filled.down("ConfigMap", namespace, "b").gone()
        filled.down("ConfigMap", namespace, "c").holds_data(colour="red")
        filled.down("ConfigMap", namespace, "d").appears()
        filled.end()


def test_the_end_of_the_newest_object_is_followed_after_a_long_pause_too(
    filled: Workspaces, arena: Sandbox, arena_kubeconfig: Path
) -> None:
    """The server has forgotten its earlier versions, and nothing later was copied: its watches still tell the end."""
    namespace = f"{filled.name}-shop"
    with FaultProxy(arena) as proxy:
        filled.credential(UPSTREAM, filled.upstream, server=proxy.server)
        with running(arena_kubeconfig):
            sync = filled.wsync()
            sync.is_ready()
            filled.data(namespace, "newest")
            filled.down("ConfigMap", namespace, "newest").appears()
            sync.now()
        filled.up("ConfigMap", namespace, "newest").delete()
        compacted = proxy.inject(
            Fault(status=410), when=lambda asked: asked.query.get("resourceVersionMatch") == "Exact"
        )
        with running(arena_kubeconfig):
            filled.down("ConfigMap", namespace, "newest").gone()
            sync.is_ready()
            assert compacted.hits, "it was asked"
            filled.end()


def _confirm(sync: WorkspaceSync, *words: str) -> None:
    """Confirm what a sync asks about."""
    digest = re.search(rf"{CONFIRM_DELETION}=(\w+)", told({"status": sync.tells_of(*words, CONFIRM_DELETION)}))
    assert digest is not None
    sync.edit(lambda body: body["metadata"].setdefault("annotations", {}).update({CONFIRM_DELETION: digest[1]}))


@pytest.fixture(params=["cluster", "kcp"])
def upstream(request: pytest.FixtureRequest, sandbox_factory: SandboxFactory, tmp_path: Path) -> Restorable:
    """An upstream of its own for the test, which can go back to a backup."""
    return Restorable(sandbox_factory(kcp=request.param == "kcp"), tmp_path / "backup")


def test_an_upstream_that_starts_again_or_is_restored_from_an_older_backup_deletes_and_overwrites_nothing(
    sandbox: Sandbox, operator: OperatorProcess, east: Remote, upstream: Restorable
) -> None:
    with FaultProxy(upstream.front) as link:
        account = upstream.account()
        world = Workspaces(sandbox, account, east=east)
        world.credential(UPSTREAM, account, server=link.server)
        edited, grown = world.above("edited", part="edited"), world.above("grown", part="grown")
        for namespace in (edited, grown):
            world.data(namespace, "early")
        syncs = [
            world.wsync(part, namespaces={"selector": {"matchLabels": {"world": world.name, "part": part}}})
            for part in ("edited", "grown")
        ]
        for sync in syncs:
            sync.is_ready()
        first = world.copies_at()
        upstream.stop()
        for sync in syncs:
            sync.doubts()
        assert world.copies_at() == first, "an upstream that is away is no reason to delete"
        upstream.back_up()
        upstream.start()
        for sync in syncs:
            sync.now()
            sync.is_ready()
        assert world.copies_at() == first, "a restart is no reason to delete"

        world.up("ConfigMap", edited, "early").put("data", "colour", value="blue")
        world.data(grown, "later")
        world.down("ConfigMap", grown, "later").appears()
        world.down("ConfigMap", edited, "early").holds_data(colour="blue")
        copies = world.copies_at()

        with upstream.restored(link):
            assert world.up("ConfigMap", grown, "later").look() is None
            world.data(grown, "newer")
        _nothing_is_lost(world, copies, *syncs)
        _confirm(syncs[0], "went back")
        world.down("ConfigMap", edited, "early").holds_data(colour="red")
        _confirm(syncs[1], "nothing proves that it was deleted")
        world.down("ConfigMap", grown, "later").gone()
        for sync in syncs:
            sync.is_ready()
        world.end()
    assert operator.returncode is None


def _nothing_is_lost(
    world: Workspaces, copies: dict[tuple[str, str], str], edited: WorkspaceSync, grown: WorkspaceSync
) -> None:
    """Check that a restored upstream changes and deletes no copy, and that what is new there is taken down."""
    world.down("ConfigMap", f"{world.name}-grown", "newer").appears()
    for _ in range(2):
        edited.tells_of("went back to an earlier state")
        grown.tells_of("nothing proves that it was deleted")
        assert world.copies_at().items() >= copies.items()
        assert world.down("ConfigMap", f"{world.name}-edited", "early").at("data", "colour") == "blue"
        edited.now()
        grown.now()
    assert grown.status["upstream"]["doubtful"], "so that no later object counts as a proof, also after a restart"


def test_a_cluster_below_that_is_restored_from_an_older_backup_deletes_nothing_upstream(
    sandbox: Sandbox, operator: OperatorProcess, above: Remote, sandbox_factory: SandboxFactory, tmp_path: Path
) -> None:
    below = Restorable(sandbox_factory(), tmp_path / "backup")
    account = below.account()
    with FaultProxy(below.front) as link:
        world = Workspaces(sandbox, above, east=account)
        world.credential("east", account, server=link.server)
        namespace = world.above("shop")
        world.data(namespace, "early")
        both = resource("configmaps", direction="Bidirectional", conflictStrategy="MergeChanges")
        sync = world.wsync("sync", both, deletePropagation="Both")
        sync.is_ready()
        below.stop()
        below.back_up()
        below.start()
        world.data(namespace, "later")
        world.down("ConfigMap", namespace, "later").appears()
        sync.now()
        sync.is_ready()
        sources = [world.up("ConfigMap", namespace, name).uid for name in ("early", "later")]

        with below.restored(link):
            assert world.down("ConfigMap", namespace, "later").look() is None
        world.down("ConfigMap", namespace, "later").appears()
        sync.now()
        sync.is_ready()
        assert [world.up("ConfigMap", namespace, name).uid for name in ("early", "later")] == sources
        world.end()
    assert operator.returncode is None
