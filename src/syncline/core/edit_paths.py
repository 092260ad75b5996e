"""The files of a gateway that can be sent to Git, and their paths in the repository. Pure.

The agent applies these rules to what it sends, and the operator applies them again: a pod can send anything.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from syncline.core.credential_scan import credential_name
from syncline.core.gateway_content import rules_for
from syncline.core.gateway_files import relative_to
from syncline.core.gateway_plan import GatewayPlan, PlannedFile, PlannedReturn
from syncline.core.path_globs import PathPatterns
from syncline.core.protected_paths import is_protected, path_problem
from syncline.core.publish_plan import ancestors

# Files that configure a Git server or a build system. All hidden files are refused.
_OBEYED = frozenset(
    {
        *("jenkinsfile", "makefile", "dockerfile", "codeowners", "git~1"),
        *("azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", "appveyor.yml", "cloudbuild.yaml"),
    }
)


class EditRules:
    """The rules of one plan."""

    def __init__(self, plan: GatewayPlan) -> None:
        self.plan = plan
        self.limits = plan.send_back if plan.send_back is not None else PlannedReturn()
        self.files: Mapping[str, PlannedFile] = {file.path: file for file in plan.files}
        self._watched = PathPatterns(plan.rules.watched if plan.send_back is not None else ())
        self._excluded = PathPatterns((*plan.rules.exclude, *self.limits.exclude))

    def watches(self, path: str) -> bool:
        """Whether edits of a path are sent instead of repaired. `refusal` decides whether a file may be sent."""
        if not self._watched.matches(path) or self._excluded.matches(path):
            return False
        return not is_protected(path, self.plan.rules.unprotected)

    def refusal(self, path: str) -> str:
        """Return why a path is never sent, or an empty text. The content is checked elsewhere."""
        return next(self._refusals(path), "")

    def _refusals(self, path: str) -> Iterator[str]:
        if why := path_problem(path):
            yield f"the path {why}"
        if is_protected(path, self.plan.rules.unprotected):
            yield "the file belongs to the gateway itself"
        if not self._watched.matches(path):
            yield "the file is not in bidirectional.watchPaths"
        if self._excluded.matches(path):
            yield "the file is excluded"
        if credential_name(path):
            yield "files of this name have credentials"
        place = self.place(path)
        if place is None:
            yield "no mapping has its folder, so it has no place in the repository"
        elif path_problem(place) or _is_obeyed(place):
            yield "its place in the repository is one of hidden files, or of files that build systems obey"
        elif self._is_rendered(path):
            yield "its mapping has templates, patches or normalized values, which cannot be undone"

    def place(self, path: str) -> str | None:
        """Return the path of a file in the repository; None if no mapping has it."""
        index = self._mapping(path)
        if index is None:
            return None
        mapping = self.plan.mappings[index]
        inner = relative_to(mapping.destination, path)
        if inner is None:
            return None
        return "/".join(part for part in (mapping.source, inner) if part)

    def folders(self) -> tuple[str, ...]:
        """Return the outermost folders that can have new files to send; "" is the data folder."""
        starts = {_fixed_folder(pattern) for pattern in self.plan.rules.watched}
        mapped = {one.destination for one in self.plan.mappings if self._is_folder(one.destination) and not one.missing}
        found = {max(start, folder, key=len) for start in starts for folder in mapped if _nested(start, folder)}
        return tuple(sorted(one for one in found if not any(_is_below(one, other) for other in found if other != one)))

    def skips(self, folder: str) -> bool:
        """Whether no file below a folder can be sent."""
        name = folder.rpartition("/")[2]
        return (
            name.startswith(".") or is_protected(folder, self.plan.rules.unprotected) or self._excluded.matches(folder)
        )

    def _mapping(self, path: str) -> int | None:
        """Return the mapping of a file. For a new file, this is the mapping with the longest destination."""
        if (file := self.files.get(path)) is not None:
            return file.mapping
        fitting = [
            (len(one.destination), index)
            for index, one in enumerate(self.plan.mappings)
            if not one.missing and self._is_folder(one.destination) and relative_to(one.destination, path)
        ]
        return max(fitting)[1] if fitting else None

    def _is_folder(self, destination: str) -> bool:
        return destination not in self.files

    def _is_rendered(self, path: str) -> bool:
        index = self._mapping(path)
        file = self.files.get(path) or PlannedFile(path, "", 0, index if index is not None else 0)
        return rules_for(file, self.plan).any


def path_clash(paths: Iterable[str], removed: Iterable[str], present: Iterable[str]) -> str:
    """Return a path that differs from another only in case, or is both a file and a folder; empty if there is none.

    `paths` are written, `removed` deleted, and `present` were there before.
    """
    written = set(paths)
    after = (written | set(present)) - set(removed)
    folders = {folder for path in after for folder in ancestors(path)}
    new = written | {folder for path in written for folder in ancestors(path)}
    names: dict[str, str] = {}
    for place in sorted(after | folders):
        other = names.setdefault(unicodedata.normalize("NFC", place).casefold(), place)
        if other != place and not new.isdisjoint((place, other)):
            return f"{place!r} and {other!r} differ only in upper and lower case"
    for path in sorted(new & after & folders):
        return f"{path!r} is a file and a folder"
    return ""


def _is_obeyed(place: str) -> bool:
    names = place.split("/")
    return any(name.startswith(".") for name in names) or any(name.casefold() in _OBEYED for name in names)


def _fixed_folder(pattern: str) -> str:
    """Return the folder that all files of a glob are in."""
    plain = pattern.rstrip("/")
    if "/" not in plain:
        return ""  # a name in any folder
    return "/".join(_until_wildcard(plain.lstrip("/").split("/")[:-1]))


def _until_wildcard(names: list[str]) -> Iterator[str]:
    for name in names:
        if any(character in name for character in "*?["):
            return
        yield name


def _nested(one: str, other: str) -> bool:
    return _is_below(one, other) or _is_below(other, one)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")
