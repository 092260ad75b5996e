"""One upstream and two targets on one API server, in namespaces of their own, and a kind that is copied."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import structs

from syncline.api.common import ObjectMeta
from syncline.controllers.lowered import Destination, SourceObject, SourceQuery
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.copy_statuses import UpwardItem
from syncline.controllers.targets.status_upward import StatusUpward, UpwardPass, UpwardResult
from syncline.core.digest import body_digest
from syncline.core.marks import MarkKeys
from syncline.core.objects import PLAIN, Body, Desired, Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import Owner
from syncline.core.plan import Policy
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.markkeys import MarkRing
from syncline.engine.unkept import UnkeptFields
from syncline.engine.write_loops import WriteLoops
from syncline.engine.writer import Writer
from syncline.kube import NAMESPACES, Client, load_kubeconfig
from syncline.kube.client import PatchKind
from syncline.kube.resources import CRDS, Resource
from syncline.sandbox import Sandbox

GROUP = "upward.test"
GADGET = f"Gadget.{GROUP}"
PLAIN_GADGET = f"Bare.{GROUP}"
GADGETS = Resource(GROUP, "v1", "gadgets", "Gadget")
BARES = Resource(GROUP, "v1", "bares", "Bare")
KEYS = MarkKeys([b"k" * 32])
SYNC = "WorkspaceSync/fleet/team"

Json = dict[str, Any]


def definition(resource: Resource, *, status: bool) -> Json:
    """Return a kind whose status has a few fields, and drops all others."""
    fields = {
        "observedGeneration": {"type": "integer"},
        "readyReplicas": {"type": "integer"},
        "replicas": {"type": "integer"},
        "phase": {"type": "string", "enum": ["Good", "Bad"]},
        "notes": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "status": {"type": "object", "properties": fields},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        **({"subresources": {"status": {}}} if status else {}),
    }
    names = {"plural": resource.plural, "singular": resource.plural[:-1], "kind": resource.kind}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


class UpwardWorld:
    """What a WorkspaceSync has at hand when it comes to the statuses."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.suffix = uuid4().hex[:8]
        self.home = f"up-{self.suffix}"
        self.stack = AsyncExitStack()
        self.changes: list[tuple[str, Observed | None, Observed | None]] = []
        """What watches have told of managed objects."""

    async def start(self) -> None:
        self.client = await self.stack.enter_async_context(Client(load_kubeconfig(self.sandbox.kubeconfig)))
        self.ring = MarkRing(KEYS)
        self.upstream = self.cluster("upstream")
        self.claims = Claims(self.client, {})
        self.loops = WriteLoops()
        self.step = StatusUpward(self.claims, self.loops)
        self.sites = {name: self.site(name) for name in ("east", "west")}
        for name in (self.home, *(self.place(name) for name in self.sites)):
            await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    def cluster(self, name: str) -> Cluster:
        cluster = Cluster(self.client, name=name, marks=self.ring, uid=lambda: f"{name}-{self.suffix}")
        cluster.start()
        self.stack.push_async_callback(cluster.stop)
        cluster.listen(lambda *_: None, self.changed, lambda *_: None, lambda *_: None)
        return cluster

    def changed(self, cluster: Cluster, old: Observed | None, new: Observed | None, by: str) -> None:
        if not by:
            self.changes.append((cluster.name, old, new))

    def site(self, name: str, sync: str = SYNC) -> TargetCluster:
        kind, namespace, called = sync.split("/")
        owner = Owner(kind, namespace, called, f"uid-of-{called}", keys=KEYS)
        return TargetCluster(
            destination=Destination(cluster=name), cluster=self.cluster(name), client=self.client, owner=owner
        )

    def place(self, site: str) -> str:
        """Return the namespace of the copies in a target."""
        return f"{site}-{self.suffix}"

    async def open(self, resource: Resource = GADGETS) -> None:
        for cluster in (self.upstream, *(site.cluster for site in self.sites.values())):
            informer = await cluster.open_kind(resource.group_kind)
            await cluster.wait_synced(informer, 60)

    async def make(self, name: str, resource: Resource = GADGETS, spec: Mapping[str, Any] | None = None) -> None:
        """Create an upstream object."""
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": dict(spec or {"size": 1}),
        }
        await self.client.create(resource, body, self.home)

    async def source(self, name: str, resource: Resource = GADGETS) -> SourceObject:
        """Read an upstream object, as a sync does."""
        manifest = await self.client.get(resource, name, self.home)
        kind = str(resource.group_kind)
        return SourceObject(
            ref=SourceQuery(group=resource.group, version=resource.version, kind=resource.kind),
            target=Target(self.home, name, kind),
            cluster_uid=self.upstream.uid,
            namespaced=True,
            meta=msgspec.convert(manifest["metadata"], ObjectMeta),
            manifest=manifest,
        )

    async def copy(self, source: SourceObject, site: TargetCluster, resource: Resource = GADGETS) -> Outcome:
        """Bring an upstream object down, without its field `hidden`."""
        spec = {key: value for key, value in source.manifest["spec"].items() if key != "hidden"}
        fields = {"spec": spec}
        name = site.destination.cluster
        desired = Desired(
            target=Target(self.place(name), source.target.name, source.target.kind, name),
            body=Body(resource.api_version, resource.kind, fields),
            digest=body_digest(fields, PLAIN),
            source=str(source),
            revision=str(source.meta.generation),
        )
        writer = Writer(
            site.cluster,
            site.client,
            site.owner,
            Policy(track_revision=True),
            claims=self.claims,
            write_loops=WriteLoops(),
            unkept=UnkeptFields(),
        )
        return await writer.apply(desired)

    async def item(self, name: str, *sites: str, resource: Resource = GADGETS) -> UpwardItem:
        """Bring an object down to some targets, and return it with its copies."""
        source = await self.source(name, resource)
        chosen = [self.sites[site] for site in sites or ("east",)]
        for site in chosen:
            outcome = await self.copy(source, site, resource)
            assert outcome.state == "Synced", outcome
        copies = tuple(
            (site, Target(self.place(site.destination.cluster), name, source.target.kind, site.destination.cluster))
            for site in chosen
        )
        return UpwardItem(source=source, copies=copies)

    async def report(
        self, name: str, status: Mapping[str, Any], site: str = "east", resource: Resource = GADGETS
    ) -> None:
        """Write the status of a copy, as the kind's own controller does; wait until it was observed."""
        answer = await self.client.patch(
            resource, name, self.place(site), {"status": dict(status)}, PatchKind.MERGE, subresource="status"
        )
        version, cluster = answer["metadata"]["resourceVersion"], self.sites[site].cluster
        target = Target(self.place(site), name, str(resource.group_kind))

        def is_seen() -> bool:
            observed = cluster.managed_at(target)
            return observed is not None and observed.version == version

        await until(is_seen)

    async def fresh(self, item: UpwardItem) -> UpwardItem:
        """Return an item with its upstream object as it is now."""
        return structs.replace(item, source=await self.source(item.source.target.name))

    async def run(self, *items: UpwardItem, client: Client | None = None, **options: Any) -> UpwardResult:
        """Make one pass."""
        one = UpwardPass(
            sync=options.pop("sync", SYNC),
            created=options.pop("created", "2026-01-01T00:00:00Z"),
            upstream=self.upstream,
            client=client or self.client,
            fan_out=FanOut(lambda: None),
            delay=0.0,
            **options,
        )
        return await self.step.run(items, one)

    async def status(self, name: str, resource: Resource = GADGETS) -> Json:
        """Return the status of an upstream object."""
        found: Json = (await self.client.get(resource, name, self.home)).get("status", {})
        return found
