"""Finds the IgnitionSync of a new pod and checks its author; `core/injection.py` makes the patch.

The creator of a pod chooses the name of the sync, so only syncs of the pod's own namespace count.
"""

import re
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct, structs

from syncline.api.ignition_annotations import CR_NAME
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import PLURAL
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.plans import GatewaySync
from syncline.controllers.sources.references import Requester
from syncline.core.author_policies import JudgedSpec
from syncline.core.injection import (
    AgentFacts,
    Injection,
    NewPod,
    NoAgentError,
    SyncFacts,
    chosen_sync,
    facts_of,
    inject,
)
from syncline.core.remedies import grant
from syncline.engine.kind_informer import MetaWire
from syncline.engine.sync_object import RawSync
from syncline.fairness import on_behalf_of
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import SECRETS, Resource

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_FEW = 10
"""The maximum number of syncs of a namespace that are read live. Of more than one, none can be chosen."""


class KnownSyncs(Protocol):
    """The IgnitionSyncs in the cache of this replica."""

    def get(self, key: Key) -> GatewaySync | None:
        """Return a sync with its trusted status."""

    def syncs_of(self, namespaces: frozenset[str]) -> list[Key]:
        """Return the syncs of some namespaces."""

    def is_followed(self, namespace: str) -> bool:
        """Whether the syncs of a namespace are reconciled by this operator."""

    def read(self, wire: RawSync) -> GatewaySync:
        """Decode a sync."""

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes. Raises `SyncError`."""


class _Judged(Struct):
    author: JudgedSpec | None = None


class Injector:
    """Decides about new pods."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        syncs: KnownSyncs,
        agent: Callable[[], AgentFacts],
        authors: AuthorCheck | None,
    ) -> None:
        """`agent` returns the facts that all agents share; it raises `NoAgentError` if there can be no agent."""
        self._client = client
        self._resource = resource
        self._syncs = syncs
        self._agent = agent
        self._authors = authors

    async def decide(self, namespace: str, pod: NewPod) -> Injection:
        """Return the patch and the warnings for a pod of a namespace. Raises `NoAgentError` and `KubeError`."""
        on_behalf_of.set(namespace)
        agent = self._agent()
        if not self._syncs.is_followed(namespace):
            raise NoAgentError("the operator does not watch this namespace (--watch-namespaces)")
        sync = await self._sync_of(namespace, pod)
        name = sync.metadata.name
        if sync.spec is None:
            raise NoAgentError(f"the spec of IgnitionSync {name} is not valid: see its status")
        if sync.deleting:
            raise NoAgentError(f"IgnitionSync {name} is being deleted")
        # The author of the sync chooses the image and the Secrets, so the author must be checked first.
        problem = await self._authors.problem(PLURAL, sync, _Judged()) if self._authors is not None else None
        if problem is not None:
            raise NoAgentError(f"IgnitionSync {name} is not carried out ({problem.reason}): see its status")
        facts = facts_of(name, sync.spec)
        await self._check_account(sync, facts)
        return inject(pod, facts, agent)

    async def _check_account(self, sync: GatewaySync, facts: SyncFacts) -> None:
        """Raise `NoAgentError` if the service account of a sync may not read a Secret that the pod would mount.

        For a sync with a service account, the rights of the account count, not those of the author.
        """
        namespace, name = sync.metadata.namespace, sync.metadata.name
        account = sync.spec.service_account_name if sync.spec is not None else None
        try:
            user = self._syncs.requester(sync).user
        except SyncError as error:
            if error.stalled:
                raise NoAgentError(f"IgnitionSync {name} is not carried out ({error.reason}): see its status") from None
            # A new namespace may not be observed yet, nor its TenantPolicies.
            user = f"system:serviceaccount:{namespace}:{account}" if account else None
        if user is None:
            return
        mounted = {one.secret for one in (facts.api_key, *facts.secrets) if one is not None}
        for secret in sorted(mounted):
            try:
                await self._client.impersonating(user).get(
                    SECRETS, secret, namespace, type=MetaWire, metadata_only=True, fair_key=namespace
                )
            except NotFound:
                continue  # the pod can start without it
            except Forbidden as error:
                remedy = f"{grant(user, error.verb, error.resource)} for Secret {secret}"
                raise NoAgentError(
                    f"IgnitionSync {name} names a Secret that its account may not read: {remedy}"
                ) from None

    async def _sync_of(self, namespace: str, pod: NewPod) -> GatewaySync:
        wanted = pod.annotations.get(CR_NAME, "")
        if wanted:
            found = await self._find(namespace, wanted)
            known = {} if found is None else {wanted: found}
        else:
            known = await self._list(namespace)
        return known[chosen_sync(pod, list(known))]

    async def _find(self, namespace: str, name: str) -> GatewaySync | None:
        """Return a sync from the cache, or else from the API server."""
        if not _NAME.fullmatch(name):
            return None
        if (cached := self._syncs.get(Key(namespace, name))) is not None:
            return cached
        try:
            wire = await self._client.get(self._resource, name, namespace, type=RawSync, fair_key=namespace)
        except NotFound:
            return None
        return self._unproven(wire)

    async def _list(self, namespace: str) -> dict[str, GatewaySync]:
        cached = {key.name: self._syncs.get(key) for key in self._syncs.syncs_of(frozenset({namespace}))}
        known = {name: sync for name, sync in cached.items() if sync is not None}
        if known:
            return known
        async with aclosing(self._client.pages(self._resource, namespace, type=RawSync, page=_FEW)) as pages:
            async for page in pages:
                return {wire.metadata.name: self._unproven(wire) for wire in page.items}
        return {}

    def _unproven(self, wire: RawSync) -> GatewaySync:
        """Return a sync without its status, which is not verified."""
        return structs.replace(self._syncs.read(wire), status=IgnitionSyncStatus())
