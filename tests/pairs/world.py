"""One pair on a real API server: an upstream object in one namespace, its copy in another, and people who edit both."""

import asyncio
import copy
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from tests.core.samples import WIDGETS

from syncline.api.configsync import Ignored
from syncline.core.desired import from_manifest
from syncline.core.digest import DigestKey, short_digest
from syncline.core.marks import MarkKeys
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL, Owner
from syncline.core.pair_rules import PairRules
from syncline.core.placing import Placed
from syncline.core.plan import Policy
from syncline.core.upstream_objects import taken_down
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.pair_memory import PairMemory
from syncline.engine.pairs import Pairs
from syncline.engine.twoway import Upstream
from syncline.engine.unkept import UnkeptFields
from syncline.engine.write_loops import WriteLoops
from syncline.engine.writer import Writer
from syncline.kube import CONFIGMAPS, SECRETS, Client, Conflict, NotFound, Resource
from syncline.kube.session import Request

Json = dict[str, Any]
Edit = Callable[[Json], object]

KEY = DigestKey(b"a key of digests")
MARK_KEYS = MarkKeys([b"m" * 32])
OWNER = Owner("WorkspaceSync", "fleet", "team", "uid-of-the-sync", keys=MARK_KEYS)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
RESOURCES = {
    "ConfigMap": CONFIGMAPS,
    "Secret": SECRETS,
    "Deployment.apps": DEPLOYMENTS,
    "Service": SERVICES,
    "Widget.samples.example.com": WIDGETS,
}
MERGE = PairRules(strategy="MergeChanges", two_way=True, delay=0.01)
CONFIG: Json = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "1"}}
MakePair = Callable[[str], Awaitable["PairWorld"]]


class StoppedError(Exception):
    """The process dies here."""


class PairClient(Client):
    """A client that notes its sent, and can be told to die or to fail at one of them."""

    sent: list[str]
    """The verbs of its writes, with `?` for a dry run."""
    asked: list[str]
    """The verbs of all its requests."""
    count: Iterator[int] | None
    """Numbers of the requests that are sent before the process dies; None: it lives."""
    before_write: Callable[[str], Any] | None

    @classmethod
    def over(cls, client: Client) -> "PairClient":
        view = object.__new__(cls)
        view.connection, view._session, view._user = client.connection, client._session, client._user
        view.sent, view.asked, view.count, view.before_write = [], [], None, None
        return view

    async def _ask(self, request: Request, type: Any) -> Any:  # noqa: A002 - as the client has it
        name = f"{request.verb}{'?' if 'dryRun' in request.path else ''}"
        if not request.reads and self.before_write is not None:
            await self.before_write(name)
        if self.count is not None and next(self.count, None) is None:
            raise StoppedError
        self.asked.append(name)
        if not request.reads:
            self.sent.append(name)
        return await super()._ask(request, type)


