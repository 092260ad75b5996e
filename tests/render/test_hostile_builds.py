"""Hostile repositories: each costs whoever pushed it a clear error, and nobody else anything."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from tests.render.children import memory
from tests.render.conftest import Until

from syncline.api.build import Build, Jsonnet
from syncline.render.build_pool import BuildPool
from syncline.render.build_spec import BuildSpec, SourceFile
from syncline.render.errors import BuildError, RenderError, RenderFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")

HONEST = {"a.yaml": SourceFile(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: honest}\n")}
CHART = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x{}}}\n"


def chart(template: str) -> dict[str, str]:
    return {"Chart.yaml": CHART, "templates/a.yaml": template}


def jsonnet(text: str) -> dict[str, str]:
    return {"main.jsonnet": text}


BOMBS: dict[str, Mapping[str, str]] = {
    "aliases": {"a.yaml": "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 99))},
    "deep YAML": {"a.yaml": "[" * 500_000},
    "deep JSON": {"a.json": '{"a":' * 200_000},
    "100,000 documents": {"a.yaml": "---\n".join(MANIFEST.format(n) for n in range(100_000))},
    "100,000 items": {
        "a.json": '{"apiVersion": "v1", "kind": "List", "items": [' + '{"a": 1},' * 100_000 + '{"a": 1}]}'
    },
    "a huge file": {"a.yaml": "a: " + "x" * (25 << 20)},
    "one huge manifest": {"a.yaml": MANIFEST.format(1) + "data: {a: " + "x" * (4 << 20) + "}\n"},
    "a template that doubles": {
        "a.yaml": "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
    },
    "a template without end": {
        "a.yaml": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    },
    "a template of parentheses": {"a.yaml": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}"},
    "jsonnet that calls itself": jsonnet("local f(x) = f(x + 1) + 1; f(1)"),
    "jsonnet that doubles": jsonnet("std.foldl(function(a, b) a + a, std.range(1, 60), 'x')"),
    "jsonnet without end": jsonnet("local f(x) = if x == 0 then 0 else f(x - 1) tailstrict; f(1e12)"),
    "jsonnet of a long list": jsonnet("std.range(1, 1e9)"),
    "jsonnet of parentheses": jsonnet("(" * 100_000),
    "jsonnet that imports itself": jsonnet("import 'main.jsonnet'"),
    "a chart with a long list": chart("{{ until 1000000000 | len }}"),
    "a chart with a long text": chart('{{ repeat 1000000000 "x" }}'),
    "a chart without end": chart("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"),
    "a chart with much output": chart("{{ range until 1000000 }}" + "x" * 100 + "{{ end }}"),
    "a chart of private keys": chart('{{ range until 1000 }}{{ genPrivateKey "rsa" | len }}{{ end }}'),
    "a chart that includes itself": chart('{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}'),
    "a chart with a slow pattern": chart('{{ regexMatch "(a+)+$" (repeat 100000 "a" | printf "%s!") }}'),
    "bases in a circle": {"kustomization.yaml": "resources: [a]\n", "a/kustomization.yaml": "resources: [..]\n"},
    "a kustomization of aliases": {
        "kustomization.yaml": "a0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 99))
    },
    "a patch of aliases": {
        "kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n",
        "a.yaml": MANIFEST.format(1),
        "p.yaml": "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 99)),
    },
    "a seal of aliases": {
        "a.yaml": "x: ENC[AES256_GCM,\nsops:\n  a0: &a0 [x, x]\n"
        + "".join(f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 99))
    },
}


def children() -> list[int]:
    """Return the processes that this one has started, but for those that have its own memory until they begin."""
    own = Path("/proc/self/cmdline").read_bytes()
    found = []
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() != own:
                found.append(int(pid))
    return found


class Watch:
    """Looks at the event loop and at all children every few milliseconds.

    A stall is processor time of the loop's thread: other programs of the machine have no part in it.
    """

    def __init__(self) -> None:
        self.longest_stall = 0.0
        self.peak_memory = 0

    async def look(self) -> None:
        while True:
            last = time.thread_time()
            await asyncio.sleep(0.01)
            self.longest_stall = max(self.longest_stall, time.thread_time() - last)
            self.peak_memory = max(self.peak_memory, 0, *map(memory, children()))


@pytest_asyncio.fixture(loop_scope="module")
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    task = asyncio.create_task(watch.look())
    yield watch
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def quick(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BuildPool]:
    """A builder with less patience, to spend less on bombs."""
    folder = tmp_path_factory.mktemp("builds")
    async with BuildPool(folder=folder, deadline=2.0) as builder:
        yield builder
    assert list(folder.iterdir()) == []


def recipe(tenant: str, *, template: bool = False, **options: Build) -> BuildSpec:
    return BuildSpec(namespace="team", release="app", tenant=tenant, template=template, keys={}, **options)


def tree(files: Mapping[str, str]) -> dict[str, SourceFile]:
    return {path: SourceFile(text.encode()) for path, text in files.items()}


@pytest.mark.parametrize("files", BOMBS.values(), ids=BOMBS)
async def test_a_bomb_fails_and_the_operator_goes_on(quick: BuildPool, watch: Watch, files: Mapping[str, str]) -> None:
    async with asyncio.timeout(240):
        with pytest.raises(RenderError) as caught:
            await quick.build(tree(files), recipe("hostile", template="Chart.yaml" not in files))
        assert (await quick.build(HONEST, recipe("honest"))).documents[0].file == "a.yaml"
    assert len(str(caught.value)) < 500
    assert watch.peak_memory < 200 * 1024 * 1024
    assert watch.longest_stall < 1


ENDLESS = chart("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}")


async def test_neighbours_are_served_while_hostile_builds_run() -> None:
    async with BuildPool(deadline=2.0) as builder:
        crowd = [
            asyncio.create_task(builder.build(tree(ENDLESS | {"n": str(number)}), recipe("hostile")))
            for number in range(6)
        ]
        await asyncio.sleep(0)
        assert (await builder.build(HONEST, recipe("honest"))).documents
        assert not all(task.done() for task in crowd)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)


async def test_what_was_stopped_is_left_alone_until_it_changes(quick: BuildPool) -> None:
    files = tree({"main.jsonnet": "std.foldl(function(a, b) a + a, std.range(1, 61), 'x')"})
    with pytest.raises(RenderFailed, match="took more than 200 MiB of memory") as first:
        await quick.build(files, recipe("hostile"))
    with pytest.raises(RenderFailed) as second:
        await quick.build(files, recipe("hostile"))
    assert 0 < second.value.retry_after <= first.value.retry_after == 10
    assert str(second.value) == str(first.value)
    mended = tree({"main.jsonnet": "{apiVersion: 'v1', kind: 'A', metadata: {name: 'x'}}"})
    assert (await quick.build(mended, recipe("hostile"))).documents


async def test_a_wrong_file_does_not_cost_the_child(quick: BuildPool) -> None:
    await quick.build(HONEST, recipe("honest"))
    before = {child.pid for child in quick._pool.processes}
    for _ in range(3):
        with pytest.raises(BuildError):
            await quick.build(tree({"a.yaml": "a: b: c\n"}), recipe("hostile"))
    assert {child.pid for child in quick._pool.processes} == before


@pytest.mark.parametrize("files", [ENDLESS, jsonnet("local f(x) = if x == 0 then 0 else f(x - 1) tailstrict; f(1e13)")])
async def test_a_build_that_is_given_up_leaves_nothing(tmp_path: Path, until: Until, files: Mapping[str, str]) -> None:
    def work(depth: str = "*/*") -> list[Path]:
        return list(tmp_path.glob(depth))

    options = Build(jsonnet=Jsonnet()) if "main.jsonnet" in files else Build()
    async with BuildPool(folder=tmp_path) as builder:
        task = asyncio.create_task(builder.build(tree(files), recipe("hostile", build=options)))
        await until(lambda: bool(builder._pool.processes) and (files is not ENDLESS or bool(work())))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work() == []
    assert work("*") == []


async def test_closing_refuses_work() -> None:
    builder = BuildPool()
    await builder.build(HONEST, recipe("honest"))
    await builder.close()
    assert builder._pool.processes == set()
    with pytest.raises(RenderFailed, match="the operator is stopping"):
        await builder.build(HONEST, recipe("honest"))
