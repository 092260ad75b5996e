"""A child that builds can be started ahead of the work."""

from pathlib import Path

from syncline.api.build import Build
from syncline.render.build_pool import BuildPool
from syncline.render.build_spec import BuildSpec, SourceFile

FILES = {"app.yaml": SourceFile(content=b"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}")}
RECIPE = BuildSpec(namespace="team", release="sync", tenant="team", path=".", build=Build())


async def test_a_build_takes_the_child_that_was_started_ahead(tmp_path: Path) -> None:
    async with BuildPool(folder=tmp_path) as builder:
        builder.warm()
        builder.warm()
        built = await builder.build(FILES, RECIPE)
        assert [document.manifest["kind"] for document in built.documents] == ["ConfigMap"]
        assert len(builder._pool.processes) == 1


async def test_a_builder_with_children_starts_none_ahead(tmp_path: Path) -> None:
    async with BuildPool(folder=tmp_path) as builder:
        await builder.build(FILES, RECIPE)
        builder.warm()
        await builder.build(FILES, RECIPE)
        assert len(builder._pool.processes) == 1


async def test_a_builder_can_be_closed_while_it_gets_ready(tmp_path: Path) -> None:
    async with BuildPool(folder=tmp_path) as builder:
        builder.warm()
    assert not builder._pool.processes
