"""The record of a scope: the scope of the last reconcile, and the removals that edits of the spec requested.

Every edit of the scope is judged once, when all objects that it may remove can be read for the first time. The objects
that it removes are recorded, and from then on the new scope is the recorded one. So a refused removal or an unreachable
cluster keeps no edit open: objects that leave the new scope later are derived. For objects that could not be read, the
scope that was last judged there is kept.

The record is a status field, so its length is limited. Removals that do not fit are not recorded, and count as derived.
"""

import base64
import binascii
import zlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct, structs

from syncline.core.digest import short_digest
from syncline.core.spec_scope import ManagedObject, SpecScope, Today, is_removed_by_edit

LIMIT = 131_072
"""The longest record: enough for 1,000 names of namespaces and the largest selector, whatever their characters."""
ID_SIZE = 4
MAX_REMOVALS = 10_000
MAX_EARLIER = 4
_PLAIN = 2048
"""A record of up to this length is readable JSON; a longer one is compressed."""
_PACKED = "z:"
_MAX_UNPACKED = 1_048_576


class Unseen(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts that could not be read."""

    environments: frozenset[str] = frozenset()
    """Environments whose desired objects are not known."""
    clusters: frozenset[str] = frozenset()
    """Other clusters, by the names that the sync has for them."""
    kinds: frozenset[str] = frozenset()
    """Kinds of the sync's own cluster."""

    def __bool__(self) -> bool:
        return bool(self.environments or self.clusters or self.kinds)

    def covers(self, environment: str, cluster: str, kind: str) -> bool:
        """Whether an object here could not be read."""
        return environment in self.environments or (cluster in self.clusters if cluster else kind in self.kinds)

    def within(self, other: "Unseen") -> "Unseen":
        """Return the parts that neither could read."""
        return Unseen(
            environments=self.environments & other.environments,
            clusters=self.clusters & other.clusters,
            kinds=self.kinds & other.kinds,
        )

    def without(self, other: "Unseen") -> "Unseen":
        """Return the parts that only this one could not read."""
        return Unseen(
            environments=self.environments - other.environments,
            clusters=self.clusters - other.clusters,
            kinds=self.kinds - other.kinds,
        )


class EarlierScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scope that was last judged for parts that could not be read since."""

    scope: SpecScope
    unseen: Unseen


class RequestedRemovals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The objects of one kind, in one cluster and environment, that an edit removes and that still exist."""

    environment: str = ""
    cluster: str = ""
    kind: str
    ids: str
    """Their concatenated ids, in base64."""


class ScopeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of `status.scope`."""

    scope: SpecScope | None = None
    """The scope; None if it is too long to be recorded."""
    earlier: tuple[EarlierScope, ...] = ()
    removals: tuple[RequestedRemovals, ...] = ()

    def requested(self) -> frozenset[bytes]:
        """Return the ids of the objects that edits remove."""
        return frozenset(one for removals in self.removals for one in _unpacked_ids(removals.ids))


class Judgement(Struct, frozen=True):
    """The result of an edit."""

    record: ScopeRecord
    requested: frozenset[bytes] = frozenset()
    """The ids of the unwanted objects that edits of the spec remove; all others are derived."""


def short_object_id(cluster_uid: str, kind: str, namespace: str, name: str, uid: str) -> bytes:
    """Return a short id of an object. Collisions are far too rare to matter for a guard that counts."""
    return bytes.fromhex(short_digest(cluster_uid, kind, namespace, name, uid))[:ID_SIZE]


def record_of(scope: SpecScope) -> ScopeRecord:
    """Return the record of a scope that was judged everywhere."""
    return ScopeRecord(scope=scope)


def is_judged(record: ScopeRecord | None, scope: SpecScope) -> bool:
    """Whether a scope was judged everywhere, and all removals that edits requested are done."""
    return record is not None and record == record_of(scope)


def judge(
    record: ScopeRecord | None, scope: SpecScope, unwanted: Sequence[ManagedObject], today: Today, unseen: Unseen
) -> Judgement:
    """Decide which of the unwanted objects edits of the spec have removed, and the new record.

    `unwanted` are the readable managed objects that the scope does not want. Without a record, former scopes are not
    known, so everything is derived.
    """
    if record is None:
        return Judgement(record_of(scope))
    known = record.requested()
    is_edited = record.scope is not None and record.scope != scope
    requested = []
    for one in unwanted:
        before = _earlier_scope(record, one) or (record.scope if is_edited else None)
        if one.id in known or (before is not None and is_removed_by_edit(before, scope, one, today)):
            requested.append(one)
    kept = tuple(one for one in record.removals if unseen.covers(one.environment, one.cluster, one.kind))
    removals = (*kept, *_grouped(one for one in requested if not unseen.covers(one.environment, one.cluster, one.kind)))
    fresh = structs.replace(record_of(scope), earlier=_earlier(record, scope, unseen), removals=_bounded(removals))
    return Judgement(fresh, frozenset(one.id for one in requested))


def without_removals(record: ScopeRecord, done: frozenset[bytes]) -> ScopeRecord:
    """Return the record once some objects are gone."""
    removals = []
    for one in record.removals:
        left = [found for found in _unpacked_ids(one.ids) if found not in done]
        removals += [structs.replace(one, ids=_packed_ids(left))] if left else []
    return structs.replace(record, removals=tuple(removals))


def encode_record(record: ScopeRecord) -> str:
    """Encode a record; if it is too long, the part that fits."""
    for less in (
        record,
        structs.replace(record, earlier=()),
        structs.replace(record, earlier=(), scope=None),
        structs.replace(record, earlier=(), scope=None, removals=()),
    ):
        text = msgspec.json.encode(less, order="deterministic").decode()
        if len(text) > _PLAIN:
            text = _PACKED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        if len(text) <= LIMIT:
            break
    return text


def decode_record(text: str | None) -> ScopeRecord | None:
    """Decode a record; None if there is none, or an invalid one, such as from an earlier version."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(_unpacked(text), type=ScopeRecord)
    except (msgspec.MsgspecError, binascii.Error, zlib.error, ValueError):
        return None


def _earlier_scope(record: ScopeRecord, managed: ManagedObject) -> SpecScope | None:
    """Return the scope that was last judged for an object, if it could not be read since."""
    place = (managed.environment, managed.cluster, managed.kind)
    return next((one.scope for one in record.earlier if one.unseen.covers(*place)), None)


def _earlier(record: ScopeRecord, scope: SpecScope, unseen: Unseen) -> tuple[EarlierScope, ...]:
    """Return the scopes that were last judged for all parts that cannot be read now."""
    earlier: list[EarlierScope] = []
    rest = unseen
    for one in record.earlier:
        if still := one.unseen.within(unseen):
            earlier.append(structs.replace(one, unseen=still))
            rest = rest.without(still)
    if rest and record.scope is not None:
        earlier.append(EarlierScope(scope=record.scope, unseen=rest))
    return tuple(one for one in earlier if one.scope != scope)[:MAX_EARLIER]


def _grouped(objects: Iterable[ManagedObject]) -> tuple[RequestedRemovals, ...]:
    ids: dict[tuple[str, str, str], list[bytes]] = {}
    for one in objects:
        ids.setdefault((one.environment, one.cluster, one.kind), []).append(one.id)
    return tuple(
        RequestedRemovals(environment=environment, cluster=cluster, kind=kind, ids=_packed_ids(found))
        for (environment, cluster, kind), found in sorted(ids.items())
    )


def _bounded(removals: Iterable[RequestedRemovals]) -> tuple[RequestedRemovals, ...]:
    room = MAX_REMOVALS
    kept = []
    for one in removals:
        ids = _unpacked_ids(one.ids)[:room]
        room -= len(ids)
        kept += [structs.replace(one, ids=_packed_ids(ids))] if ids else []
    return tuple(kept)


def _packed_ids(ids: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(ids))).decode()


def _unpacked_ids(text: str) -> list[bytes]:
    try:
        packed = base64.b64decode(text, validate=True)
    except binascii.Error:
        return []
    return [packed[start : start + ID_SIZE] for start in range(0, len(packed), ID_SIZE)]


def _unpacked(text: str) -> bytes:
    if not text.startswith(_PACKED):
        return text.encode()
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(base64.b64decode(text.removeprefix(_PACKED), validate=True), _MAX_UNPACKED)
    if not unpacker.eof:
        raise ValueError("the record is cut off, or too long")
    return unpacked
