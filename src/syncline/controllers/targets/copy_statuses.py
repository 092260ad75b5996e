"""Statuses of copies: caches them, and reads them for the status of their source."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from syncline.controllers.lowered import SourceObject
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import STATUS_TOO_LARGE, Observed, Target
from syncline.core.ownership import Ownership, object_id_of, ownership_of
from syncline.core.status_upward import CopyStatus, ReplicasMode
from syncline.engine.cluster import Cluster
from syncline.kube.errors import KubeError

log = structlog.get_logger(__name__)

# Most likely ours; the next write of the copy makes that certain.
_UNSURE = frozenset({Ownership.PREVIOUS, Ownership.RENEWABLE, Ownership.UNPROVEN})


class UpwardItem(Struct, frozen=True, kw_only=True):
    """One upstream object, and the targets of its copies."""

    source: SourceObject
    copies: tuple[tuple[TargetCluster, Target], ...] = ()
    unreachable: tuple[tuple[str, str], ...] = ()
    """The targets that cannot be reached, each with the time when it was last seen."""
    named: str = ""
    """The name of the source in the marks of its copies (`Desired.source`); empty: its own name."""


class UnfitStatus(Exception):  # noqa: N818 - a state
    """The status of a copy cannot be written upstream; the message names the cluster."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class StatusUnknown(Exception):  # noqa: N818 - a state
    """The status of a copy is not cached yet."""


class StatusInputs(Struct, frozen=True):
    """The inputs of the status of an upstream object, apart from the object itself."""

    copies: tuple[Observed | None, ...]
    blind: tuple[str, ...]
    """The targets whose kind is not watched now."""
    unreachable: tuple[tuple[str, str], ...]
    mode: ReplicasMode

    @property
    def away(self) -> tuple[str, ...]:
        """The targets that cannot be observed."""
        return (*self.blind, *(name for name, _ in self.unreachable))

    def is_same(self, other: "StatusInputs | None") -> bool:
        """Whether the inputs are identical, so that the status is the same."""
        return (
            other is not None
            and len(self.copies) == len(other.copies)
            and all(one is two for one, two in zip(self.copies, other.copies, strict=True))
            and (self.blind, self.unreachable, self.mode) == (other.blind, other.unreachable, other.mode)
        )


class CopyView:
    """The cached copies, during one reconcile."""

    def __init__(self, mode: ReplicasMode) -> None:
        self._mode = mode
        self._watched: dict[tuple[Cluster, str], bool] = {}

    def inputs(self, item: UpwardItem) -> StatusInputs:
        """Return the cached copies of an object."""
        kind = item.source.target.kind
        copies: list[Observed | None] = []
        blind: list[str] = []
        for site, target in item.copies:
            if self._is_watched(site.cluster, kind):
                copies.append(site.cluster.managed_at(target.local()))
            else:
                copies.append(None)
                blind.append(site.destination.cluster)
        return StatusInputs(tuple(copies), tuple(blind), item.unreachable, self._mode)

    def _is_watched(self, cluster: Cluster, kind: str) -> bool:
        found = self._watched.get((cluster, kind))
        if found is None:
            informer = cluster.informer(kind) if cluster.is_open(kind) else None
            found = informer is not None and informer.synced and not informer.refused and not informer.full
            self._watched[cluster, kind] = found
        return found


class KeptStatuses:
    """The kinds and clusters in which the copies of one sync are cached with their status."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Cluster, str], TargetCluster] = {}

    def keep(self, items: Iterable[UpwardItem]) -> None:
        """Cache the copies of these objects with their status, and no others."""
        wanted = {(site.cluster, item.source.target.kind): site for item in items for site, _ in item.copies}
        for (cluster, kind), site in self._kept.items():
            if (cluster, kind) not in wanted:
                cluster.drop_status(kind, site.owner.ref)
        for (cluster, kind), site in wanted.items():
            cluster.keep_status(kind, site.owner.ref)
        self._kept = wanted

    async def read_missing(self, inputs: Sequence[StatusInputs]) -> bool:
        """Read the statuses of copies that were cached without one, with one list for each kind and cluster.

        Return whether all are cached now.
        """
        missing = {id(copy) for one in inputs for copy in one.copies if copy is not None and copy.status is None}
        complete = True
        for (cluster, kind), site in self._kept.items() if missing else ():
            if not cluster.is_open(kind):
                continue
            ours = cluster.managed_by(site.owner.ref, kind)
            if not any(id(copy) in missing for copy in ours):
                continue
            try:
                await cluster.read_statuses(kind, site.owner)
            except KubeError as error:
                log.warning("cannot read the statuses of copies", cluster=cluster.name, kind=kind, error=str(error))
                complete = False
        return complete


def copy_statuses(item: UpwardItem, inputs: StatusInputs) -> list[CopyStatus]:
    """Return the statuses of the copies. Raises `UnfitStatus` and `StatusUnknown`."""
    found: list[CopyStatus] = []
    for (site, target), observed in zip(item.copies, inputs.copies, strict=True):
        name = site.destination.cluster
        whose = _ownership(item, site, target, observed)
        if name in inputs.blind or whose in _UNSURE:
            found.append(CopyStatus(target=name, reachable=False))
        elif observed is None or whose is not Ownership.OURS:
            found.append(CopyStatus(target=name))  # missing, or not ours
        else:
            found.append(_reported(name, observed))
    found += [CopyStatus(target=name, reachable=False, last_seen=seen) for name, seen in inputs.unreachable]
    return found


def _ownership(item: UpwardItem, site: TargetCluster, target: Target, observed: Observed | None) -> Ownership:
    """Return the ownership of an object, as a copy that this sync made of exactly this source."""
    if observed is None:
        return Ownership.FOREIGN
    whose = ownership_of(observed, site.owner, object_id_of(site.cluster.uid, target.local()))
    if whose is Ownership.OURS and observed.marker is not None:
        is_of_source = observed.marker.source == (item.named or str(item.source))
        return whose if is_of_source else Ownership.FOREIGN
    return whose


def _reported(name: str, observed: Observed) -> CopyStatus:
    if observed.status is None:
        raise StatusUnknown(name)
    if observed.status == STATUS_TOO_LARGE:
        raise UnfitStatus(f"the copy in {name or 'this cluster'} has a status that is too large", too_large=True)
    try:
        status: Any = msgspec.json.decode(observed.status or b"{}")
    except (msgspec.MsgspecError, RecursionError):
        raise UnfitStatus(f"the copy in {name or 'this cluster'} has a status that is nested too deeply") from None
    revision = observed.marker.revision if observed.marker is not None else ""
    return CopyStatus(
        target=name,
        generation=observed.generation,
        marked_generation=int(revision) if revision.isdecimal() and len(revision) < 19 else 0,  # noqa: PLR2004
        status=status if isinstance(status, dict) else {},
    )
