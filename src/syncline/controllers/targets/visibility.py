"""Visibility of namespaces: a sync reports nothing of a namespace that its account could not find.

The operator matches globs and selectors, and it sees every namespace. A namespace that the account may neither use nor
list is left out first, so that no message, count or failure reveals it.
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
    """The namespaces of this cluster that the account of a sync may know, for one reconcile."""

    def __init__(self, lowered: LoweredSpec, hub: Cluster, access: AccessReviews) -> None:
        self._user = lowered.user
        self._sync = lowered.sync.owner.sync
        self._hub = hub
        self._access = access
        self._answers: dict[AccessRequest, asyncio.Future[bool]] = {}
        takes_over = any(
            destination.policy.management in ("Adopt", "Overwrite") for destination in lowered.destinations
        )
        # With one of these rights there, the account may know a namespace.
        self._verbs = ("create", "patch") if takes_over else ("create",)
        owners = (
            [structs.replace(lowered.sync.owner, environment=unit).ref for unit in lowered.owners]
            if lowered.user
            else []
        )
        # The account has written there.
        self._entered = {observed.target.namespace for ref in owners for observed in hub.managed_by(ref)}

    async def is_hidden(self, target: Target) -> bool:
        """Whether the account must not know a namespace that the sync names.

        It may know the namespace if it can read it or write the target, or if it has managed objects there. Raises
        `KubeError` if the API server does not answer.
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
        """Return the namespaces that globs and selectors of the sync match and that the account may know.

        It may know those where it can write the target or has managed objects, and all if it may list namespaces. The
        rights are checked in each reconcile, so that a new right counts at once. Raises `KubeError` if the API server
        does not answer.
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
        for namespace in ("", target.namespace):  # a user who may write everywhere is not checked for each namespace
            for verb in self._verbs:
                if await self._may(verb, resource, namespace):
                    return True
        return False

    async def _may(self, verb: str, resource: Resource, namespace: str = "") -> bool:
        """Ask the API server, once in a reconcile."""
        access = AccessRequest(verb=verb, resource=resource, namespace=namespace)
        if access not in self._answers:
            client = self._hub.acting_as(self._user)
            self._answers[access] = asyncio.ensure_future(is_allowed(client, access, fair_key=self._sync))
        return await self._answers[access]

    def _resource(self, target: Target) -> Resource | None:
        """Return the resource of a target; None if its kind is not watched."""
        return self._hub.informer(target.kind).resource if self._hub.is_open(target.kind) else None
