"""The sync that writes the status or other parts of an upstream object: the oldest of those that want to.

The others are enqueued when that changes. The index may be lost at any time: the next reconcile of a sync adds its
objects again.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct

from syncline.core.digest import short_digest
from syncline.core.objects import Target
from syncline.engine.cluster import Cluster
from syncline.kube.config import Connection

UpstreamObject = tuple[str, Target]
"""An upstream (`place_of`), and an object in it."""


def place_of(upstream: Cluster) -> str:
    """Name an upstream over all credentials for it."""
    return place_name(upstream.uid, upstream.client.connection)


def place_name(uid: str, connection: Connection) -> str:
    """Name a cluster over all credentials for it.

    The UID alone is not enough: a server can report the UID of another one. So both syncs must also have verified the
    same certificate authority at the same address.
    """
    authority = (connection.ca_pem or b"").decode(errors="replace")
    address = urlsplit(connection.server).netloc.lower()
    return short_digest(uid, address, connection.tls_server_name or "", authority)


class _StatusClaim(Struct, frozen=True):
    age: tuple[str, str]
    objects: frozenset[UpstreamObject]


class StatusWriters:
    """The upstream objects whose status syncs take; `notify` gets each sync for which the writer of one changes."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._claims: dict[str, _StatusClaim] = {}
        self._by_object: dict[UpstreamObject, set[str]] = {}
        self._contested: set[UpstreamObject] = set()

    def put(self, ref: str, created: str, objects: frozenset[UpstreamObject]) -> None:
        """Set the objects whose status a sync takes; `created` is the creation time of the sync."""
        before = self._claims.get(ref)
        known = before.objects if before is not None else frozenset()
        claim = self._claims[ref] = _StatusClaim((created, ref), objects)
        affected = self._discard(ref, known - objects)
        for one in objects - known:
            refs = self._by_object.setdefault(one, set())
            affected |= {other for other in refs if self._claims[other].age > claim.age}
            refs.add(ref)
            if len(refs) > 1:
                self._contested.add(one)
        if not objects:
            del self._claims[ref]
        for other in affected:
            self._notify(other)

    def drop(self, ref: str) -> None:
        """Forget a sync that is deleted, or that takes no status any more."""
        if ref in self._claims:
            self.put(ref, "", frozenset())

    def lost(self, ref: str) -> dict[UpstreamObject, str]:
        """Return the objects of a sync whose status an older sync writes, with that sync."""
        claim = self._claims.get(ref)
        if claim is None or not self._contested:
            return {}
        found = {}
        for one in self._contested & claim.objects:
            oldest = min(self._claims[other].age for other in self._by_object[one])
            if oldest != claim.age:
                found[one] = oldest[1]
        return found

    def _discard(self, ref: str, objects: frozenset[UpstreamObject]) -> set[str]:
        """Remove a sync from some objects; return the others that take them."""
        affected: set[str] = set()
        for one in objects:
            refs = self._by_object[one]
            refs.discard(ref)
            affected |= refs
            if len(refs) <= 1:
                self._contested.discard(one)
            if not refs:
                del self._by_object[one]
        return affected
