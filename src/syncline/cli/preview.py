"""Plans of syncs for commands: with the same caches and the same decisions as the operator, without writes."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.cli import connect
from syncline.cli.access import RightsReviews
from syncline.cli.arguments import UsageError
from syncline.cli.partial import NotVisible, PartialCluster
from syncline.cli.projected import is_same, written
from syncline.cli.strict import explain
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.preview import FleetPreview, GatewayPreviewer
from syncline.controllers.kinds.ignitionsync import IgnitionSyncReconciler
from syncline.controllers.reconciler import AnyReconciler
from syncline.controllers.targets.fleet_clusters import FleetClusters
from syncline.controllers.targets.preview import Preview
from syncline.controllers.targets.synctargets import SyncTargetInformer
from syncline.controllers.tenant_policies import TenantPolicyInformer
from syncline.core.digest import DigestKey
from syncline.core.marks import MarkKeys
from syncline.core.plan import Action, Verb
from syncline.engine.digestkey import read_digest_key
from syncline.engine.markkeys import NAME as MARK_KEYS
from syncline.engine.markkeys import MarkRing, read_mark_keys
from syncline.engine.own_rights import OwnRights
from syncline.engine.sync_object import RawSync
from syncline.fleet import Fleet
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import BadRequest, Forbidden, KubeError, NotFound
from syncline.kube.events import EventRecorder
from syncline.kube.reflector import AnyReflector
from syncline.kube.resources import Resource
from syncline.reconcilers import BuildTools, new_reconcilers
from syncline.render.transform_pool import TransformPool

BOTH_WAYS = "this sync is Bidirectional: changes of the source by edits of the copy are not shown"
_POLL = 0.02


class Previewer:
    """Plans existing and new syncs."""

    def __init__(
        self,
        client: Client,
        hub: PartialCluster,
        reconcilers: Sequence[AnyReconciler],
        access: RightsReviews,
        *,
        gateways: IgnitionSyncReconciler,
        unread: Sequence[str] = (),
    ) -> None:
        """`unread`: notes about objects that could not be read."""
        self._gateways = gateways
        self._unread = unread
        self.client = client
        self.hub = hub
        self.access = access
        self._reconcilers = {reconciler.kind.name: reconciler for reconciler in reconcilers}

    async def check(self, manifest: dict[str, Any], namespace: str) -> RawSync:
        """Validate and default a manifest with a dry run. Identity and status come from the live object."""
        resource = self._resource(manifest["kind"])
        meta = manifest["metadata"]
        name, namespace = str(meta["name"]), str(meta.get("namespace") or namespace)
        body = {**manifest, "metadata": {**meta, "namespace": namespace}}
        try:
            return await self._checked(resource, name, namespace, body)
        except BadRequest as error:
            unknown = explain(manifest["kind"], error)
            if unknown is None:
                raise
            raise UsageError(f"{manifest['kind']} {namespace}/{name}: {unknown}") from None

    def _resource(self, kind: str) -> Resource:
        gateways = self._gateways.kind
        return gateways.resource if kind == gateways.name else self._reconcilers[kind].kind.resource

    async def _checked(self, resource: Resource, name: str, namespace: str, body: dict[str, Any]) -> RawSync:
        meta = body["metadata"]
        try:
            living = await self.client.get(resource, name, namespace)
        except NotFound:
            checked = await self.client.create(resource, body, namespace, dry_run=True, strict=True, type=RawSync)
            return msgspec.structs.replace(checked, status=msgspec.Raw(b"{}"))
        # The request replaces the object, because fields that are not in the file must be removed.
        annotations = {**(living["metadata"].get("annotations") or {}), **(meta.get("annotations") or {})}
        body["metadata"] = {**living["metadata"], "annotations": annotations}
        checked = await self.client.replace(resource, name, namespace, body, dry_run=True, strict=True, type=RawSync)
        return msgspec.structs.replace(checked, status=msgspec.Raw(msgspec.json.encode(living.get("status") or {})))

    async def read(self, kind: str, name: str, namespace: str) -> RawSync:
        """Read a sync that exists."""
        return await self.client.get(self._resource(kind), name, namespace, type=RawSync)

    async def preview(self, kind: str, wire: RawSync) -> Preview:
        """Plan a reconcile without making it. Raises `NotVisible` if a necessary object is not readable."""
        await self.hub.look_at_namespaces(msgspec.json.decode(wire.spec))
        try:
            preview = await self._reconcilers[kind].preview(wire, self.access)
        except NotVisible as error:
            raise NotVisible(f"{kind} {wire.metadata.namespace}/{wire.metadata.name}: {error}") from None
        return preview if self.hub.key.secret else await _compared(preview)

    async def preview_gateways(self, wire: RawSync) -> FleetPreview:
        """Compare the files of gateways with those that an IgnitionSync would publish."""
        kind = self._gateways.kind
        sync, status = kind.read(wire), msgspec.json.decode(wire.status, type=IgnitionSyncStatus)
        living = None
        with suppress(NotFound):
            living = kind.read(await self.read(kind.name, wire.metadata.name, wire.metadata.namespace))
        if sync.spec is None:
            return FleetPreview(problem=SyncError("InvalidSpec", sync.error))
        try:
            kind.admit(sync)
            requester = kind.requester(sync)
        except SyncError as error:
            return FleetPreview(problem=error)
        return await GatewayPreviewer(self.client, self._gateways.fleet).preview(sync, status, living, requester)

    def unchecked(self) -> list[str]:
        """Return notes about rights that could not be checked and objects that are not readable."""
        unchecked = [f"the rights of {who} were not checked: {why}" for who, why in self.access.unchecked.items()]
        if not self.hub.marks.keys.checked:
            unchecked.append(
                f"the signatures of markers were not checked: you may not read the Secret {MARK_KEYS} of the operator"
            )
        return [*unchecked, *self.hub.unseen(), *self._unread]


async def _compared(preview: Preview) -> Preview:
    """Find the updates that change nothing, by comparing objects: digests of another key cannot be compared."""
    wanted = {desired.target: (site, desired) for site, desired in preview.desired}
    actions = []
    for action in preview.actions:
        if action.verb is Verb.UPDATE and action.target in wanted:
            with suppress(KubeError):  # then the action stays an update
                if is_same(await written(*wanted[action.target], action)):
                    message = "equals the source"
                    same = Action(verb=Verb.LEAVE, target=action.target, reason="Synced", message=message)
                    actions.append(same)
                    continue
        actions.append(action)
    return msgspec.structs.replace(preview, actions=tuple(actions))


@asynccontextmanager
async def open_previewer(
    connection: Connection, given: argparse.Namespace, namespaces: Iterable[str]
) -> AsyncIterator[Previewer]:
    """Fill the caches, and keep them until the end of the block. `given` has the settings of the operator.

    `namespaces` are the namespaces of the syncs. A user who cannot list all syncs sees the syncs of one namespace.
    """
    settings = connect.settings(given)
    async with (
        Client(connection) as client,
        TransformPool(unconfined=settings.allow_unconfined_builds) as renderer,
        settings.builder() as builder,
        settings.mirrors() as mirrors,
        Fleet(allow_loopback=settings.allow_loopback) as fleet,
    ):
        # A first read fails immediately with a message. A watch would retry forever.
        await client.version()
        home, *others = sorted(set(namespaces))
        marks = MarkRing(await _mark_keys(client, settings.namespace))
        hub = PartialCluster(client, home, key=await _key(client, settings.namespace), marks=marks)
        await hub.read_visible()
        await hub.identify()
        if not hub.sees_syncs:
            if others:
                raise UsageError(
                    "you may not list the syncs of all namespaces: plan the syncs of one namespace at a time"
                )
            settings = msgspec.structs.replace(settings, watch_namespaces=(home,))
        targets = SyncTargetInformer(hub, lambda *_: None, None if hub.sees_syncs else home)
        policies = TenantPolicyInformer(hub)
        unread = await _load(policies, client)
        remotes = FleetClusters(hub, fleet, targets, policies=policies)
        tools = BuildTools(renderer, builder, mirrors)
        rights = OwnRights()
        await rights.learn(client)
        events = EventRecorder(client, "syncline", "preview")
        syncs = new_reconcilers(hub, tools, events, settings, clusters=remotes, rights=rights, policies=policies)
        reflectors: tuple[AnyReflector, ...] = (
            targets.reflector,
            *(reflector for one in syncs.all for reflector in one.syncs.values()),
        )
        hub.start()
        watches = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        try:
            await _synced((hub.namespaces, *reflectors))
            access = RightsReviews(client, connect.operator_user(given))
            yield Previewer(client, hub, syncs.planned, access, gateways=syncs.gateways, unread=unread)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await remotes.stop()
            await hub.stop()


def namespaces_of(manifests: Iterable[Mapping[str, Any]], home: str) -> list[str]:
    """Return the namespaces of syncs. `home` is the namespace of a sync that names none or is not in a file."""
    return [str(one["metadata"].get("namespace") or home) for one in manifests] or [home]


async def _key(client: Client, namespace: str) -> DigestKey:
    """Read the key of digests. Without this right, copies are compared only by content."""
    try:
        return await read_digest_key(client, namespace)
    except KubeError:
        return DigestKey()


async def _mark_keys(client: Client, namespace: str) -> MarkKeys:
    """Read the keys that sign markers. Without this right, the signatures are not checked."""
    try:
        return await read_mark_keys(client, namespace)
    except KubeError:
        return MarkKeys(checked=False)


async def _load(policies: TenantPolicyInformer, client: Client) -> list[str]:
    """Read the TenantPolicies. Return a note if this is not possible: the operator applies them in any case."""
    try:
        await policies.load(client)
    except NotFound:
        return []
    except Forbidden:
        return ["TenantPolicies were not checked: you may not list them"]
    except KubeError as error:
        return [f"TenantPolicies were not checked: {error}"]
    return []


async def _synced(reflectors: Sequence[AnyReflector]) -> None:
    """Wait for the first lists. An error that a running operator would retry ends the command."""
    while waiting := [reflector.status() for reflector in reflectors if not reflector.synced.is_set()]:
        failures = [status.failure for status in waiting if status.failure]
        if failures:
            raise KubeError(failures[0])
        await asyncio.sleep(_POLL)


def goes_both_ways(wire: RawSync) -> bool:
    """Whether a sync also writes to its source. A preview does not show these writes."""
    return msgspec.json.decode(wire.spec, type=_Direction).direction == "Bidirectional"


class _Direction(msgspec.Struct):
    direction: str = ""
