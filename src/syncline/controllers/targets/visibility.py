"""Visibility of namespaces: a sync reports nothing of a namespace that its account could not find.

Globs and selectors are matched by the operator, which sees every namespace. A namespace that the account may neither
enter nor list is left out before anything is done with it, so that no message, count or failure tells of it.
"""

import asyncio
from collections.abc import Iterable

from msgspec import structs

from syncline.controllers.lowered import LoweredSpec
from syncline.core.objects import Target
from syncline.engine.access import AccessRequest, AccessReviews, is_allowed
from syncline.engine.cluster import Cluster
from syncline.kube.resources import NAMESPACES, Resource


class Visibility:
    """What the account of a sync may know of the namespaces of this cluster, for one pass."""

    def __init__(self, lowered: LoweredSpec, hub: Cluster, access: AccessReviews) -> None:
        self._user = lowered.user
        self._sync = lowered.sync.owner.sync
        self._hub = hub
        self._access = access
        self._answers: dict[AccessRequest, asyncio.Future[bool]] = {}
        takes_over = any(
            destination.policy.management in ("Adopt", "Overwrite") for destination in lowered.destinations
        )
        # How the account may enter a namespace.
        self._verbs = ("create", "patch") if takes_over else ("create",)
        owners = (
            [structs.replace(lowered.sync.owner, environment=part).ref for part in lowered.owners]
            if lowered.user
            else []
        )
        # The account has been there.
        self._entered = {observed.target.namespace for ref in owners for observed in hub.managed_by(ref)}

    async def is_hidden(self, target: Target) -> bool:
        """Tell whether the account may know nothing of a namespace that the sync names.

        It may know of it where it could read the namespace or write the target, and where it has managed objects.
        Raises `KubeError` where the API server does not say.
        """
        namespace = target.namespace
        if self._user is None or target.cluster or not namespace or namespace in self._entered:
            return False
        read = AccessRequest(verb="get", resource=NAMESPACES, namespace=namespace, name=namespace)
        if await self._access.may(self._user, read, by=self._sync):
            return False
        resource = self._resource(target)
        if resource is None:
            return True
        for verb in self._verbs:
            if await self._access.may(
                self._user, AccessRequest(verb=verb, resource=resource, namespace=namespace), by=self._sync
            ):
                return False
        return True

    async def known(self, targets: Iterable[Target]) -> frozenset[str]:
        """Return the namespaces of which the account may know, of those that globs and selectors of the sync match.

        It may know of those where it could write the target or has managed objects, and of all if it may list them. It
        is asked in each pass, so that a right counts at once. Raises `KubeError` where the API server does not say.
        """
        asked = list(targets)
        found = frozenset(target.namespace for target in asked)
        unknown = [target for target in asked if target.namespace not in self._entered]
        if self._user is None or not unknown:
            return found
        if await self._may("list", NAMESPACES):
            return found
        answers = await asyncio.gather(*map(self._is_open, unknown))
        closed = {target.namespace for target, answer in zip(unknown, answers, strict=True) if not answer}
        return found - closed

    async def _is_open(self, target: Target) -> bool:
        resource = self._resource(target)
        if resource is None:
            return False
        for namespace in ("", target.namespace):  # whoever may write everywhere need not be asked about each namespace
            for verb in self._verbs:
                if await self._may(verb, resource, namespace):
                    return True
        return False

    async def _may(self, verb: str, resource: Resource, namespace: str = "") -> bool:
        """Ask the API server, once in a pass."""
        access = AccessRequest(verb=verb, resource=resource, namespace=namespace)
        if access not in self._answers:
            client = self._hub.acting_as(self._user)
            self._answers[access] = asyncio.ensure_future(is_allowed(client, access, fair_key=self._sync))
        return await self._answers[access]

    def _resource(self, target: Target) -> Resource | None:
        """Return the kind of a target as the server calls it; None where it is not watched."""
        return self._hub.informer(target.kind).resource if self._hub.is_open(target.kind) else None
