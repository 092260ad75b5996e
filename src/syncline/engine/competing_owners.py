"""Competing owners: finds the sync that has a better right to a target, as far as another sync may know of it."""

from syncline.core.objects import Desired, Observed, Target
from syncline.core.ownership import Owner, Ownership, object_id_of, ownership_of
from syncline.engine.access import AccessRequest
from syncline.engine.claims import ANOTHER, Claims
from syncline.engine.cluster import Cluster
from syncline.kube.client import Client


class CompetingOwners:
    """Finds the competing owners of the targets of one sync in one cluster."""

    def __init__(self, cluster: Cluster, client: Client, owner: Owner, claims: Claims) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._claims = claims

    async def find(self, desired: Desired, observed: Observed | None) -> str:
        """Return the sync with the better claim, or an empty text, and note that our sync waits for it."""
        target, sync, cluster = desired.target, self._owner.sync, self._cluster.name
        object_id = object_id_of(self._cluster.uid, target)
        if observed is None:
            return await self._claimed_by(target)
        marker = observed.marker or observed.claim
        if marker is None or ownership_of(observed, self._owner, object_id) is not Ownership.OTHER_SYNC:
            return ""
        if marker.hub_uid != self._owner.hub_uid:  # the existence of a sync of another cluster cannot be checked
            self._claims.wait(sync, cluster, target)
            return f"{marker.sync} of another cluster"
        # That sync may be deleted during the check: from now on its changes enqueue ours.
        self._claims.wait(sync, cluster, target, marker.sync)
        # Any user can write an unsigned mark, to learn whether the named sync exists.
        is_guess = observed.marker is None and not await self._may_know(marker.sync)
        if is_guess or await self._claims.owner_exists(marker.sync):
            return marker.sync
        self._claims.stop_waiting(sync, cluster, target)
        return ""

    async def _claimed_by(self, target: Target) -> str:
        """Return the sync with the better claim on an absent target, named only if our sync may know of it."""
        sync, cluster, user = self._owner.sync, self._cluster.name, self._client.user
        namespace = self._cluster.namespace(target.namespace) if target.namespace else None
        resource = self._cluster.informer(target.kind).resource
        winner = await self._claims.winner(sync, cluster, target, namespace, resource)
        if not winner:
            return winner
        create = AccessRequest(verb="create", resource=resource, namespace=target.namespace)
        if user is not None and not await self._claims.access.may(user, create, by=sync):
            # The API server refuses the write anyway, whichever sync has the claim.
            self._claims.stop_waiting(sync, cluster, target)
            return ""
        return winner if await self._may_know(winner) else ANOTHER

    async def _may_know(self, ref: str) -> bool:
        """Whether our sync may know of another one: its service account, if it has one, must be able to read it."""
        # In another cluster it writes with the identity of the credential; here its service account counts.
        user = self._claims.user_of(self._owner.sync) if self._cluster.name else self._client.user
        return user is None or await self._claims.may_read(user, ref, by=self._owner.sync)
