"""A tenant who makes the operator hold too much: it lives on under the limits of its pod, and serves others."""

import resource
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from tests.configmapsync.world import until
from tests.faults.scene import metric
from tests.git.test_memory import never_ending
from tests.manifestsync.world import Manifests
from tests.tenancy.memory import Memory
from tests.tenancy.tenants import Tenant

from syncline.controllers.sources.source_memory import MOST_BYTES as SOURCE_MEMORY
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL
from syncline.deploy.workload import MEMORY, OPERATOR_MEMORY
from syncline.testing.loop import OnLoop
from syncline.testing.operator import OperatorProcess, execute

FORGED, KEYS = 12, 60_000
DENSE = 2
LABELLED = 80
BYTES = 90
"""For each key, at most: far less than a digest of its value takes."""


class EndlessServers(OnLoop):
    """Git servers whose lists of refs never end."""

    thread_name = "endless-servers"

    async def _open(self) -> None:
        self._servers = AsyncExitStack()
        started = [await self._servers.enter_async_context(never_ending(protocol)) for protocol in (0, 2) * 4]
        self.urls = [url for url, _ in started]

    async def _close(self) -> None:
        await self._servers.aclose()


def test_git_servers_of_a_tenant_that_never_stop_sending_fit_into_the_pod_and_hold_up_nobody(
    alone: Manifests, quiet: Path
) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    nobody = mallory.account()
    there = alone.namespace("there")
    alone.source()
    flags = ("--allow-loopback", "--allow-insecure-git")
    # A process of its own from the start: a forked one would share memory.
    with EndlessServers() as servers, OperatorProcess(quiet, *flags, launch=execute) as operator:
        resource.prlimit(operator.pid, resource.RLIMIT_DATA, (OPERATOR_MEMORY, OPERATOR_MEMORY))
        memory = Memory(operator.pid)
        try:
            attacks = [
                mallory.sync(
                    "ConfigSync", f"endless-{number}", serviceAccountName=nobody, source={"git": {"repo": url}}
                )
                for number, url in enumerate(servers.urls)
            ]
            victim = alone.sync("copies", destinationNamespaces=[there])
            victim.becomes("Synced", synced=1)
            for attack in attacks:
                attack.becomes("TooLarge")
        finally:
            memory.end()
        assert operator.returncode is None
        assert memory.peak < MEMORY
        for attack in attacks:
            attack.delete()


def test_objects_that_a_tenant_labels_as_copies_take_no_memory_for_what_they_hold(
    alone: Manifests, quiet: Path
) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    there = alone.namespace("there")
    alone.source()
    keys = {f"k{number}": "" for number in range(KEYS)}
    with OperatorProcess(quiet, launch=execute) as operator:
        alone.sync("copies", destinationNamespaces=[there]).becomes("Synced", synced=1)
        memory = Memory(operator.pid)
        try:
            for number in range(FORGED):
                name = f"forged-{number}"
                marks = {"labels": {OWNER_LABEL: "forged"}, "annotations": {BASE: "{}", MARKER: "{}"}}
                mallory.create("v1", "ConfigMap", "configmaps", name, metadata={"name": name, **marks}, data=keys)
            cached = partial(metric, operator, "syncline_cached_objects", resource="configmaps", part="copies")
            until(cached, lambda count: count > FORGED)
        finally:
            memory.end()
        assert memory.peak - memory.first < FORGED * KEYS * BYTES
        alone.source("later")
        alone.sync("later", configMapName="later", destinationNamespaces=[there]).becomes("Synced", synced=1)


def test_sources_that_many_syncs_of_a_tenant_read_at_once_take_turns(alone: Manifests, quiet: Path) -> None:
    """Objects with many short keys take ten times their text, and each of the syncs selects all of them."""
    mallory = Tenant(alone, alone.namespace("mallory"))
    there = alone.namespace("there")
    alone.source()
    keys = {f"k{number}": "" for number in range(KEYS)}
    for number in range(DENSE):
        metadata = {"name": f"dense-{number}", "labels": {"attack": "memory"}}
        mallory.create("v1", "ConfigMap", "configmaps", f"dense-{number}", metadata=metadata, data=keys)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "selector": {"matchLabels": {"attack": "memory"}}}
    spec = {"serviceAccountName": mallory.name, "sourceRefs": [ref], "targets": {"inCluster": {"namespaces": [there]}}}
    attacks = [mallory.sync("ManifestSync", f"dense-{number}", **spec) for number in range(12)]
    with OperatorProcess(quiet, launch=execute) as operator:
        memory = Memory(operator.pid)
        try:
            alone.sync("copies", destinationNamespaces=[there]).becomes("Synced", synced=1)
            for attack in attacks:
                attack.becomes("Forbidden")
        finally:
            memory.end()
        assert memory.peak - memory.first < 2 * SOURCE_MEMORY
        for attack in attacks:
            attack.delete()


def test_objects_that_a_tenant_labels_as_copies_of_a_sync_are_not_held_when_it_ends(
    alone: Manifests, quiet: Path
) -> None:
    """The end of a sync lists what has its label, which everybody can read off a copy and write on objects."""
    mallory = Tenant(alone, alone.namespace("mallory"))
    there = alone.namespace("there")
    alone.source()
    with OperatorProcess(quiet, launch=execute) as operator:
        sync = alone.sync("copies", destinationNamespaces=[there])
        sync.becomes("Synced", synced=1)
        label = alone.config_map(there, "app").read()["metadata"]["labels"][OWNER_LABEL]
        for number in range(LABELLED):
            metadata = {"name": f"large-{number}", "labels": {OWNER_LABEL: label}}
            text = {"text": "x" * 1_000_000}
            mallory.create("v1", "ConfigMap", "configmaps", f"large-{number}", metadata=metadata, data=text)
        memory = Memory(operator.pid)
        try:
            sync.delete()
            sync.gone()
        finally:
            memory.end()
        assert alone.config_map(there, "app").look() is None
        assert alone.config_map(mallory.namespace, "large-0").look() is not None
        assert memory.peak - memory.first < LABELLED * 500_000
