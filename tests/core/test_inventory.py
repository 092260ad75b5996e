"""The inventory of a sync: it is read in the words of any version, and fits for the largest spec."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.hostile import violations
from tests.sampling import quick

from syncline.api.configmapsync import ConfigMapSyncStatus
from syncline.api.configsync import ConfigSyncStatus, EnvironmentStatus, HeldRollback, SourceRevision
from syncline.api.connection import MAX_AUTHORITIES, ClusterConnection, NameRef, SecretKeyRef, WrittenCluster
from syncline.api.crd import schema
from syncline.api.fitting import overfull
from syncline.api.kinds import CONFIG_MAP_SYNC, CONFIG_SYNC, MANIFEST_SYNC, Kind
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.api.status import MAX_CLUSTERS, MAX_KEPT, RemoteSyncStatus
from syncline.core.inventory import as_written, read_written, room_for, with_clusters, with_kinds
from syncline.core.scope_record import LIMIT

clusters = st.sampled_from(["", "edge", "prod-eu", "prod.us"])
kinds = st.sampled_from(["ConfigMap", "Secret", "Deployment.apps", "Widget.example.com"])
inventories = st.dictionaries(clusters, st.frozensets(kinds, min_size=1))


def target(name: str, namespace: str | None = None) -> WrittenCluster:
    connection = ClusterConnection(
        type="SyncTarget", sync_target_ref=NameRef(name=name), sync_target_namespace=namespace
    )
    return WrittenCluster(name=name, connection=connection)


@quick
@given(inventories)
def test_what_is_written_down_is_read_again(inventory: Mapping[str, frozenset[str]]) -> None:
    assert read_written(as_written(inventory)) == inventory


@quick
@given(inventories)
def test_what_an_earlier_version_wrote_down_is_read_and_stays(inventory: Mapping[str, frozenset[str]]) -> None:
    earlier = sorted(f"{cluster}/{kind}" if cluster else kind for cluster, found in inventory.items() for kind in found)
    status = ManifestSyncStatus(written=earlier)
    assert read_written(earlier) == inventory
    assert with_kinds(status, inventory) is status


def test_clusters_with_the_same_kinds_share_an_entry() -> None:
    same = frozenset({"Secret", "ConfigMap"})
    inventory = {"": same, "eu": same, "us": same, "edge": frozenset({"Secret"})}
    assert as_written(inventory) == ["ConfigMap", "Secret", "edge/Secret", "eu,us/ConfigMap,Secret"]


def test_kinds_of_a_cluster_go_with_it() -> None:
    status = ManifestSyncStatus(written=["ConfigMap", "a,b/Secret"], clusters=[target("a"), target("b")])
    after = with_clusters(status, [target("b")], {"Service"}, done=[target("a")])
    assert after.written == ["ConfigMap", "b/Secret,Service"]
    assert after.clusters == [target("b")]
    assert with_clusters(after, [], {"Service"}, here=True).written == ["ConfigMap", "Service", "b/Secret,Service"]
    assert with_clusters(after, [], {"Service"}, left=True).written == ["b/Secret,Service"]


def most(schema: Mapping[str, Any], *path: str) -> int:
    """Return the limit of a list in a spec."""
    for name in path:
        schema = schema["properties"][name] if schema["type"] == "object" else schema["items"]["properties"][name]
    return int(schema["maxItems"])


def longest_clusters(number: int) -> list[WrittenCluster]:
    """Clusters with all that a connection may hold, as long as it may be."""
    connection = ClusterConnection(
        type="ServiceAccountToken",
        service_account_token_ref=SecretKeyRef(name="s" * 253, key="k" * 253),
        server=f"https://{'h' * 2040}",
        ca_data="A" * (MAX_AUTHORITIES // number),
    )
    return [WrittenCluster(name=f"{'c' * 250}{at:03}", connection=connection) for at in range(number)]


def longest_kinds(number: int) -> list[str]:
    return [f"{'K' * 60}{at:03}.{'g' * 253}" for at in range(number)]


def longest_track(at: int) -> EnvironmentStatus:
    return EnvironmentStatus(
        name=f"{'e' * 60}{at:03}",
        source_revision="r" * 256,
        revisions=[SourceRevision(name=f"{'s' * 60}{n:03}", revision="r" * 256) for n in range(10)],
        inputs="d" * 128,
        rollback=HeldRollback(to="c" * 256, requested="c" * 64, since="2026-01-02T03:04:05Z"),
        last_healthy_revision="r" * 256,
    )


ALL_ELSE: dict[str, Any] = {"kept": [f"{n:016x}" for n in range(MAX_KEPT)], "scope": "s" * LIMIT}
REMOTE = [
    (MANIFEST_SYNC, ManifestSyncStatus(**ALL_ELSE), ("targets", "remoteClusters"), ("sourceRefs",)),
    # The kinds of a ConfigSync are those of its commit: more than any cluster serves with names of this length.
    (
        CONFIG_SYNC,
        ConfigSyncStatus(**ALL_ELSE, environments=list(map(longest_track, range(40)))),
        ("remoteClusters",),
        (),
    ),
]


@pytest.mark.parametrize(("kind", "status", "places", "refs"), REMOTE, ids=lambda value: getattr(value, "kind", ""))
def test_the_inventory_of_the_largest_spec_fits(
    kind: Kind, status: RemoteSyncStatus, places: tuple[str, ...], refs: tuple[str, ...]
) -> None:
    spec = schema(kind)["properties"]["spec"]
    names = longest_kinds(most(spec, *refs) if refs else 100)
    entries = longest_clusters(most(spec, *places))
    recorded = with_clusters(status, entries, names, here=True)
    assert overfull(recorded) == ""
    assert list(violations(schema(kind)["properties"]["status"], msgspec.to_builtins(recorded))) == []
    assert read_written(recorded.written) == {name: frozenset(names) for name in ("", *(one.name for one in entries))}


def test_all_that_a_sync_of_one_cluster_may_remember_fits() -> None:
    status = with_kinds(ConfigMapSyncStatus(**ALL_ELSE), {"": ["ConfigMap"]})
    assert overfull(status) == ""
    assert list(violations(schema(CONFIG_MAP_SYNC)["properties"]["status"], msgspec.to_builtins(status))) == []


def test_five_kinds_in_fifty_clusters_are_six_entries() -> None:
    five = ["ConfigMap", "Deployment.apps", "Secret", "Service", "ServiceAccount"]
    status = with_clusters(ManifestSyncStatus(), [target(f"c{n:02}") for n in range(50)], five, here=True)
    assert len(status.written) == 6


def test_a_selector_of_more_clusters_than_fit_leaves_out_the_last_new_ones() -> None:
    known = [target(f"known-{n}") for n in range(150)]
    status = with_clusters(ManifestSyncStatus(), known, ["Secret"])
    new = [target(f"new-{n}") for n in range(100)]
    assert room_for(status, [*known, *new], ["Secret"]) == MAX_CLUSTERS
    assert room_for(status, [*known, *new[:50]], ["Secret"]) == MAX_CLUSTERS
    assert room_for(ConfigSyncStatus(), [], ["Secret"]) == 0


def test_connections_that_are_too_long_together_are_left_out_by_their_size() -> None:
    entries = [
        WrittenCluster(
            name=f"c{n}", connection=ClusterConnection(type="ServiceAccountToken", server=f"https://h/{'<' * 2000}")
        )
        for n in range(100)
    ]
    room = room_for(ManifestSyncStatus(), entries, ["Secret"])
    assert 50 < room < 100
    assert not overfull(with_clusters(ManifestSyncStatus(), entries[:room], ["Secret"]))
    assert overfull(with_clusters(ManifestSyncStatus(), entries[: room + 1], ["Secret"])) == "clusters"


def test_a_local_sync_records_its_kinds() -> None:
    status = with_kinds(ConfigMapSyncStatus(), {"": ["ConfigMap"]})
    assert status.written == ["ConfigMap"]
    assert with_kinds(status, {"": ["ConfigMap"]}) is status
