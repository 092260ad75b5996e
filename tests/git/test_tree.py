"""The files of a commit: found, named and read."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.path_globs import glob
from syncline.git import (
    Commit,
    CommitTree,
    InvalidSource,
    Limits,
    Mirrors,
    Mode,
    PathNotFound,
    Refused,
    Remote,
    TooLarge,
    TreeEntry,
)
from syncline.git.tool_errors import Damaged
from syncline.git.tree import Listing, ListingReader, normalize
from syncline.testing.gitserver import GitFile, GitServer, Repository, symlink

PATHS = [
    "a.yaml",
    "apps/a.yaml",
    "apps/b.yml",
    "apps/deep/er/c.yaml",
    "apps-old/d.yaml",
    "apps0",
    "we[ir]d/*.yaml",
    "z",
]


async def nothing(_: Sequence[TreeEntry]) -> Mapping[str, bytes]:
    return {}


def tree(paths: Sequence[str] = PATHS, *, mode: Mode = Mode.REGULAR, limits: Limits | None = None) -> CommitTree:
    entries = tuple(TreeEntry(path, mode, f"{number:040x}", 10) for number, path in enumerate(sorted(paths)))
    folders = {path.rpartition("/")[0]: "f" * 40 for path in paths if "/" in path}
    return CommitTree(Commit("c" * 40), Listing("e" * 40, entries, folders), nothing, limits or Limits())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (".", sorted(PATHS)),
        ("", sorted(PATHS)),
        ("./", sorted(PATHS)),
        ("apps", ["apps/a.yaml", "apps/b.yml", "apps/deep/er/c.yaml"]),
        ("./apps/", ["apps/a.yaml", "apps/b.yml", "apps/deep/er/c.yaml"]),
        ("apps//deep", ["apps/deep/er/c.yaml"]),
        ("apps/a.yaml", ["apps/a.yaml"]),
        ("apps/*.yaml", ["apps/a.yaml"]),
        ("apps/*", ["apps/a.yaml", "apps/b.yml", "apps/deep/er/c.yaml"]),
        ("apps/**/*.yaml", ["apps/a.yaml", "apps/deep/er/c.yaml"]),
        ("**/*.yaml", ["a.yaml", "apps-old/d.yaml", "apps/a.yaml", "apps/deep/er/c.yaml", "we[ir]d/*.yaml"]),
        ("**", sorted(PATHS)),
        ("*.yaml", ["a.yaml"]),
        ("app?", ["apps/a.yaml", "apps/b.yml", "apps/deep/er/c.yaml"]),
        ("apps/[ab].y*ml", ["apps/a.yaml", "apps/b.yml"]),
        ("apps/[!a].y*ml", ["apps/b.yml"]),
        ("apps/[a-b].yml", ["apps/b.yml"]),
        ("we[ir]d", ["we[ir]d/*.yaml"]),
        ("we[ir]d/*.yaml", ["we[ir]d/*.yaml"]),
        ("apps*/d.yaml", ["apps-old/d.yaml"]),
    ],
)
def test_a_file_a_folder_or_a_glob_is_found(pattern: str, found: list[str]) -> None:
    assert [entry.path for entry in tree().find(pattern)] == found


@pytest.mark.parametrize("pattern", ["app", "apps/a", "apps/a.yaml/x", "*.json", "APPS", "a.yam?l", "[", "apps/[z-a]"])
def test_what_is_not_there_is_not_found(pattern: str) -> None:
    with pytest.raises((PathNotFound, InvalidSource)):
        tree().find(pattern)


@pytest.mark.parametrize("path", ["/etc", "..", "a/../b", "../a", "a/..", "a\0b", "x" * 2000])
def test_a_path_that_leads_out_of_the_repository_is_refused(path: str) -> None:
    with pytest.raises(InvalidSource, match="within the repository"):
        normalize(path)


def test_a_glob_cannot_take_long() -> None:
    many = tree([*("a" * 200 + str(number) for number in range(200)), "/".join("a" * 400)])
    for pattern in ("*a" * 40 + "*b", "**/a/" * 40 + "b", "**/*a*/" * 40 + "b", "**/**/" * 40 + "b", "*?" * 50 + "b"):
        with pytest.raises(PathNotFound):
            many.find(pattern)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("a*b*c", {"abc": True, "axbxc": True, "abcbc": True, "acb": False, "ab/c": False, "abc/d": True}),
        ("*.tar.*", {"x.tar.gz": True, "x.tar": False, ".tar.": True}),
        ("a?c", {"abc": True, "ac": False, "a/c": False}),
        ("[a-c]x", {"bx": True, "dx": False, "-x": False}),
        ("[!a-c]x", {"dx": True, "bx": False, "/x": False}),
        ("[]]x", {"]x": True, "x": False}),
        ("[a-]", {"-": True, "a": True, "b": False}),
        ("[z-a]", {"z": False, "-": False}),
        ("[[a&&b||c~~d--e]", {"[": True, "&": True, "x": False}),
        ("[^a]", {"a": False, "b": True}),
        ("[", {"[": True, "a": False}),
        ("**/b", {"b": True, "a/b": True, "a/a/b": True, "ab": False, "a/b/c": True, "a/bb": False}),
        ("a/**/b", {"a/b": True, "a/x/y/b": True, "ab": False, "x/a/b": False}),
        ("a/**", {"a/b": True, "a/b/c": True, "a": False}),
        ("**", {"a": True, "a/b": True}),
        ("**/a/**/b", {"a/b": True, "x/a/y/a/b": True, "a/a": False, "b/a": False}),
        ("**/a/b/**/c", {"a/a/b/c": True, "a/x/a/b/x/c": True, "a/b/b": False}),
        ("**/*.yaml/x", {"a.yaml/b.yaml/x": True, "a.yaml/b/x": False}),
        ("a.c", {"a.c": True, "abc": False}),
        ("a+(b)", {"a+(b)": True, "aab": False}),
    ],
)
def test_a_glob_matches_as_shells_do(pattern: str, paths: dict[str, bool]) -> None:
    assert {path: bool(glob(pattern).match(path)) for path in paths} == paths


@given(st.text("ab/*?", min_size=1, max_size=12), st.text("ab/", min_size=1, max_size=10))
def test_a_glob_finds_what_trying_everything_finds(pattern: str, path: str) -> None:
    pattern, path = (("/".join(filter(None, each.split("/"))) or "a") for each in (pattern, path))
    names = path.split("/")
    prefixes = [names[: count + 1] for count in range(len(names))]
    assert bool(glob(pattern).match(path)) is any(everything(pattern.split("/"), prefix) for prefix in prefixes)


def everything(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(names)
        return any(everything(pattern[1:], names[start:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and everything(pattern[1:], names[1:])


def test_a_digest_names_path_mode_and_content() -> None:
    assert tree().digest("") == "e" * 40
    assert tree().digest("apps") == "f" * 40
    assert tree().digest("nothing") == ""
    assert tree().digest("z") != tree(mode=Mode.EXECUTABLE).digest("z")
    globs = [tree().digest(pattern) for pattern in ("apps/*.yaml", "**/*.yaml", "*")]
    assert len(set(globs)) == 3
    assert tree().digest("apps/*.yaml") == tree().digest("apps/*.yaml")


def test_a_submodule_in_the_way_is_refused_and_one_elsewhere_is_not() -> None:
    entries = (TreeEntry("apps/a", Mode.REGULAR, "1" * 40, 1), TreeEntry("theme", Mode.SUBMODULE, "2" * 40, 0))
    mixed = CommitTree(Commit("c" * 40), Listing("e" * 40, entries, {}), nothing, Limits())
    assert len(mixed.find("apps")) == 1
    for pattern in (".", "theme", "*"):
        with pytest.raises(Refused, match="submodule"):
            mixed.find(pattern)


async def test_no_more_is_read_at_once_than_allowed() -> None:
    small = tree(limits=Limits(read_bytes=15))
    with pytest.raises(TooLarge, match="choose a smaller path"):
        await small.read(["a.yaml", "z"])
    with pytest.raises(PathNotFound):
        await small.read(["apps"])


def parse_listing(root: str, output: bytes, limits: Limits) -> Listing:
    reader = ListingReader(root, limits, limits.listing_bytes)
    reader.feed(output)
    return reader.finish()


def line(path: str, mode: str = "100644", size: str = "1") -> bytes:
    kind = {"040000": "tree", "160000": "commit"}.get(mode, "blob")
    return f"{mode} {kind} {'a' * 40} {size:>7}\t{path}".encode() + b"\0"


def test_what_git_lists_is_read() -> None:
    output = (
        line("b", "040000", "-") + line("b/x") + line("a", "100755") + line("l", "120000") + line("s", "160000", "-")
    )
    listing = parse_listing("r", output + line("old", "100664"), Limits())
    assert [(entry.path, entry.mode) for entry in listing.entries] == [
        ("a", Mode.EXECUTABLE),
        ("b/x", Mode.REGULAR),
        ("l", Mode.SYMLINK),
        ("old", Mode.REGULAR),
        ("s", Mode.SUBMODULE),
    ]
    assert listing.folders == {"b": "a" * 40}


def test_too_many_files_too_long_paths_and_forbidden_names_are_refused() -> None:
    with pytest.raises(TooLarge, match="more than 2 files"):
        parse_listing("r", line("a") + line("b") + line("c"), Limits(files=2))
    with pytest.raises(TooLarge, match="path of 20 bytes"):
        parse_listing("r", line("a" * 20), Limits(path_bytes=10))
    for path in ("../x", "a/../b", ".git/config", "a/.GIT/config", "a//b", "/a"):
        with pytest.raises(Refused, match="Git forbids"):
            parse_listing("r", line(path), Limits())
    with pytest.raises(Damaged):
        parse_listing("r", line("a", size="BAD"), Limits())


async def test_links_are_shown_and_lead_only_within_the_repository(
    mirrors: Mirrors, repository: Repository, remote: Remote
) -> None:
    links = {
        "link": "apps/a.yaml",
        "apps/up": "../docs",
        "far": "apps/up/readme.md",
        "out": "../../etc/passwd",
        "apps/out": "../../x",
        "absolute": "/etc/passwd",
        "circle": "circle",
        "ping": "pong",
        "pong": "ping",
        "nowhere": "missing",
    }
    repository.commit({path: symlink(target) for path, target in links.items()} | {"run.sh": GitFile(b"#!", "100755")})
    found = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
    link, script = found.entry("link"), found.entry("run.sh")
    assert link is not None
    assert link.mode is Mode.SYMLINK
    assert script is not None
    assert script.mode is Mode.EXECUTABLE
    assert await found.read(["link"]) == {"link": b"apps/a.yaml"}
    assert await found.follow("link") == "apps/a.yaml"
    assert await found.follow("far") == "docs/readme.md"
    assert await found.follow("apps/up") == "docs"
    assert await found.follow("apps/b.yaml") == "apps/b.yaml"
    for path in ("out", "apps/out", "absolute"):
        with pytest.raises(Refused, match="out of the repository"):
            await found.follow(path)
    for path in ("circle", "ping"):
        with pytest.raises(Refused, match="loop"):
            await found.follow(path)
    with pytest.raises(PathNotFound):
        await found.follow("nowhere")


async def test_names_and_contents_of_any_kind_are_read(mirrors: Mirrors, server: GitServer, name: str) -> None:
    files: dict[str, str | bytes] = {
        "empty": b"",
        "binary": bytes(range(256)) * 100,
        "with space and \u00fc.yaml": "x",
        "-dash": "y",
        "newlines": "\n\n\n",
        "missing": "abc missing\n",
        **{f"many/{number}": str(number) for number in range(500)},
    }
    repository = server.repository(name)
    repository.commit(files)
    remote = Remote(server.url(name), ca=server.ca)
    found = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
    read = await found.read(entry.path for entry in found.find("."))
    assert read == {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
