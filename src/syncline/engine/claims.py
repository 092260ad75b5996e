"""Which living sync has the better claim on a target.

The current owner keeps an object until it lets go; where nobody owns it, the older sync wins.
"""

from collections.abc import Mapping

from msgspec import Struct

from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope
from syncline.kube.client import Client
from syncline.kube.errors import NotFound
from syncline.kube.resources import Resource


class Claim(Struct, frozen=True, kw_only=True):
    """What a sync wants."""

    ref: str
    created: str
    name: str
    scope: Scope
    source: Target

    def wants(self, target: Target, namespace: Namespace) -> bool:
        """Whether the sync would write to this target."""
        return target.name == self.name and target != self.source and self.scope.matches(namespace)


class Claims:
    """All living claims, of all kinds."""

    def __init__(self, client: Client, kinds: Mapping[str, Resource]) -> None:
        self._client = client
        self._kinds = kinds
        self._claims: dict[str, Claim] = {}
        self._by_name: dict[str, set[str]] = {}

    def put(self, claim: Claim) -> None:
        """Enter or replace the claim of a sync."""
        self.drop(claim.ref)
        self._claims[claim.ref] = claim
        self._by_name.setdefault(claim.name, set()).add(claim.ref)

    def drop(self, ref: str) -> bool:
        """Remove the claim of a sync that is gone or suspended; whether it had one."""
        claim = self._claims.pop(ref, None)
        if claim is not None:
            refs = self._by_name[claim.name]
            refs.discard(ref)
            if not refs:
                del self._by_name[claim.name]
        return claim is not None

    def older(self, ref: str, target: Target, namespace: Namespace) -> str:
        """Name the sync that wants the target too and is older, or nothing."""
        refs = self._by_name.get(target.name, ())
        if len(refs) <= 1:
            return ""
        mine = self._claims.get(ref)
        rivals = [claim for other in refs if (claim := self._claims[other]).wants(target, namespace)]
        first = min(rivals, key=lambda claim: (claim.created, claim.ref), default=None)
        if first is None or first.ref == ref or mine is None:
            return ""
        return first.ref if (first.created, first.ref) < (mine.created, mine.ref) else ""

    async def alive(self, ref: str) -> bool:
        """Whether the sync that a marker names exists; what we cannot know counts as alive."""
        if ref in self._claims:
            return True
        kind, _, rest = ref.partition("/")
        namespace, _, name = rest.partition("/")
        resource = self._kinds.get(kind)
        if resource is None or not namespace or not name:
            return resource is not None or bool(kind and rest)
        try:
            await self._client.get(resource, name, namespace)
        except NotFound:
            return False
        return True
