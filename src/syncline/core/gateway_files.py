"""The files of a gateway: the mappings of its profile applied to the listing of a commit.

The result is all or nothing: if there is a problem, nothing is published and the gateway keeps its files. The content
of files is not read here. Templates, patches and normalization of contents are the work of the agent.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from syncline.core.gateway_plan import MAX_BLOB_BYTES, MAX_PLAN_FILES, PlannedFile, PlannedMapping
from syncline.core.gateway_profiles import FileMapping, GatewayFacts, ResolvedProfile
from syncline.core.gateway_templates import TemplateError, render
from syncline.core.path_globs import PathPatterns
from syncline.core.protected_paths import (
    LONGEST_PATH,
    PROTECTED,
    is_protected,
    path_problem,
)

MAX_PROBLEMS = 20
MAX_LEFT_OUT = 20
MAX_LOOKED_AT = 200_000
"""The maximum number of files in all mappings of a gateway, including excluded files."""
MAX_EXCLUDE_WORK = 400_000_000
"""The maximum number of characters of paths, times the number of globs: a few seconds of work."""
_FORBIDDEN = frozenset('?*:|"<>`')
_SYMLINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"


class FileEntry(Struct, frozen=True, gc=False):
    """A file, a link or a submodule of a commit."""

    path: str
    blob: str
    size: int
    mode: str
    """In Git's notation, such as 100644."""


class PlanProblem(Struct, frozen=True):
    """Why the files of a gateway cannot be published. The reason is one CamelCase word; the message has the remedy."""

    reason: str
    message: str


class PlannedFiles(Struct, frozen=True):
    """The files of a gateway."""

    files: tuple[PlannedFile, ...] = ()
    """Sorted by path, without duplicates."""
    mappings: tuple[PlannedMapping, ...] = ()
    problems: tuple[PlanProblem, ...] = ()
    """If there are some, nothing is published. At most `MAX_PROBLEMS`."""
    left_out: tuple[str, ...] = ()
    """The first protected paths of the commit, which are not written."""
    missing: tuple[str, ...] = ()
    """Optional sources that the commit lacks."""


def values_of(profile: ResolvedProfile, facts: GatewayFacts, ref: str, commit: str) -> dict[str, str]:
    """Return the values of templates, by their full names. Pure."""
    return {
        "gateway.name": facts.name,
        "gateway.pod": facts.pod,
        "gateway.ordinal": str(facts.ordinal),
        "gateway.servicePath": facts.service_path,
        "namespace": facts.namespace,
        "sync.name": facts.sync,
        "ref": ref,
        "commit": commit,
        **{f"vars.{key}": value for key, value in profile.variables.items()},
        **{f"labels.{key}": value for key, value in facts.labels.items()},
    }


def plan_files(
    profile: ResolvedProfile, facts: GatewayFacts, ref: str, commit: str, entries: Sequence[FileEntry]
) -> PlannedFiles:
    """Return the files of a gateway. `entries` are all of a commit, sorted by path. Pure."""
    return _Planner(profile, values_of(profile, facts, ref, commit), entries).plan()


def unprotected_paths(profile: ResolvedProfile) -> tuple[str, ...]:
    """Return the protected paths that a profile can write. Only Ignition gateways have protected files. Pure."""
    return profile.unprotected if profile.is_ignition else PROTECTED


def relative_to(destination: str, path: str) -> str | None:
    """Return a path relative to the destination of a mapping, None if it is not below it. Pure.

    The destination of a folder is the folder, empty for the data folder. That of a file is the path of the file, and
    the file is at "".
    """
    if not destination:
        return path
    if path == destination:
        return ""
    return path[len(destination) + 1 :] if path.startswith(f"{destination}/") else None


def normalized(path: str) -> str | None:
    """Return a relative path without empty and "." parts, empty for the root; None if it leaves the root. Pure."""
    names = path.split("/")
    if path.startswith("/") or ".." in names or "\0" in path:
        return None
    return "/".join(name for name in names if name not in ("", "."))


