"""Which paths a build depends on."""

from collections.abc import Mapping, Sequence

import pytest

from syncline.api.build import Build, Jsonnet
from syncline.render import tree
from syncline.render.build_spec import BuildSpec, SourceFile
from syncline.render.errors import BuildError
from syncline.render.inputs import EntryKind, TreeReader, find_inputs, inputs
from syncline.render.tree import FileTree

BASE = {"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": ""}


def recipe(path: str, build: Build | None = None) -> BuildSpec:
    return BuildSpec(namespace="team", release="app", path=path, build=build or Build())


def files(content: Mapping[str, str | SourceFile]) -> dict[str, SourceFile]:
    return {path: each if isinstance(each, SourceFile) else SourceFile(each.encode()) for path, each in content.items()}


def link(target: str) -> SourceFile:
    return SourceFile(link=target)


class CountingReader(TreeReader):
    """Remembers what was read."""

    def __init__(self, tree: FileTree) -> None:
        super().__init__(tree)
        self.was_read: list[str] = []

    async def read(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        self.was_read += paths
        return await super().read(paths)


async def found(content: Mapping[str, str | SourceFile], path: str, build: Build | None = None) -> tuple[str, ...]:
    return await inputs(TreeReader(FileTree(files(content))), recipe(path, build))


@pytest.mark.parametrize(
    ("content", "path", "expected"),
    [
        ({"a/x.yaml": "", "b/y.yaml": ""}, "a", ("a",)),
        ({"a/x.yaml": ""}, "a/x.yaml", ("a/x.yaml",)),
        ({"a/x.yaml": ""}, "./a//", ("a",)),
        ({"a/x.yaml": ""}, ".", (".",)),
        ({"a/x.yaml": ""}, "a/*.yaml", ("a/*.yaml",)),
        ({"a/x.yaml": link("../c/x.yaml"), "c/x.yaml": ""}, "a", ("a", "c/x.yaml")),
        (
            {"a/x.yaml": link("../c/x.yaml"), "c/x.yaml": link("y.yaml"), "c/y.yaml": ""},
            "a/*.yaml",
            ("a/*.yaml", "c/y.yaml"),
        ),
        ({"a": link("b"), "b/x.yaml": ""}, "a", ("a", "b")),
        ({"c/Chart.yaml": "", "c/templates/a.yaml": "", "d": ""}, "c", ("c",)),
        (BASE, "base/kustomization.yaml", ("base",)),
        ({"missing": ""}, "elsewhere", ("elsewhere",)),
    ],
)
async def test_a_path_is_what_it_depends_on_and_where_its_links_lead(
    content: dict[str, str | SourceFile], path: str, expected: tuple[str, ...]
) -> None:
    assert await found(content, path) == expected


async def test_bases_components_patches_and_files_of_kustomizations_are_followed() -> None:
    content = BASE | {
        "app/prod/kustomization.yaml": (
            "resources: [../../base, ../shared]\n"
            "components: [../../components/tls]\n"
            "patches:\n- path: ../patch.yaml\n- patch: |-\n    - op: remove\n      path: /a\n"
            "configMapGenerator:\n- name: a\n"
            "  files: [key=../../files/a.txt, ../../files/b.txt]\n  envs: [../../files/c.env]\n"
            "replacements: [{path: ../replacement.yaml}]\n"
            "transformers:\n- |-\n  apiVersion: builtin\n  kind: PrefixTransformer\n"
        ),
        "app/shared/kustomization.yml": "bases: [../../base]\n",
        "app/patch.yaml": "",
        "app/replacement.yaml": "",
        "components/tls/Kustomization": "kind: Component\n",
        "files/a.txt": "",
        "files/b.txt": "",
        "files/c.env": "",
        "unrelated/x.yaml": "",
    }
    assert await found(content, "app/prod") == (
        "app/patch.yaml",
        "app/prod",
        "app/replacement.yaml",
        "app/shared",
        "base",
        "components/tls",
        "files/a.txt",
        "files/b.txt",
        "files/c.env",
    )


async def test_a_kustomization_that_is_a_template_may_name_anything() -> None:
    content = BASE | {"a/kustomization.yaml": "resources: ['../{{ base }}']\n"}
    tree = TreeReader(FileTree(files(content)))
    options = BuildSpec(namespace="team", release="app", path="a", template=True)
    assert await inputs(tree, options) == (".",)
    assert (await find_inputs(tree, options)).templates == ("a/kustomization.yaml",)


async def test_bases_that_name_each_other_are_read_once() -> None:
    content = {"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}
    reader = CountingReader(FileTree(files(content)))
    assert await inputs(reader, recipe("a")) == ("a", "b")
    assert sorted(reader.was_read) == ["a/kustomization.yaml", "b/kustomization.yaml"]


async def test_only_kustomizations_are_read_to_find_out() -> None:
    content = BASE | {"app/kustomization.yaml": "resources: [../base, own.yaml]\n", "app/own.yaml": "", "x.yaml": ""}
    reader = CountingReader(FileTree(files(content)))
    await inputs(reader, recipe("app"))
    assert sorted(reader.was_read) == ["app/kustomization.yaml", "base/kustomization.yaml"]


async def test_imports_of_jsonnet_are_followed_beside_the_file_and_in_libraries() -> None:
    content = {
        "app/main.jsonnet": "local a = import '../lib/a.libsonnet'; local k = import \"k.libsonnet\"; a + k",
        "lib/a.libsonnet": "importstr 'text.txt'",
        "lib/text.txt": "",
        "vendor/k.libsonnet": "{}",
        "other/x": "",
    }
    build = Build(jsonnet=Jsonnet(library_paths=["vendor"]))
    found_paths = await found(content, "app", build)
    assert set(found_paths) >= {"app", "lib/a.libsonnet", "lib/text.txt", "vendor"}
    assert not any(tree.within(path, "other/x") for path in found_paths)


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ({}, "nowhere", "nowhere: is not in the repository"),
        ({"a": ""}, "../a", "../a: leads out of the repository"),
        ({"a": ""}, "/etc", "/etc: leads out of the repository"),
        ({"a": link("/etc/passwd")}, "a", "a: is a symbolic link out of the repository"),
        ({"a": link("../../x")}, "a", "a: is a symbolic link out of the repository"),
        ({"a": link("b"), "b": link("a")}, "a", "a: is a symbolic link that leads back to itself"),
        (
            {"a/kustomization.yaml": "resources: [../../../etc]\n"},
            "a",
            "a/kustomization.yaml: names a path out of the repository",
        ),
        (
            {"a/kustomization.yaml": "resources: ['https://example.com/base']\n"},
            "a",
            "a/kustomization.yaml: names a base or file on another host; remote bases are not fetched",
        ),
        (
            {"a/kustomization.yaml": "resources: ['example.com/team/base//x']\n"},
            "a",
            "a/kustomization.yaml: names a file or folder that is not in the repository; remote bases are not fetched",
        ),
        (
            {"a/kustomization.yaml": "helmCharts: [{name: x, repo: 'https://example.com'}]\n"},
            "a",
            "a/kustomization.yaml: helmCharts: kustomize fetches no charts here",
        ),
        ({"a/kustomization.yaml": "resources: [b\n"}, "a", "a/kustomization.yaml, line "),
        (
            {"a/kustomization.yaml": f"# {'x' * 200_000}\n"},
            "a",
            "a/kustomization.yaml: a kustomization of more than 128 KiB",
        ),
        ({"a/kustomization.yaml": "resources: [b]\n", "a/b/x.yaml": ""}, "a", "a/b: has no kustomization file"),
    ],
)
async def test_what_keeps_a_build_from_succeeding_is_told_with_its_place(
    content: dict[str, str | SourceFile], path: str, message: str
) -> None:
    plan = await find_inputs(TreeReader(FileTree(files(content))), recipe(path))
    assert str(plan.problems[0]).startswith(message)
    # And the paths are told all the same, so that the next push to them tries again; where a push can mend it.
    assert plan.paths or "leads out" in message


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"a/x.yaml": ""}, "Plain"),
        ({"a/kustomization.yaml": "", "a/Chart.yaml": ""}, "Kustomize"),
        ({"a/Chart.yaml": "", "a/main.jsonnet": ""}, "Helm"),
        ({"a/main.jsonnet": "", "a/x.yaml": ""}, "Jsonnet"),
    ],
)
async def test_auto_goes_by_the_files_of_the_folder(content: dict[str, str | SourceFile], kind: str) -> None:
    assert (await find_inputs(TreeReader(FileTree(files(content))), recipe("a"))).kind == kind


