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
    """All living claims, of all kinds."""

    def __init__(self, client: Client, kinds: Mapping[str, Resource]) -> None:
        self._client = client
        self._kinds = kinds
        self._claims: dict[str, Claim] = {}
        self._by_name: dict[Name, dict[str, list[Want]]] = {}

    def put(self, claim: Claim) -> None:
        """Enter or replace the claim of a sync."""
        self.drop(claim.ref)
        self._claims[claim.ref] = claim
        for want in claim.wants:
            self._by_name.setdefault(want.name, {}).setdefault(claim.ref, []).append(want)

    def drop(self, ref: str) -> bool:
        """Remove the claim of a sync that is gone or suspended; whether it had one."""
        claim = self._claims.pop(ref, None)
        if claim is None:
            return False
        for name in {want.name for want in claim.wants}:
            refs = self._by_name[name]
            del refs[ref]
            if not refs:
                del self._by_name[name]
        return True

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
        if "/".join(ref.split("/")[:3]) in self._claims:
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