class _Planner:
    """One plan in the making."""

    def __init__(self, profile: ResolvedProfile, values: Mapping[str, str], entries: Sequence[FileEntry]) -> None:
        self._profile = profile
        self._values = values
        self._entries = entries
        self._paths = [entry.path for entry in entries]
        self._exclude = PathPatterns(profile.exclude)
        self._unprotected = unprotected_paths(profile)
        self._files: dict[str, PlannedFile] = {}
        self._mappings: list[PlannedMapping] = []
        self._problems: list[PlanProblem] = []
        self._left_out: dict[str, None] = {}
        self._missing: list[str] = []
        self._looked_at = 0
        self._exclude_work = 0

    def plan(self) -> PlannedFiles:
        for mapping in self._profile.mappings:
            self._map(mapping)
            if excess := self._excess():
                # Stop here: nothing is published, and the author of the mappings decides how much more there is.
                self._files.clear()
                self._problems.clear()
                self._problem("TooManyFiles", excess)
                break
        self._check_clashes()
        return PlannedFiles(
            files=tuple(self._files[path] for path in sorted(self._files)),
            mappings=tuple(self._mappings),
            problems=tuple(self._problems),
            left_out=tuple(list(self._left_out)[:MAX_LEFT_OUT]),
            missing=tuple(self._missing),
        )

    def _excess(self) -> str:
        """Return which limit of work is exceeded; empty if none is."""
        if len(self._files) > MAX_PLAN_FILES:
            return (
                f"the mappings have more than {MAX_PLAN_FILES} files, the most that a gateway gets: map fewer folders,"
                " or exclude files"
            )
        if self._looked_at > MAX_LOOKED_AT:
            return f"the mappings have more than {MAX_LOOKED_AT} files, with excluded ones: map fewer folders"
        if self._exclude_work > MAX_EXCLUDE_WORK:
            return "it takes too long to compare all files with all globs: map fewer folders, or exclude fewer globs"
        return ""

    def _problem(self, reason: str, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(PlanProblem(reason, message))

    def _map(self, mapping: FileMapping) -> None:
        rendered = self._rendered(mapping)
        if rendered is None:
            return
        source, destination = rendered
        planned = PlannedMapping(source, destination, mapping.template, mapping.patches)
        if (entry := self._entry(source)) is not None:
            self._map_file(mapping, planned, entry)
        elif (inside := self._below(source)) or not source:
            self._map_folder(mapping, planned, inside)
        else:
            self._source_missing(mapping, planned)

    def _rendered(self, mapping: FileMapping) -> tuple[str, str] | None:
        """Return the rendered source and destination; None if there is a problem with them."""
        paths: list[str] = []
        for field, template in (("source", mapping.source), ("destination", mapping.destination)):
            try:
                rendered = render(template, self._values)
            except TemplateError as error:
                self._problem("InvalidTemplate", f"{field} {template!r}: {error}")
                return None
            plain = normalized(rendered) if rendered.strip() else None
            if plain is None or len(rendered) > LONGEST_PATH:
                self._problem(
                    "InvalidPath",
                    f"{field} {template!r} means {rendered[:80]!r}: write a path below the "
                    + ("root of the repository" if field == "source" else "data folder")
                    + ', without ".." and without "/" at its start',
                )
                return None
            paths.append(f"{plain}/" if field == "destination" and plain and rendered.endswith("/") else plain)
        return paths[0], paths[1]

    def _map_file(self, mapping: FileMapping, planned: PlannedMapping, entry: FileEntry) -> None:
        if mapping.type == "dir":
            self._problem(
                "TypeMismatch",
                f"source {planned.source!r} is a file, and the mapping has type: dir: write type: file, or another"
                " source",
            )
            return
        place = planned.destination
        if not place or place.endswith("/"):
            place += planned.source.rpartition("/")[2]
        self._mappings.append(structs.replace(planned, destination=place))
        self._add(place, entry)

    def _map_folder(self, mapping: FileMapping, planned: PlannedMapping, inside: Sequence[FileEntry]) -> None:
        if mapping.type == "file":
            self._problem(
                "TypeMismatch",
                f"source {planned.source or '.'!r} is a folder, and the mapping has type: file: write type: dir, or"
                " another source",
            )
            return
        destination = planned.destination.rstrip("/")
        self._mappings.append(structs.replace(planned, destination=destination))
        start = len(planned.source) + 1 if planned.source else 0
        prefix = f"{destination}/" if destination else ""
        for entry in inside:
            self._add(prefix + entry.path[start:], entry)
            if self._excess():
                return

    def _source_missing(self, mapping: FileMapping, planned: PlannedMapping) -> None:
        link = self._link_on_the_way(planned.source)
        if link is not None:
            self._problem(
                "Symlink",
                f"source {planned.source!r} leads through the symbolic link {link!r}: write the path that it leads to",
            )
        elif mapping.required:
            self._problem(
                "SourceMissing",
                f"the commit has no file or folder {planned.source!r}, which is required: add it, or write required:"
                " false",
            )
        else:
            self._missing.append(planned.source)
            destination = planned.destination.rstrip("/")
            self._mappings.append(structs.replace(planned, destination=destination, missing=True))

    def _add(self, path: str, entry: FileEntry) -> None:
        """Add a file; a later mapping replaces the file of an earlier one."""
        self._looked_at += 1
        self._exclude_work += len(path) * len(self._profile.exclude)
        if self._exclude.matches(path):
            return
        if is_protected(path, self._unprotected):
            self._left_out[path] = None
            return
        if (problem := self._problem_of(path, entry)) is not None:
            self._problem(*problem)
            return
        self._files[path] = PlannedFile(
            path, entry.blob, entry.size, len(self._mappings) - 1, executable=entry.mode == _EXECUTABLE
        )

    def _problem_of(self, path: str, entry: FileEntry) -> tuple[str, str] | None:
        if entry.mode == _SYMLINK:
            why = "is a symbolic link, which could lead to files of the pod"
            return "Symlink", f"{entry.path!r} {why}: replace it by the file, or exclude it"
        if entry.mode == _SUBMODULE:
            return "Submodule", f"{entry.path!r} is a submodule, and submodules are not read: exclude it"
        if entry.size > MAX_BLOB_BYTES:
            return (
                "FileTooLarge",
                f"{entry.path!r} has {entry.size} bytes, and a file has at most {MAX_BLOB_BYTES}: exclude it",
            )
        if why := path_problem(path) or (_ignition_problem(path) if self._profile.is_ignition else ""):
            return "InvalidFileName", f"{entry.path!r} {why}: rename it, or exclude it"
        return None

    def _check_clashes(self) -> None:
        """Refuse paths that differ only in case, and files that are parent folders of others."""
        found: dict[str, str] = {}
        folders: set[str] = set()
        for path in sorted(self._files):
            folder = path.rpartition("/")[0]
            new = [place for place in _prefixes(folder) if place not in folders] if folder else []
            folders.update(new)
            for place in (*new, path):
                other = found.setdefault(unicodedata.normalize("NFC", place).casefold(), place)
                if other != place:
                    self._problem(
                        "CaseClash",
                        f"{place!r} and {other!r} differ only in upper and lower case, or in the form of their"
                        " characters: rename one of them, or exclude it",
                    )
            for place in new:
                if place in self._files:
                    self._problem("PathClash", f"{place!r} is a file and a folder: change the destination of a mapping")
            if len(self._problems) >= MAX_PROBLEMS:
                return

    def _entry(self, path: str) -> FileEntry | None:
        index = bisect_left(self._paths, path)
        return self._entries[index] if index < len(self._paths) and self._paths[index] == path else None

    def _below(self, folder: str) -> Sequence[FileEntry]:
        if not folder:
            return self._entries
        # "0" is the next character after "/".
        return self._entries[bisect_left(self._paths, f"{folder}/") : bisect_left(self._paths, f"{folder}0")]

    def _link_on_the_way(self, path: str) -> str | None:
        for place in _prefixes(path):
            entry = self._entry(place)
            if entry is not None and entry.mode == _SYMLINK:
                return place
        return None


def _prefixes(path: str) -> Iterator[str]:
    """Yield all folders of a path and the path itself."""
    position = path.find("/")
    while position >= 0:
        yield path[:position]
        position = path.find("/", position + 1)
    yield path


def _ignition_problem(path: str) -> str:
    """Return what Ignition forbids in the names of a path."""
    for name in path.split("/"):
        if not _FORBIDDEN.isdisjoint(name):
            return 'has a name with one of the characters ? * : | " < > `, which Ignition forbids'
        if name != name.strip() or name.endswith("."):
            return "has a name with a space at an end or a dot at its end, which Ignition forbids"
    return ""
