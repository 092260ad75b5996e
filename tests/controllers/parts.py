"""Parts of controllers without a cluster: places and sources that a test makes up."""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from syncline.api.common import ObjectMeta
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.controllers.lowered import Destination, LoweredSpec, SourceObject, SourceQuery
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.marks import MarkKeys
from syncline.core.objects import Observed, Target
from syncline.core.ownership import Owner
from syncline.core.scope import Namespace, Scope
from syncline.engine.sync_object import Sync
from syncline.render.errors import TransformError
from syncline.render.transform_pool import TransformPool
from syncline.render.workers.protocol import TransformTarget

OWNER = Owner("ManifestSync", "team", "sync", "uid-of-sync", keys=MarkKeys([b"k" * 32]))


class MadeUpCluster:
    """Namespaces and managed objects, as a cluster has them in memory."""

    def __init__(self, *namespaces: Namespace, uid: str = "here", managed: Iterable[Observed] = ()) -> None:
        self.name = ""
        self.uid = uid
        self._namespaces = {one.name: one for one in namespaces}
        self._managed = list(managed)

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def all_namespaces(self) -> Iterable[Namespace]:
        return self._namespaces.values()

    def managed_by(self, ref: str) -> list[Observed]:
        return self._managed if ref == OWNER.ref else []


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(name, f"uid-of-{name}", labels)


def place(cluster: MadeUpCluster, *names: str, called: str = "", **options: Any) -> TargetCluster:
    """A cluster as a sync with these namespaces reaches it."""
    scope = options.pop("scope", Scope(names=frozenset(names)))
    destination = Destination(cluster=called, scope=scope, **options)
    return TargetCluster(destination=destination, cluster=cast("Any", cluster), client=cast("Any", None), owner=OWNER)


def source(name: str = "settings", kind: str = "ConfigMap", **fields: Any) -> SourceObject:
    """An object of the namespace `team` that is copied."""
    meta = ObjectMeta(name=name, namespace="team", uid=f"uid-of-{name}", resource_version="1")
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}, **fields}
    return SourceObject(
        ref=SourceQuery(kind=kind, namespace="team", name=name),
        target=Target("team", name, kind),
        cluster_uid="here",
        namespaced=True,
        meta=meta,
        manifest=manifest,
    )


def lowered(*destinations: Destination, **fields: Any) -> LoweredSpec:
    sync = Sync(
        kind="ManifestSync",
        metadata=ObjectMeta(name="sync", namespace="team", uid="uid-of-sync"),
        spec=None,
        status=fields.pop("status", ManifestSyncStatus()),
    )
    return LoweredSpec(sync=sync, destinations=destinations, **fields)


def renderer(text: Callable[[TransformTarget], str | TransformError] = lambda _: "") -> TransformPool:
    """What would render templates in a worker, here by a function of the target."""

    async def texts(_template: str, _source: object, targets: Iterable[TransformTarget]) -> list[str | TransformError]:
        return [text(target) for target in targets]

    async def transform(data: Mapping[str, str], _request: object, targets: Iterable[object]) -> list[dict[str, str]]:
        return [dict(data) for _ in targets]

    return cast("TransformPool", SimpleNamespace(texts=texts, transform=transform))
