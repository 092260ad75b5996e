"""Usage of quotas by namespace: syncs, targets, build seconds, and bytes of mirrors.

Everything is counted by namespace: no tenant can use the quota of another one. The counts are in memory. After a
restart, the targets of each sync are read from its status, and builds are counted from zero.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from syncline.controllers.errors import QuotaError
from syncline.controllers.lowered import AnySync
from syncline.core.quotas import Holding, Meter, Seat, fits, has_place
from syncline.core.tenancy import Quota, TenantLimits, Violation
from syncline.kube.cache import Key

_MINUTE = 60.0
_SOON = 1.0

SyncName = tuple[str, Key]
"""The kind and the key of a sync."""


class _SyncUsage(Struct):
    """The counts of one sync; `targets` is None until they are needed."""

    seat: Seat
    targets: int | None = None


class Quotas:
    """The counts of all namespaces."""

    def __init__(self, limits: Callable[[str], TenantLimits]) -> None:
        """`limits` returns the limits of a namespace."""
        self._limits = limits
        self._places: dict[str, dict[SyncName, _SyncUsage]] = {}
        self._refused: dict[str, set[SyncName]] = {}
        self._freeing: set[str] = set()
        self._meters: dict[str, Meter] = {}
        self._recorded: Callable[[SyncName], int] = lambda _: 0
        self._look_again: Callable[[SyncName], None] = lambda _: None

    def connect(self, recorded: Callable[[SyncName], int], look_again: Callable[[SyncName], None]) -> None:
        """Set the functions of the reconcilers: the recorded targets of a sync, and a way to reconcile it."""
        self._recorded, self._look_again = recorded, look_again

    def sync_changed(self, kind: str, key: Key, new: AnySync | None) -> None:
        """Handle that a sync was created, changed or deleted."""
        name, places = (kind, key), self._places.setdefault(key.namespace, {})
        seat = Seat.of(new.metadata.creation_timestamp, new.metadata.uid) if new is not None else None
        if (known := places.get(name)) is not None and known.seat != seat:
            del places[name]
            self._discard(name)
            self._freed(key.namespace)
        if seat is not None and name not in places:
            places[name] = _SyncUsage(seat)
            self._displace(key.namespace, seat)
        if not places:
            del self._places[key.namespace]

    def admit(self, kind: str, sync: AnySync) -> None:
        """Raise `QuotaError` if the namespace has too many older syncs."""
        name, namespace = _name(kind, sync), sync.metadata.namespace
        quota = self._limits(namespace).quota("syncs")
        others = (place.seat for other, place in self._places.get(namespace, {}).items() if other != name)
        if quota is None or has_place(_seat(sync), others, quota.limit):
            self._discard(name)
            return
        what = f"to have more than {quota.limit} syncs in namespace {namespace}"
        self._refuse(name, quota.exceeded(what, "delete a sync that is older than this one"))

    def check_targets(self, kind: str, sync: AnySync, wanted: int, *, whole: bool = True) -> int:
        """Raise `QuotaError` if a sync wants more targets than its quota allows; return how many it has then.

        Not `whole`: these are not all targets, and the existing ones stay.
        """
        name, namespace = _name(kind, sync), sync.metadata.namespace
        quota = self._limits(namespace).quota("targets")
        if quota is None:
            self._discard(name)
            return wanted
        own = Holding(_seat(sync), self._held(name))
        wanted = wanted if whole else max(wanted, own.targets)
        others = [
            Holding(place.seat, self._held(other))
            for other, place in self._places.get(namespace, {}).items()
            if other != name
        ]
        if not fits(wanted, own, others, quota.limit):
            what = f"to have {wanted} targets here and more than {quota.limit} in all of namespace {namespace}"
            remedy = f"have fewer here: its other syncs have {sum(one.targets for one in others)}"
            self._refuse(name, quota.exceeded(what, remedy))
        self._discard(name)
        return wanted

    def take_targets(self, kind: str, sync: AnySync, wanted: int, *, whole: bool = True) -> None:
        """Count the targets of a sync before they are written. Raises `QuotaError` like `check_targets`."""
        targets = self.check_targets(kind, sync, wanted, whole=whole)
        name = _name(kind, sync)
        place = self._places.get(sync.metadata.namespace, {}).get(name)
        if place is not None:
            before, place.targets = self._held(name), targets
            if targets < before:
                self._freed(sync.metadata.namespace)

    def admit_build(self, namespace: str) -> None:
        """Raise `QuotaError` if a namespace has used its build seconds of the last hour."""
        quota = self._limits(namespace).quota("buildSecondsPerHour")
        now = time.monotonic()
        meter = self._meters.get(namespace)
        if quota is None or (quota.limit > 0 and (meter is None or meter.used(now) < quota.limit)):
            return
        what = f"to build for more than {quota.limit} s an hour in namespace {namespace}"
        wait = meter.wait(quota.limit, now) if meter is not None else 0.0
        if not wait:
            raise QuotaError(quota.exceeded(what, "use a kind of sync that builds nothing"))
        # Rounded to a minute, so that the message stays the same until more is used.
        due = datetime.now(UTC) + timedelta(seconds=wait + _MINUTE)
        raise QuotaError(quota.exceeded(what, f"wait for the next try at {due:%H:%M} UTC"), again=wait + 1)

    def built(self, namespace: str, seconds: float) -> None:
        """Count the seconds of a build."""
        if self._limits(namespace).quota("buildSecondsPerHour") is None:
            return
        now = time.monotonic()
        if namespace not in self._meters:
            self._meters = {known: meter for known, meter in self._meters.items() if meter.used(now)}
            self._meters[namespace] = Meter()
        self._meters[namespace].add(seconds, now)

    def mirror_bytes(self, namespace: str) -> int | None:
        """Return the maximum bytes of the repositories of a namespace; None: no limit."""
        quota = self.mirror_quota(namespace)
        return quota.limit if quota is not None else None

    def mirror_quota(self, namespace: str) -> Quota | None:
        """Return the quota for the size of repositories on disk."""
        return self._limits(namespace).quota("mirrorBytes")

    def _held(self, name: SyncName) -> int:
        place = self._places.get(name[1].namespace, {}).get(name)
        if place is None:
            return 0
        if place.targets is None:  # from then on only the counts here change it
            place.targets = self._recorded(name)
        return place.targets

    def _refuse(self, name: SyncName, violation: Violation) -> None:
        self._refused.setdefault(name[1].namespace, set()).add(name)
        raise QuotaError(violation)

    def _discard(self, name: SyncName) -> None:
        refused = self._refused.get(name[1].namespace, set())
        refused.discard(name)
        if not refused:
            self._refused.pop(name[1].namespace, None)

    def _displace(self, namespace: str, seat: Seat) -> None:
        """Reconcile the syncs of the same second that were created before a sync and are after it in the order."""
        if self._limits(namespace).quota("syncs") is not None:
            for name, place in self._places[namespace].items():
                if place.seat.created == seat.created and seat < place.seat:
                    self._look_again(name)

    def _freed(self, namespace: str) -> None:
        """Reconcile the refused syncs: soon, and once for all changes at the same time."""
        if namespace in self._refused and namespace not in self._freeing:
            self._freeing.add(namespace)
            asyncio.get_running_loop().call_later(_SOON, self._try_again, namespace)

    def _try_again(self, namespace: str) -> None:
        self._freeing.discard(namespace)
        places = self._places.get(namespace, {})
        refused = [name for name in self._refused.get(namespace, ()) if name in places]
        for name in sorted(refused, key=lambda name: places[name].seat):
            self._look_again(name)


def _name(kind: str, sync: AnySync) -> SyncName:
    return kind, Key(sync.metadata.namespace, sync.metadata.name)


def _seat(sync: AnySync) -> Seat:
    return Seat.of(sync.metadata.creation_timestamp, sync.metadata.uid)
