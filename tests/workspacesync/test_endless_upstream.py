"""An upstream that never stops telling of new objects: the operator stays small, keeps the copies, and says so."""

from tests.configmapsync.world import until
from tests.tenancy.memory import Memory
from tests.workspacesync.endless import EndlessUpstream
from tests.workspacesync.world import UPSTREAM, Workspaces

from syncline.kube.cache_budget import MOST_BYTES
from syncline.testing.operator import OperatorProcess

MIB = 1024 * 1024


def test_an_upstream_with_objects_without_end_is_told_and_costs_no_copy(
    world: Workspaces, operator: OperatorProcess
) -> None:
    namespace = f"{world.name}-shop"
    with EndlessUpstream(namespace, world.name) as upstream:
        world.keep_credential(UPSTREAM, dict(upstream.secret().data or {}))
        sync = world.wsync()
        sync.is_ready()
        before = world.copies_at()
        assert len(before) == 3
        memory = Memory(operator.pid)
        try:
            upstream.flood()
            sync.fails("UpstreamTooLarge", "configmaps", "selector")
            told = upstream.sent
            sync.now()
        finally:
            memory.end()
        assert memory.peak - memory.first < MOST_BYTES // 2
        assert told * 100 < MOST_BYTES, "it was left long before it had taken everything"
        assert world.copies_at() == before
        # The end of the sync needs nothing of the upstream.
        sync.delete()
        sync.gone()
    until(world.copies_at, lambda left: not left)
