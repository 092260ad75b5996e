"""Which living sync has the better claim on a target.

The current owner keeps an object until it lets go; where nobody owns it, the oldest sync wins that could create it.
What a spec asks for beyond the rights of its sync is no claim: it blocks nobody. Whoever loses is noted as a waiter. It
is told when the claim that it lost to changes or ends, and to look again in a while, since rights change silently.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, structs

from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope
from syncline.engine.access import ANSWER_TTL, AccessRequest, AccessReviews
from syncline.engine.waiters import Waiters, sync_of
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import Resource

Name = tuple[str, str, str]
"""A name of copies: cluster, kind, name."""

# The API server is asked about so many identities that claim one target, at most: anybody can invent accounts.
MOST_REVIEWED = 8


class ClaimedTarget(Struct, frozen=True):
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
    targets: tuple[ClaimedTarget, ...]
    user: str | None = None
    """Whom the sync acts as in its own cluster; None: the operator itself."""
    dry_run: bool = False
    """Whether the sync only says what it would write: then others need not wait for it."""

    @property
    def age(self) -> tuple[str, str]:
        """Orders claims: the least is the oldest."""
        return self.created, self.ref


class Claims:
    """All living claims, of all kinds. A writer that loses to one notes that in `waiters`."""

    def __init__(self, client: Client, kinds: Mapping[str, Resource]) -> None:
        self._client = client
        self._kinds = kinds
        self._claims: dict[str, Claim] = {}
        self._by_name: dict[Name, dict[str, list[ClaimedTarget]]] = {}
        self._extended: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        self._rechecks: dict[str, asyncio.TimerHandle] = {}
        self.waiters = Waiters()
        self.access = AccessReviews(client)

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
        for claimed in claim.targets:
            self._by_name.setdefault(claimed.name, {}).setdefault(claim.ref, []).append(claimed)
        if before is not None:
            self._notify_waiters(claim.ref)

    def extend(self, claim: Claim) -> None:
        """Enter the claim of an edited sync as far as its spec tells; other names stay claimed until its next pass.

        Otherwise an edit would give away every target whose name is not known before the sources are read.
        """
        before = self._claims.get(claim.ref)
        names = {claimed.name for claimed in claim.targets}
        kept = tuple(claimed for claimed in before.targets if claimed.name not in names) if before is not None else ()
        self.put(structs.replace(claim, targets=(*claim.targets, *kept)))
        self._extended.add(claim.ref)

    def replace_extended(self, claim: Claim) -> None:
        """Enter what the spec tells of a claim that was extended, once a pass has ended that could not tell more."""
        if claim.ref in self._extended:
            self.put(claim)

    def drop(self, ref: str) -> None:
        """Remove the claim of a sync that is gone or suspended."""
        self._extended.discard(ref)
        claim = self._claims.pop(ref, None)
        if claim is not None:
            self._remove(claim)
        if (recheck := self._rechecks.pop(ref, None)) is not None:
            recheck.cancel()
        self.waiters.drop(ref)
        self._notify_waiters(ref)

    def wait(self, ref: str, cluster: str, target: Target, winner: str = "") -> None:
        """Note that a sync waits for a target that another one has; one that claims nothing waits for nothing."""
        if ref in self._claims:
            self.waiters.add(ref, (cluster, target.local()), winner)

    def stop_waiting(self, ref: str, cluster: str, target: Target) -> None:
        """Note that nobody has the target that a sync waited for."""
        self.waiters.discard(ref, (cluster, target.local()))

    def _remove(self, claim: Claim) -> None:
        for name in {claimed.name for claimed in claim.targets}:
            refs = self._by_name[name]
            del refs[claim.ref]
            if not refs:
                del self._by_name[name]

    def _notify_waiters(self, ref: str) -> None:
        for waiter in self.waiters.for_sync(ref):
            for listener in self._listeners:
                listener(waiter)

    def _schedule_recheck(self, ref: str) -> None:
        """Have a sync look again once the answer that it waits because of is not believed any more."""
        if ref not in self._rechecks:
            self._rechecks[ref] = asyncio.get_running_loop().call_later(ANSWER_TTL, self._recheck, ref)

    def _recheck(self, ref: str) -> None:
        del self._rechecks[ref]
        if self.waiters.is_waiting(ref):
            for listener in self._listeners:
                listener(ref)

    def older_claimants(self, ref: str, cluster: str, target: Target, namespace: Namespace | None) -> list[Claim]:
        """Return the claims of older syncs on a target of that cluster, the oldest first."""
        refs = self._by_name.get((cluster, target.kind, target.name), {})
        mine = self._claims.get(ref)
        if len(refs) <= 1 or mine is None:
            return []
        older = [
            claim
            for other, wants in refs.items()
            if not (claim := self._claims[other]).dry_run
            and claim.age < mine.age
            and any(claimed.covers(target, namespace) for claimed in wants)
        ]
        return sorted(older, key=lambda claim: claim.age)

    async def winner(
        self, ref: str, cluster: str, target: Target, namespace: Namespace | None, resource: Resource
    ) -> str:
        """Name the sync with the better claim on a target that nobody has, or nothing; note that this one waits.

        Raises `KubeError` where the API server does not say who could create it.
        """
        older = self.older_claimants(ref, cluster, target, namespace)
        if not older:
            return ""
        mine = self._claims[ref].user
        access = AccessRequest(verb="create", resource=resource, namespace=target.namespace)
        # In another cluster all who share a claim share the credential: none can do what the others cannot.
        for claim in older[:1] if cluster else reviewed(older, mine):
            # It may change while the server is asked: that is told from now on.
            self.wait(ref, cluster, target, claim.ref)
            if cluster or claim.user == mine:
                return claim.ref
            if await self.access.may(claim.user, access, by=ref):
                self._schedule_recheck(ref)
                return claim.ref
            self.stop_waiting(ref, cluster, target)
        return ""

    def user_of(self, ref: str) -> str | None:
        """Return whom a sync acts as in its own cluster; None: the operator itself, or it claims nothing."""
        claim = self._claims.get(ref)
        return claim.user if claim is not None else None

    async def may_read(self, user: str, ref: str, *, by: str) -> bool:
        """Tell whether a user may know of a sync. Raises `KubeError` where the API server does not say."""
        kind, _, rest = sync_of(ref).partition("/")
        namespace, _, name = rest.partition("/")
        resource = self._kinds.get(kind)
        if resource is None or not namespace or not name:
            return False
        return await self.access.may(
            user, AccessRequest(verb="get", resource=resource, namespace=namespace, name=name), by=by
        )

    async def owner_exists(self, ref: str) -> bool:
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
        except Forbidden:  # a plan of somebody who may not see it
            return True
        return True


def reviewed(older: Iterable[Claim], user: str | None) -> list[Claim]:
    """Return the claims whose identities are asked about for a sync that acts as `user`, the oldest first.

    Of each identity the oldest claim stands for all. The sync's own identity and the operator are always among them; of
    the others there are only so many, and the namespaces that they are of take turns.
    """
    by_identity: dict[str | None, Claim] = {}
    for claim in older:
        by_identity.setdefault(claim.user, claim)
    chosen = [claim for claim in by_identity.values() if claim.user in (None, user)]
    turns: dict[str, list[Claim]] = {}
    for claim in by_identity.values():
        if claim.user not in (None, user):
            turns.setdefault(claim.ref.split("/")[1], []).append(claim)
    rest = [(number, claim.age, claim) for claims in turns.values() for number, claim in enumerate(claims)]
    rest.sort(key=lambda entry: entry[:2])
    chosen += [claim for *_, claim in rest[:MOST_REVIEWED]]
    return sorted(chosen, key=lambda claim: claim.age)
