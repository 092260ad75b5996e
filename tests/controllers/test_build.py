"""Builds of revisions: work that grows with a repository blocks nobody else."""

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from syncline.api.configsync import ConfigSyncSpec
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources import build
from syncline.controllers.sources.build import BuildRequest, RevisionBuilder
from syncline.controllers.sources.references import Requester
from syncline.controllers.sources.tree import DataTree, SourceTree
from syncline.core.desired import BuildArtifact
from syncline.core.digest import DigestKey
from syncline.core.environments import EnvironmentSpec, SourceSpec
from syncline.core.objects import Target
from syncline.core.tenancy import NO_LIMITS
from syncline.kube.cache import Key
from syncline.kube.resources import Resource
from syncline.render.build_spec import BuildSpec, Built, Document, Files
from syncline.render.validation import InvalidObject, Validation

# More builds than asyncio has threads of its own.
MANY = 40
LARGE = "large"


class OneObject:
    """Builds one ConfigMap in the namespace of the sync."""

    def warm(self) -> None:
        pass

    async def build(self, _files: Files, recipe: BuildSpec) -> Built:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "namespace": recipe.namespace}}
        return Built((Document(manifest, "app.yaml", 1),))

    async def validate(self, _work: Validation) -> list[InvalidObject]:
        return []

    async def field_lines(self, _tenant: str, _content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        return [0 for _ in fields]


async def _find(*_: str) -> Resource:
    return Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)


def builder() -> RevisionBuilder:
    hub = SimpleNamespace(key=DigestKey(b"k" * 32), discovery=SimpleNamespace(find=_find))
    return RevisionBuilder(cast("Any", hub), cast("Any", None), OneObject(), Quotas(lambda _: NO_LIMITS))


async def make(builder: RevisionBuilder, namespace: str) -> BuildArtifact:
    source = {"object": {"kind": "ConfigMap", "name": "manifests"}}
    spec = msgspec.convert({"source": source, "build": {"type": "Plain"}}, ConfigSyncSpec)
    environment = EnvironmentSpec(sources=(SourceSpec(object=Target(namespace, "manifests", "ConfigMap")),))
    requester = Requester(key=Key(namespace, "sync"), user=None, interval=60.0)
    request = BuildRequest(requester=requester, spec=spec, environment=environment)
    return await builder.make(request, SourceTree({"": DataTree({"app.yaml": b""})}), None, "1")


@pytest.mark.parametrize("stage", ["place", "_wrong_fields", "_compressed"])
async def test_the_large_repositories_of_one_namespace_block_neither_the_loop_nor_another_namespace(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[bool] = []
    begun, gate, work = threading.Event(), threading.Event(), getattr(build, stage)

    def slow(*args: Any, **kwargs: Any) -> object:
        if LARGE in repr((args, kwargs)):
            begun.set()
            waited.append(gate.wait(30))
            gate.set()  # the others need not wait for what has failed
        return work(*args, **kwargs)

    monkeypatch.setattr(build, stage, slow)
    shared = builder()
    held = [asyncio.create_task(make(shared, LARGE)) for _ in range(MANY)]
    try:
        async with asyncio.timeout(60):
            await asyncio.to_thread(begun.wait)
            for _ in range(3):
                assert (await make(shared, "small")).compressed
        assert not any(one.done() for one in held)
        assert not waited, "a large repository blocks the others"
    finally:
        gate.set()
        assert all(one.compressed for one in await asyncio.gather(*held))