class PairWorld:
    """A pair, the rules for it, and what was written for it."""

    def __init__(self, cluster: Cluster, kind: str, upstream: str, downstream: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.source = Target(upstream, "sample", kind)
        self.target = Target(downstream, "sample", kind)
        self.resource = RESOURCES[kind]
        self.person = cluster.client
        self.above, self.below = PairClient.over(cluster.client), PairClient.over(cluster.client)
        self.memory, self.write_loops = PairMemory(), WriteLoops()
        self.policy = Policy()
        self.transform: Edit = lambda _: None
        self.ignored: tuple[Ignored, ...] = ()
        self.owner = OWNER
        self.stamps = itertools.count(1)

    async def make(self, manifest: Mapping[str, Any], target: Target | None = None) -> Json:
        """Make an object, as a person does."""
        place = target or self.source
        body = copy.deepcopy(dict(manifest))
        body["metadata"] = {**body.get("metadata", {}), "name": place.name, "namespace": place.namespace}
        return await self.person.create(self.resource, body, place.namespace)

    async def live(self, target: Target) -> Json:
        return await self.person.get(self.resource, target.name, target.namespace)

    async def edit(self, target: Target, edit: Edit, manager: str = "somebody") -> Json:
        """Edit an object, as a person does."""
        while True:
            live = await self.live(target)
            edit(live)
            path = f"{self.resource.path(target.namespace, target.name)}?fieldManager={manager}"
            request = Request(
                verb="update",
                resource=self.resource.plural,
                method="PUT",
                path=path,
                body=json.dumps(live).encode(),
                content_type="application/json",
            )
            try:
                return json.loads(await self.person._session.send(request, None))  # type: ignore[no-any-return]
            except Conflict:  # controllers write too
                continue

    async def up(self, edit: Edit) -> Json:
        return await self.edit(self.source, edit)

    async def down(self, edit: Edit) -> Json:
        return await self.edit(self.target, edit)

    async def read(self) -> Upstream:
        live = await self.live(self.source)
        meta = live["metadata"]
        return Upstream(target=self.source, uid=meta["uid"], version=meta["resourceVersion"], manifest=live)

    def desired_of(self, source: Upstream) -> Desired:
        manifest = taken_down(source.manifest)
        self.transform(manifest)
        manifest["metadata"] = {**manifest["metadata"], "namespace": self.target.namespace}
        generation = source.manifest["metadata"].get("generation")
        revision = str(generation) if generation else short_digest(json.dumps(manifest, sort_keys=True))
        placed = Placed(target=self.target, manifest=manifest, origin="upstream")
        return from_manifest(placed, self.ignored, KEY, revision)

    def writer(self) -> Writer:
        return Writer(
            self.cluster,
            self.below,
            self.owner,
            self.policy,
            claims=Claims(self.person, {}),
            write_loops=self.write_loops,
            unkept=UnkeptFields(),
        )

    def pairs(self, rules: PairRules) -> Pairs:
        return Pairs(self.cluster, self.above, self.writer(), rules, memory=self.memory, desired_of=self.desired_of)

    async def sync(self, rules: PairRules) -> Outcome:
        """Make one pass over the pair."""
        source = await self.read()
        return await self.pairs(rules).apply(source, self.desired_of(source))

    async def quiet(self, rules: PairRules) -> Outcome:
        """Make a pass that must write nothing."""
        self.above.sent.clear()
        self.below.sent.clear()
        outcome = await self.sync(rules)
        assert (self.above.sent, self.below.sent) == ([], []), outcome
        return outcome

    @staticmethod
    def shared_count(requests: int) -> Iterator[int]:
        """Return numbers for so many requests, of both clients together."""
        return iter(range(requests))

    async def values(self) -> tuple[Json, Json]:
        """Return what both sides say, without what belongs to one side alone."""
        above, below = await self.live(self.source), await self.live(self.target)
        return said(above), said(below)

    async def replace_marks(self, change: Callable[[dict[str, str]], object]) -> None:
        """Write the annotations of the copy, as anybody with the right to edit it can."""

        def edit(live: Json) -> None:
            change(live["metadata"]["annotations"])

        await self.down(edit)

    async def seen(self, target: Target) -> None:
        """Wait until the watch has told of the object as it is."""
        version = (await self.live(target))["metadata"]["resourceVersion"]
        async with asyncio.timeout(60):
            while (found := self.cluster.managed_at(target)) is None or int(found.version) < int(version):  # noqa: ASYNC110 - a watch has no event of its own
                await asyncio.sleep(0.01)

    async def delete(self, target: Target) -> None:
        try:
            await self.person.delete(self.resource, target.name, target.namespace)
        except NotFound:
            return


def said(live: Json) -> Json:
    """Return what people wrote of an object."""
    manifest = taken_down(live)
    metadata = manifest.pop("metadata")
    return {**manifest, "labels": metadata.get("labels", {}), "annotations": metadata.get("annotations", {})}


def marks(live: Json) -> dict[str, str]:
    """Return what Syncline wrote down on an object."""
    annotations = live["metadata"].get("annotations") or {}
    return {name: annotations[name] for name in (MARKER, BASE) if name in annotations}


def is_managed(live: Json) -> bool:
    return OWNER_LABEL in (live["metadata"].get("labels") or {})


def container(live: Json) -> Json:
    """Return the first container of a Deployment."""
    found: Json = live["spec"]["template"]["spec"]["containers"][0]
    return found


async def configmap(pair: MakePair, rules: PairRules = MERGE, data: dict[str, str] | None = None) -> PairWorld:
    """Make a pair of ConfigMaps that agree."""
    world = await pair("ConfigMap")
    await world.make({**CONFIG, "data": data or CONFIG["data"]})
    assert (await world.sync(rules)).state == "Synced"
    return world
