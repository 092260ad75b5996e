"""Finds the manifests among documents: objects with apiVersion, kind and a name. Lists are split into their items."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from syncline.render.build_spec import Document
from syncline.render.errors import BuildError
from syncline.render.manifests import ManifestError, Read, read_documents

DOCUMENT_LIMIT = 20_000
"""Manifests of one build."""

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")

_HOOK = "helm.sh/hook"
_ORIGIN = "config.kubernetes.io/origin"
_ORIGIN_FILE = re.compile(r"^(?:path|configuredIn): (\S+)$", re.MULTILINE)
_SOURCE = re.compile(r"^# Source: (\S+)$", re.MULTILINE)
_DEEPEST_LIST = 4


def manifests_of(path: str, content: bytes) -> tuple[list[Document], str | None] | None:
    """Read a file: its manifests and notes about it; None if it is data."""
    if not path.endswith(MANIFEST_SUFFIXES):
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    documents: list[Document] = []
    for read in _documents(text, path):
        if _is_nameless(read.value) and _metadata(read.value).get("name") is not None and not _name(read.value):
            raise BuildError("metadata.name is not text, as YAML is read: put it in quotes", file=path, line=read.line)
        if not _is_manifest(read.value):
            return None if not _is_nameless(read.value) else ([], _nameless(path, read.line))
        documents += _flattened(read.value, path, read.line)
        if len(documents) > DOCUMENT_LIMIT:
            raise BuildError(f"more than {DOCUMENT_LIMIT} manifests; split it", file=path)
    return documents, None


def manifests_of_output(
    output: bytes, file: str, chart: str | None = None, origins: str | None = None
) -> Iterator[Document | str]:
    """Read the output of a tool: its manifests, and the names of hooks, which are left out.

    Comments name the files of a `chart`; annotations name the files of kustomizations, as paths that begin with
    `origins`.
    """
    try:
        text = output.decode()
    except UnicodeDecodeError:
        raise BuildError("the output of its build is not UTF-8", file=file) from None
    sources = _Sources(text, chart)
    for read in _documents(text, file):
        place = sources.at(read.line) or file
        value = read.value
        if not isinstance(value, dict) or not value.get("kind") or not value.get("apiVersion"):
            raise BuildError("gives a document without apiVersion or kind", file=place)
        if origins is not None:
            place = _origin(value, origins) or file
        if chart is not None and (hook := _hook(value)):
            yield f"{value['kind']} {_name(value)} ({hook})"
            continue
        yield from _flattened(value, place, 0)


def manifests_of_value(value: Any, file: str) -> Iterator[Document]:
    """Find the manifests in a value of jsonnet: a manifest, or a list or map of manifests, at any depth."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict) and "apiVersion" in found and "kind" in found:
            yield from _flattened(found, file, 0)
        elif isinstance(found, dict):
            waiting += reversed(found.values())
        elif isinstance(found, list):
            waiting += reversed(found)
        elif found is not None:
            raise BuildError("gives a value that is neither a manifest nor a list or map of manifests", file=file)


def _documents(text: str, file: str) -> Iterator[Read]:
    try:
        yield from read_documents(text)
    except ManifestError as error:
        raise BuildError(error.cause, file=file, line=error.line) from None


def _is_manifest(value: Any) -> bool:
    return isinstance(value, dict) and (_is_list(value) or (_is_nameless(value) and bool(_name(value))))


def _is_nameless(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    named = value.get("apiVersion"), value.get("kind")
    return all(isinstance(each, str) and each for each in named)


def _nameless(path: str, line: int) -> str:
    return f"{path}, line {line}: has apiVersion and kind but no metadata.name, so the file is taken as data"


def _is_list(value: dict[str, Any]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)


def _flattened(value: dict[str, Any], file: str, line: int, depth: int = 0) -> Iterator[Document]:
    if not _is_list(value):
        yield Document(value, file, line)
        return
    if depth >= _DEEPEST_LIST:
        raise BuildError("lists within lists within lists; write the manifests themselves", file=file, line=line)
    for item in value["items"]:
        if not isinstance(item, dict):
            raise BuildError("a list with an item that is not a manifest", file=file, line=line)
        yield from _flattened(item, file, line, depth + 1)


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _name(value: dict[str, Any]) -> str:
    # A later check refuses generateName, with its own message.
    name = _metadata(value).get("name") or _metadata(value).get("generateName")
    return name if isinstance(name, str) else ""


def _origin(value: dict[str, Any], prefix: str) -> str:
    """Return the origin that kustomize added to a manifest, and remove it."""
    metadata = _metadata(value)
    annotations = metadata.get("annotations")
    note = annotations.pop(_ORIGIN, None) if isinstance(annotations, dict) else None
    if note is not None and not annotations:
        del metadata["annotations"]
    found = _ORIGIN_FILE.search(note) if isinstance(note, str) else None
    return found[1].removeprefix(prefix) if found else ""


def _hook(value: dict[str, Any]) -> str:
    annotations = _metadata(value).get("annotations")
    hook = annotations.get(_HOOK) if isinstance(annotations, dict) else None
    # Charts for Helm 2 mark their CRDs like this; they are not hooks any more.
    return hook if isinstance(hook, str) and hook != "crd-install" else ""


class _Sources:
    """The file of each line of a chart's output."""

    def __init__(self, text: str, chart: str | None) -> None:
        self._chart = chart
        self._found: list[tuple[int, str]] = []
        if chart is not None:
            line, at = 1, 0
            for found in _SOURCE.finditer(text):
                line += text.count("\n", at, found.start())
                at = found.start()
                self._found.append((line, found[1]))
        self._next = 0
        self._current = ""

    def at(self, line: int) -> str:
        """Return the file of a line. Ask for lines in ascending order."""
        while self._next < len(self._found) and self._found[self._next][0] <= line:
            # The comment begins with the name of the chart, which can differ from its folder.
            self._current = self._found[self._next][1].partition("/")[2]
            self._next += 1
        if not self._current or self._chart is None:
            return ""
        return self._current if self._chart == "." else f"{self._chart}/{self._current}"


def check_count(documents: Iterable[Document], file: str) -> Iterator[Document]:
    """Pass documents on, up to a limit."""
    for count, document in enumerate(documents, 1):
        if count > DOCUMENT_LIMIT:
            raise BuildError(f"gives more than {DOCUMENT_LIMIT} manifests; split it", file=file)
        yield document