async def test_a_glob_is_for_plain_builds() -> None:
    plan = await find_inputs(TreeReader(FileTree(files({"a/x.yaml": ""}))), recipe("a/*", Build(type="Helm")))
    assert [str(problem) for problem in plan.problems] == ["a/*: Helm takes a folder, not a glob"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.yaml", ["a.yaml"]),
        ("**/*.yaml", ["a.yaml", "x/b.yaml", "x/y/c.yaml"]),
        ("x/*", ["x/b.yaml", "x/y/c.yaml"]),
        ("x/?.yaml", ["x/b.yaml"]),
        ("x/**", ["x/b.yaml", "x/y/c.yaml"]),
        ("**", ["a.yaml", "x/b.yaml", "x/y/c.yaml"]),
        (".", ["a.yaml", "x/b.yaml", "x/y/c.yaml"]),
        ("x", ["x/b.yaml", "x/y/c.yaml"]),
        (".hidden/*", [".hidden/d.yaml"]),
    ],
)
def test_globs_stay_within_a_folder_unless_they_say_otherwise(pattern: str, names: list[str]) -> None:
    tree = FileTree(files(dict.fromkeys(["a.yaml", "x/b.yaml", "x/y/c.yaml", ".hidden/d.yaml"], "")))
    assert tree.select(pattern) == names


def test_a_glob_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(BuildError, match=r"\*\.json: no file of the repository matches it"):
        FileTree(files({"a.yaml": ""})).select("*.json")


def test_a_hostile_glob_takes_no_time() -> None:
    assert not tree.glob_finds("/".join(["**", "*a*"] * 40) + "/b", "/".join(["a"] * 200))


def test_kinds_are_of_the_path_itself() -> None:
    reader = TreeReader(FileTree(files({"a/b": "", "c": link("a")})))
    kinds: dict[str, EntryKind | None] = {path: reader.kind(path) for path in (".", "a", "a/b", "c", "d")}
    assert kinds == {".": "folder", "a": "folder", "a/b": "file", "c": "link", "d": None}
