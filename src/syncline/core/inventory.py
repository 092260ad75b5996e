"""The inventory of a sync: the kinds and clusters that it has written to, from its status.

It is recorded before the first write, so that no written object is ever lost. Objects that do not fit are not written.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from syncline.api.connection import WrittenCluster
from syncline.api.fitting import overfull
from syncline.api.status import RemoteSyncStatus, SyncStatus

FULL = "InventoryFull"

Status = TypeVar("Status", bound=SyncStatus)
Remote = TypeVar("Remote", bound=RemoteSyncStatus)
Kinds = Mapping[str, frozenset[str]]
"""The kinds by the name of the cluster; the name of this one is empty."""


def read_written(entries: Sequence[str]) -> Kinds:
    """Parse `status.written`: `ConfigMap`, `edge/Secret`, or `edge,prod/ConfigMap,Secret` for several."""
    found: dict[str, frozenset[str]] = {}
    for entry in entries:
        clusters, _, kinds = entry.rpartition("/")
        for cluster in clusters.split(","):
            found[cluster] = found.get(cluster, frozenset()).union(kinds.split(","))
    return found


def as_written(kinds: Kinds) -> list[str]:
    """Return entries for `status.written`: clusters with the same kinds share one, however many there are."""
    alike: dict[frozenset[str], list[str]] = {}
    for cluster in sorted(kinds):
        if cluster:
            alike.setdefault(kinds[cluster], []).append(cluster)
    remote = [f"{','.join(clusters)}/{','.join(sorted(found))}" for found, clusters in alike.items() if found]
    return sorted([*kinds.get("", ()), *remote])


def with_kinds(status: Status, kinds: Mapping[str, Collection[str]], clusters: Collection[str] | None = None) -> Status:
    """Add kinds to the inventory; if `clusters` are given, drop all others."""
    before = read_written(status.written)
    after = {name: found for name, found in before.items() if clusters is None or name in clusters}
    for name, found in kinds.items():
        after[name] = after.get(name, frozenset()).union(found)
    # An earlier version may have written the same in another form: it stays as it is.
    return status if after == before else structs.replace(status, written=as_written(after))


def without_kinds(status: Status, kinds: Mapping[str, Collection[str]]) -> Status:
    """Drop kinds without objects from the inventory, by the name of the cluster."""
    before = read_written(status.written)
    after = {name: found.difference(kinds.get(name, ())) for name, found in before.items()}
    return status if after == before else structs.replace(status, written=as_written(after))


def with_clusters(
    status: Remote,
    current: Sequence[WrittenCluster],
    kinds: Collection[str],
    *,
    done: Collection[WrittenCluster] = (),
    here: bool = False,
    left: bool = False,
) -> Remote:
    """Add clusters with these kinds to the inventory, and drop the clusters where nothing is left.

    `here` adds the kinds to this cluster too; `left`: nothing is left in this one.
    """
    kept = [entry for entry in status.clusters if entry not in done]
    clusters = [*kept, *(entry for entry in current if entry not in kept)]
    added = {entry.name: kinds for entry in current}
    names = {entry.name for entry in clusters} | (set() if left else {""})
    named = with_kinds(status, {**added, **({"": kinds} if here else {})}, names)
    return structs.replace(named, clusters=clusters)


def room_for(status: RemoteSyncStatus, current: Sequence[WrittenCluster], kinds: Collection[str]) -> int:
    """Return how many of the clusters, from the first, fit into the inventory in addition to the recorded ones."""
    if not overfull(with_clusters(status, current, kinds)):
        return len(current)
    low, high = 0, len(current)
    while high - low > 1:
        middle = (low + high) // 2
        if overfull(with_clusters(status, current[:middle], kinds)):
            high = middle
        else:
            low = middle
    return low
