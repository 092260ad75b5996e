"""Claims: the oldest existing sync that wants a target has the right to create it.

The current owner keeps an object until it releases it; an object that no sync owns goes to the oldest sync that could
create it. A target that a sync has no right to create, or that a TenantPolicy does not allow it, is no claim: it blocks
nobody. The sync that loses becomes a waiter. It is enqueued when the winning claim changes or ends, and again after a
while, since rights change silently.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, structs

from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope
from syncline.core.tenancy import NO_LIMITS, TenantLimits
from syncline.engine.access import ANSWER_TTL, AccessRequest, AccessReviews
from syncline.engine.status_writers import StatusWriters
from syncline.engine.waiters import Waiters, sync_of
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.resources import Resource

Name = tuple[str, str, str]
"""A name of targets: cluster, kind, name."""

# Stands for a sync that must not be named.
ANOTHER = "another sync"
# The API server is asked about at most this many identities that claim one target, and about the oldest one of each
# namespace: anybody can invent accounts, and an answer takes as long as the write that waits for it.
MOST_REVIEWED = 8


class ClaimedTarget(Struct, frozen=True):
    """Targets of one name in one cluster; the scope does not apply to cluster-scoped kinds."""

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
    """The targets that a sync claims."""

    ref: str
    created: str
    targets: tuple[ClaimedTarget, ...]
    user: str | None = None
    """The user that the sync acts as in its own cluster; None: the operator itself."""
    dry_run: bool = False
    """Whether the sync writes nothing (dry run): then other syncs do not wait for it."""

    @property
    def age(self) -> tuple[str, str]:
        """The order of claims: the least is the oldest."""
        return self.created, self.ref


class Claims:
    """The claims of all syncs of all kinds. A writer that loses a target adds its sync to `waiters`."""

    def __init__(
        self, client: Client, kinds: Mapping[str, Resource], limits: Callable[[str], TenantLimits] = lambda _: NO_LIMITS
    ) -> None:
        """`limits` returns what the TenantPolicies of a namespace allow: a refused target is no claim either."""
        self._client = client
        self._kinds = kinds
        self._limits = limits
        self._claims: dict[str, Claim] = {}
        self._by_name: dict[Name, dict[str, list[ClaimedTarget]]] = {}
        self._extended: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        self._rechecks: dict[str, asyncio.TimerHandle] = {}
        self.waiters = Waiters()
        self.status_writers = StatusWriters(self._notify)
        self.spec_writers = StatusWriters(self._notify)
        """The same for the other fields of upstream objects, which two-way syncs write."""
        self.access = AccessReviews(client)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Add a listener: it gets each sync that waits for a claim that has changed or ended."""
        self._listeners.append(listener)

    def put(self, claim: Claim) -> None:
        """Set the claim of a sync."""
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
        """Set the claim of an edited sync from its spec. Earlier names stay claimed until its next reconcile.

        Otherwise an edit would release every target whose name is not known before the sources are read.
        """
        before = self._claims.get(claim.ref)
        names = {claimed.name for claimed in claim.targets}
        kept = tuple(claimed for claimed in before.targets if claimed.name not in names) if before is not None else ()
        self.put(structs.replace(claim, targets=(*claim.targets, *kept)))
        self._extended.add(claim.ref)

    def replace_extended(self, claim: Claim) -> None:
        """Reduce an extended claim to the targets in the spec, after a reconcile that could not find the others."""
        if claim.ref in self._extended:
            self.put(claim)

    def drop(self, ref: str) -> None:
        """Remove the claim of a sync that is deleted or suspended."""
        self._extended.discard(ref)
        claim = self._claims.pop(ref, None)
        if claim is not None:
            self._remove(claim)
        if (recheck := self._rechecks.pop(ref, None)) is not None:
            recheck.cancel()
        self.waiters.drop(ref)
        self.status_writers.drop(ref)
        self.spec_writers.drop(ref)
        self._notify_waiters(ref)

    def wait(self, ref: str, cluster: str, target: Target, winner: str = "") -> None:
        """Record that a sync waits for a target of another sync. A sync without a claim waits for nothing."""
        if ref in self._claims:
            self.waiters.add(ref, (cluster, target.local()), winner)

    def stop_waiting(self, ref: str, cluster: str, target: Target) -> None:
        """Record that a sync no longer waits for a target."""
        self.waiters.discard(ref, (cluster, target.local()))

    def _remove(self, claim: Claim) -> None:
        for name in {claimed.name for claimed in claim.targets}:
            refs = self._by_name[name]
            del refs[claim.ref]
            if not refs:
                del self._by_name[name]

    def _notify_waiters(self, ref: str) -> None:
        for waiter in self.waiters.for_sync(ref):
            self._notify(waiter)

    def _notify(self, ref: str) -> None:
        for listener in self._listeners:
            listener(ref)

    def _schedule_recheck(self, ref: str) -> None:
        """Enqueue a waiting sync when the access review that it waits because of expires."""
        if ref not in self._rechecks:
            self._rechecks[ref] = asyncio.get_running_loop().call_later(ANSWER_TTL, self._recheck, ref)

    def _recheck(self, ref: str) -> None:
        del self._rechecks[ref]
        if self.waiters.is_waiting(ref):
            self._notify(ref)

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
            and self._limits(claim.ref.split("/")[1]).target(target.kind, target.namespace) is None
        ]
        return sorted(older, key=lambda claim: claim.age)

    async def winner(
        self, ref: str, cluster: str, target: Target, namespace: Namespace | None, resource: Resource
    ) -> str:
        """Return the sync with the better claim on a target without owner, or an empty text. This sync then waits.

        Raises `KubeError` if the API server does not answer who could create it.
        """
        older = self.older_claimants(ref, cluster, target, namespace)
        if not older:
            return ""
        mine = self._claims[ref].user
        access = AccessRequest(verb="create", resource=resource, namespace=target.namespace)
        # In another cluster, all syncs with a claim share the credential, and so have the same rights.
        for claim in older[:1] if cluster else reviewed(older, mine):
            # The claim may change while the server is asked: from now on its changes enqueue this sync.
            self.wait(ref, cluster, target, claim.ref)
            if cluster or claim.user == mine:
                return claim.ref
            if await self.access.may(claim.user, access, by=ref):
                self._schedule_recheck(ref)
                return claim.ref
            self.stop_waiting(ref, cluster, target)
        return ""

    def user_of(self, ref: str) -> str | None:
        """Return the user that a sync acts as in its own cluster; None: the operator itself, or no claim."""
        claim = self._claims.get(ref)
        return claim.user if claim is not None else None

    async def may_read(self, user: str, ref: str, *, by: str) -> bool:
        """Return whether a user may read a sync. Raises `KubeError` if the API server does not answer."""
        kind, _, rest = sync_of(ref).partition("/")
        namespace, _, name = rest.partition("/")
        resource = self._kinds.get(kind)
        if resource is None or not namespace or not name:
            return False
        return await self.access.may(
            user, AccessRequest(verb="get", resource=resource, namespace=namespace, name=name), by=by
        )

    async def name_for(self, ref: str, *, by: str) -> str:
        """Return the name of a sync, as far as another sync, `by`, may see it with the rights of its account."""
        user = self.user_of(by)
        try:
            known = user is None or await self.may_read(user, ref, by=by)
        except KubeError:
            known = False
        return ref if known else ANOTHER

    async def owner_exists(self, ref: str) -> bool:
        """Return whether the owner that a marker names exists; an owner that we cannot read counts as existing."""
        if sync_of(ref) in self._claims:
            return True
        kind, _, rest = ref.partition("/")
        namespace, _, name = rest.partition("/")
        name = name.partition("/")[0]  # an environment exists as long as its sync
        resource = self._kinds.get(kind)
        if resource is None or not namespace or not name:
            return resource is not None or bool(kind and rest)
        try:
            await self._client.get(resource, name, namespace)
        except NotFound:
            return False
        except Forbidden:  # a preview of a user who may not read it
            return True
        return True


def reviewed(older: Iterable[Claim], user: str | None) -> list[Claim]:
    """Return the claims whose identities are reviewed for a sync that acts as `user`, the oldest first.

    The sync's own identity and the operator are always included. Of the others, the oldest claim of a namespace stands
    for the namespace, and their number is limited.
    """
    by_identity: dict[str | None, Claim] = {}
    for claim in older:
        by_identity.setdefault(claim.user, claim)
    chosen = [claim for claim in by_identity.values() if claim.user in (None, user)]
    others = (claim for claim in by_identity.values() if claim.user not in (None, user))
    by_namespace: dict[str, Claim] = {}
    for claim in others:
        by_namespace.setdefault(claim.ref.split("/")[1], claim)
    chosen += list(by_namespace.values())[:MOST_REVIEWED]
    return sorted(chosen, key=lambda claim: claim.age)
