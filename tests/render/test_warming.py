"""A child that builds can be started ahead of the work."""

from pathlib import Path

from syncline.api.build import Build
from syncline.render import Builder
from syncline.render.recipe import File, Recipe

FILES = {"app.yaml": File(content=b"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}")}
RECIPE = Recipe(namespace="team", release="sync", tenant="team", path=".", build=Build())


async def test_a_build_takes_the_child_that_was_started_ahead(tmp_path: Path) -> None:
    async with Builder(folder=tmp_path) as builder:
        builder.warm()
        builder.warm()
        built = await builder.build(FILES, RECIPE)
        assert [document.manifest["kind"] for document in built.documents] == ["ConfigMap"]
        assert len(builder._crew.children) == 1


async def test_a_builder_with_children_starts_none_ahead(tmp_path: Path) -> None:
    async with Builder(folder=tmp_path) as builder:
        await builder.build(FILES, RECIPE)
        builder.warm()
        await builder.build(FILES, RECIPE)
        assert len(builder._crew.children) == 1


async def test_a_builder_can_be_closed_while_it_gets_ready(tmp_path: Path) -> None:
    async with Builder(folder=tmp_path) as builder:
        builder.warm()
    assert not builder._crew.children
