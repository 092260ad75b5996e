"""Each write of a WorkspaceSync's life is lost, or its answer is, and the operator dies over it: the same end always.

The writes go to three servers: the hub, the upstream and the cluster below. By default one life for each way to fail is
lived, with faults at a seeded sample of the writes to each server; SYNCLINE_FAULTS=all lives one life for each write.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from difflib import unified_diff
from pathlib import Path

import pytest
from msgspec import Struct
from tests.faults.crew import ALL, MODES, Crew, sample
from tests.faults.scene import wait_until
from tests.faults.workspace_life import WorkspaceLife
from tests.fleet.world import Remote
from tests.workspacesync.world import UPSTREAM

from syncline.sandbox import Sandbox
from syncline.testing.proxy import FaultProxy

FAULTS = 2
SERVERS = ("hub", "upstream", "below")

Numbers = Mapping[str, list[int]]
"""By server: the writes at which something goes wrong."""


class LivedLife(Struct):
    """What a life came to."""

    snapshots: dict[str, str]
    counts: dict[str, Counter[str]]
    writes: dict[str, int]
    faults: dict[str, int]


@pytest.fixture(scope="session")
def ends(arena: Sandbox, far: Sandbox) -> tuple[Remote, Remote]:
    """The upstream and the cluster below, which is the hub too: its audit log tells what was written."""
    made = Remote(far), Remote(arena)
    for remote in made:
        remote.allow("*", groups=("*",))
    return made


class Stage:
    """Where lives are lived."""

    def __init__(self, arena: Sandbox, kubeconfig: Path, ends: tuple[Remote, Remote]) -> None:
        self._arena = arena
        self._kubeconfig = kubeconfig
        self._ends = ends

    def live(self, mode: str, numbers: Numbers, reference: LivedLife | None) -> LivedLife:
        """Live a life with these faults; with a reference, each step must end as it did there."""
        upstream, below = self._ends
        with ExitStack() as stack:
            clusters = {"hub": self._arena, "upstream": upstream.sandbox, "below": self._arena}
            proxies = {name: stack.enter_context(FaultProxy(cluster)) for name, cluster in clusters.items()}
            life = WorkspaceLife(self._arena, upstream, below)
            life.world.credential(UPSTREAM, upstream, server=proxies["upstream"].server)
            life.world.credential("east", below, server=proxies["below"].server)
            crew = Crew(proxies["hub"].kubeconfig(self._kubeconfig), "--allow-loopback")
            rules = {
                name: [
                    proxies[name].inject(
                        MODES[mode](crew.kill), when=lambda asked, number=number: asked.number >= number, times=1
                    )
                    for number in numbers.get(name, ())
                ]
                for name in SERVERS
            }
            try:
                snapshots = self._play(life, crew, reference)
            finally:
                crew.stop()
            life.check_upstream()
            counts, writes = life.counts(), {name: proxy.count(_changes) for name, proxy in proxies.items()}
            life.world.end()
        return LivedLife(
            snapshots, counts, writes, {name: sum(len(one.hits) for one in rules[name]) for name in SERVERS}
        )

    @staticmethod
    def _play(life: WorkspaceLife, crew: Crew, reference: LivedLife | None) -> dict[str, str]:
        snapshots: dict[str, str] = {}
        for name, do in life.steps:
            do()

            def ended(name: str = name) -> bool:
                crew.check()
                return life.is_done(name) if reference is None else life.snapshot() == reference.snapshots[name]

            def difference(name: str = name) -> str:
                before = reference.snapshots[name].splitlines() if reference is not None else []
                return "\n".join(unified_diff(before, life.snapshot().splitlines(), n=1, lineterm=""))

            wait_until(ended, f"the end of: {name}", instead=difference)
            snapshots[name] = life.snapshot()
        return snapshots


def _changes(asked: object) -> bool:
    return bool(getattr(asked, "changes", False))


@pytest.fixture(scope="session")
def stage(arena: Sandbox, arena_kubeconfig: Path, ends: tuple[Remote, Remote]) -> Stage:
    """Two clusters and an operator's kubeconfig."""
    return Stage(arena, arena_kubeconfig, ends)


@pytest.fixture(scope="session")
def uneventful(stage: Stage) -> LivedLife:
    """A life in which nothing goes wrong."""
    return stage.live("before", {}, None)


def plans(mode: str, writes: Mapping[str, int]) -> Iterator[Numbers]:
    """Yield the writes at which something goes wrong, for each life."""
    if ALL:
        yield from ({name: [number]} for name in SERVERS for number in range(1, writes[name] + 1))
        return
    yield {name: sample(f"workspace {mode} {name}", writes[name], FAULTS) for name in SERVERS}


@pytest.mark.timeout(7200 if ALL else 600)
@pytest.mark.parametrize("mode", MODES)
def test_a_crash_at_any_write_of_a_workspace_sync_leads_to_the_same_end(
    stage: Stage, uneventful: LivedLife, mode: str
) -> None:
    for numbers in plans(mode, uneventful.writes):
        lived = stage.live(mode, numbers, uneventful)
        for name in SERVERS:
            # Statuses that follow each other closely are written as one: a life may need fewer writes.
            came = [number for number in numbers.get(name, ()) if number <= lived.writes[name]]
            assert lived.faults[name] >= len(came), f"writes {numbers} of {uneventful.writes} never came"
        assert lived.counts == uneventful.counts, f"surplus writes: {mode} {numbers} of {uneventful.writes}"
