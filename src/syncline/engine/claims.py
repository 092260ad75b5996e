"""Which living sync has the better claim on a target.

The current owner keeps an object until it lets go; where nobody owns it, the older sync wins. Whoever loses is noted
as a waiter, and is told when the claim that it lost to changes or ends.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope
from syncline.engine.waiters import Waiters, sync_of
from syncline.kube.client import Client
from syncline.kube.errors import NotFound
from syncline.kube.resources import Resource

Name = tuple[str, str, str]
"""A name of copies: cluster, kind, name."""


class Want(Struct, frozen=True):
    """Copies of one name in one cluster; for a kind that is in no namespace the scope says nothing."""

    name: Name
    scope: Scope | None
    source: Target

    def covers(self, target: Target, namespace: Namespace | None) -> bool:
        """Whether the sync would write to this target, which has the name."""
        source = self.source if target.namespace else self.source._replace(namespace="")
        if not self.name[0] and target._replace(cluster="") == source:
            return False
        return not target.namespace or self.scope is None or (namespace is not None and self.scope.matches(namespace))


class Claim(Struct, frozen=True, kw_only=True):
    """What a sync wants."""

    ref: str
    created: str
    wants: tuple[Want, ...]


class Claims:
    """All living claims, of all kinds. A writer that loses to one notes that in `waiters`."""

    def __init__(self, client: Client, kinds: Mapping[str, Resource]) -> None:
        self._client = client
        self._kinds = kinds
        self._claims: dict[str, Claim] = {}
        self._by_name: dict[Name, dict[str, list[Want]]] = {}
        self._extended: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        self.waiters = Waiters()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Be told of each sync that waits for one whose claim has changed or ended."""
        self._listeners.append(listener)

    def put(self, claim: Claim) -> None:
        """Enter or replace the claim of a sync."""
        self._extended.discard(claim.ref)
        before = self._claims.get(claim.ref)
        if before == claim:
            return
        if before is not None:
            self._remove(before)
        self._claims[claim.ref] = claim
        for want in claim.wants:
            self._by_name.setdefault(want.name, {}).setdefault(claim.ref, []).append(want)
        if before is not None:
            self._tell_waiters(claim.ref)

    def extend(self, claim: Claim) -> None:
        """Enter the claim of an edited sync as far as its spec tells; other names stay claimed until its next pass.

        Otherwise an edit would give away every target whose name is not known before the sources are read.
        """
        before = self._claims.get(claim.ref)
        names = {want.name for want in claim.wants}
        kept = tuple(want for want in before.wants if want.name not in names) if before is not None else ()
        self.put(structs.replace(claim, wants=(*claim.wants, *kept)))
        self._extended.add(claim.ref)

    def settle_extended(self, claim: Claim) -> None:
        """Enter what the spec tells of a claim that was extended, once a pass has ended that could not tell more."""
        if claim.ref in self._extended:
            self.put(claim)

    def drop(self, ref: str) -> None:
        """Remove the claim of a sync that is gone or suspended."""
        self._extended.discard(ref)
        claim = self._claims.pop(ref, None)
        if claim is not None:
            self._remove(claim)
        self.waiters.drop(ref)
        self._tell_waiters(ref)

    def wait(self, ref: str, cluster: str, target: Target, winner: str = "") -> None:
        """Note that a sync waits for a target that another one has; one that claims nothing waits for nothing."""
        if ref in self._claims:
            self.waiters.add(ref, (cluster, target.local()), winner)

    def wait_no_more(self, ref: str, cluster: str, target: Target) -> None:
        """Note that nobody has the target that a sync waited for."""
        self.waiters.discard(ref, (cluster, target.local()))

    def _remove(self, claim: Claim) -> None:
        for name in {want.name for want in claim.wants}:
            refs = self._by_name[name]
            del refs[claim.ref]
            if not refs:
                del self._by_name[name]

    def _tell_waiters(self, ref: str) -> None:
        for waiter in self.waiters.for_sync(ref):
            for listener in self._listeners:
                listener(waiter)

    def older(self, ref: str, cluster: str, target: Target, namespace: Namespace | None) -> str:
        """Name the sync that wants the target of that cluster too and is older, or nothing."""
        refs = self._by_name.get((cluster, target.kind, target.name), {})
        mine = self._claims.get(ref)
        if len(refs) <= 1 or mine is None:
            return ""
        rivals = [
            self._claims[other]
            for other, wants in refs.items()
            if any(want.covers(target, namespace) for want in wants)
        ]
        first = min(rivals, key=lambda claim: (claim.created, claim.ref), default=mine)
        return first.ref if (first.created, first.ref) < (mine.created, mine.ref) else ""

    async def alive(self, ref: str) -> bool:
        """Whether the sync that a marker names exists; what we cannot know counts as alive."""
        if sync_of(ref) in self._claims:
            return True
        kind, _, rest = ref.partition("/")
        namespace, _, name = rest.partition("/")
        name = name.partition("/")[0]  # a part lives as long as its sync
        resource = self._kinds.get(kind)
        if resource is None or not namespace or not name:
            return resource is not None or bool(kind and rest)
        try:
            await self._client.get(resource, name, namespace)
        except NotFound:
            return False
        return True
