"""Reference reader: reads the ConfigMaps and Secrets that a sync names, with its identity, each version once.

A watch reports the current version. While it is the cached version, nothing is read again.
"""

import time
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from syncline.api.common import ObjectMeta
from syncline.api.configsync import KIND
from syncline.controllers.errors import SyncError
from syncline.core.objects import Target
from syncline.core.remedies import grant, with_cause
from syncline.core.tenancy import NO_LIMITS, TenantLimits
from syncline.engine.cluster import Cluster
from syncline.engine.kind_informer import KindInformer
from syncline.kube.cache import Key
from syncline.kube.errors import Forbidden, KubeError, NotFound

# How long a reading is cached, because no event reports a change of the rights of an account.
CACHE_TTL = 300.0
# The maximum size of cached objects. Users who create ConfigMaps decide their number and size.
MAX_CACHED_BYTES = 32 * 1024 * 1024
_ENTRY_BYTES = 1000
_KEY_BYTES = 200


class ReferencedData(Struct, frozen=True):
    """The contents of an object, by key."""

    version: str
    data: Mapping[str, bytes]


class ReferenceWire(Struct, rename="camel"):
    """A ConfigMap or Secret."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class Requester(Struct, frozen=True, kw_only=True):
    """The sync that reads, with its identity and interval."""

    kind: str = KIND
    key: Key
    user: str | None
    interval: float
    limits: TenantLimits = NO_LIMITS
    """The TenantPolicies that govern the sync."""

    @property
    def sync(self) -> str:
        """The sync, as ownership names it."""
        return f"{self.kind}/{self.key.namespace}/{self.key.name}"


async def fetch_data(hub: Cluster, user: str | None, target: Target) -> tuple[KindInformer, ReferenceWire]:
    """Read a ConfigMap or Secret as a user, and return it with the watch of its kind. Raises `KubeError`."""
    informer = await hub.open_kind(target.group_kind)
    wire = await hub.acting_as(user).get(informer.resource, target.name, target.namespace, type=ReferenceWire)
    return informer, wire


Place = tuple[str | None, Target]
"""An object, and its reader."""


class ReadingCache:
    """A cache of recent reads, up to a number of bytes."""

    def __init__(self, most: int = MAX_CACHED_BYTES) -> None:
        self._most = most
        self._readings: dict[Place, tuple[ReferencedData, float]] = {}
        self._held: Counter[str] = Counter()
        """The approximate size of the entries, by namespace."""

    def get(self, place: Place) -> tuple[ReferencedData, float] | None:
        """Return a reading, and the time until it is valid."""
        return self._readings.get(place)

    def keep(self, place: Place, held: ReferencedData) -> None:
        """Add an entry. If there is no room, the oldest entry of the largest namespace is dropped."""
        self.forget(place)
        self._readings[place] = held, time.monotonic() + CACHE_TTL
        self._held[place[1].namespace] += _size(held)
        while self._held.total() > self._most:
            largest = self._held.most_common(1)[0][0]
            self.forget(next(one for one in self._readings if one[1].namespace == largest))

    def forget(self, place: Place) -> None:
        """Drop a reading."""
        if (known := self._readings.pop(place, None)) is not None:
            self._held -= Counter({place[1].namespace: _size(known[0])})


class ReferenceReader:
    """The readings of all syncs."""

    def __init__(self, hub: Cluster) -> None:
        self._hub = hub
        self._readings = ReadingCache()

    async def get_or_none(
        self, requester: Requester, target: Target, what: str, *, reconciling: bool = True
    ) -> ReferencedData | None:
        """Return the contents of an object; None if it does not exist. Raises `SyncError` if it cannot be read.

        `what` is the field of the spec that names it. `reconciling`: a reconcile of the sync uses it now.
        """
        user = requester.user
        informer = await self._hub.open_kind(target.group_kind)
        known = self._readings.get((user, target))
        if known is not None:
            held, until = known
            if held.version == _version(informer, target) and time.monotonic() < until:
                return held
        try:
            informer, wire = await fetch_data(self._hub, user, target)
        except NotFound:
            self._readings.forget((user, target))
            return None
        except Forbidden as error:
            remedy = f"{grant(user, error.verb, error.resource)} for {target.kind} {target.name}, which {what} names"
            raise SyncError("ReferenceUnreadable", with_cause(remedy, error), retry=True) from error
        except KubeError as error:
            message = f"{target.kind} {target.name}, which {what} names, cannot be read: {error}"
            raise SyncError("ReferenceUnreadable", message, retry=True, status="Unknown") from error
        # If an earlier version was cached, this sync may have just used it: then it reconciles again.
        first = _version(informer, target) is None
        informer.observe_unmanaged(wire.metadata, requester.sync if first and reconciling else "")
        held = ReferencedData(wire.metadata.resource_version, _data(target.kind, wire))
        self._readings.keep((user, target), held)
        return held

    async def get(self, requester: Requester, target: Target, what: str) -> ReferencedData:
        """Return the contents of an object. Raises `SyncError` if it does not exist."""
        held = await self.get_or_none(requester, target, what)
        if held is None:
            message = (
                f"{target.kind} {target.name}, which {what} names, does not exist in {target.namespace}: create it"
            )
            raise SyncError("ReferenceNotFound", message)
        return held


def _size(held: ReferencedData) -> int:
    return _ENTRY_BYTES + sum(_KEY_BYTES + len(key) + len(value) for key, value in held.data.items())


def _version(informer: KindInformer, target: Target) -> str | None:
    """Return the version of the object in the watch, or an empty text."""
    copy = informer.managed.at(target)
    return copy.version if copy is not None else informer.unmanaged.get(Key(target.namespace, target.name))


def _data(kind: str, wire: ReferenceWire) -> dict[str, bytes]:
    if kind == "Secret":
        return {key: b64decode(value) for key, value in (wire.data or {}).items()}
    return {key: value.encode() for key, value in (wire.data or {}).items()} | {
        key: b64decode(value) for key, value in (wire.binary_data or {}).items()
    }
