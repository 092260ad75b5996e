"""The files and folders that a kustomization refers to, and the settings that are refused.

It only reads, and builds nothing. Content from outside the repository (remote bases, charts that kustomize would fetch)
is refused before the program runs.
"""

from collections.abc import Iterator
from typing import Any

from syncline.render.errors import BuildError
from syncline.render.manifests import ManifestError, read_documents

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of a kustomization file; the first that exists counts."""

SIZE_LIMIT = 128 * 1024
"""The maximum size of a kustomization file in bytes: it is parsed in the event loop."""

_FOLDERS_OR_FILES = ("resources", "bases", "components", "generators", "transformers", "validators")
_FILES = ("crds", "configurations", "patchesStrategicMerge")
_WITH_PATH = ("patches", "patchesJson6902", "replacements")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_CHARTS = ("helmCharts", "helmChartInflationGenerator", "helmGlobals")


def references(file: str, content: bytes) -> list[str]:
    """Return the paths in a kustomization file, unchanged. Raises BuildError for refused settings."""
    if len(content) > SIZE_LIMIT:
        raise BuildError(f"a kustomization of more than {SIZE_LIMIT >> 10} KiB; split it", file=file)
    try:
        documents = list(read_documents(content.decode()))
    except ManifestError as error:
        raise BuildError(error.cause, file=file, line=error.line) from None
    except UnicodeDecodeError:
        raise BuildError("is not UTF-8", file=file) from None
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise BuildError("a kustomization is one document, and a map", file=file)
    spec = documents[0].value
    for name in _CHARTS:
        if spec.get(name):
            raise BuildError(
                f"{name}: kustomize does not fetch charts; render the chart with its own sync (type: Helm)",
                file=file,
            )
    found = [path for path in _named(spec) if isinstance(path, str)]
    for path in found:
        if _is_remote(path):
            raise BuildError(
                "names a base or file on another host; remote bases are not fetched: copy it into the repository",
                file=file,
            )
    return found


def can_be_base(content: bytes) -> bool:
    """Whether another kustomization with this one as its base gives the same result."""
    return not any(mark in content for mark in (b"Component", b"buildMetadata"))


def _named(spec: dict[str, Any]) -> Iterator[Any]:
    for field in (*_FOLDERS_OR_FILES, *_FILES):
        # An entry can also be inline YAML, which has several lines.
        yield from (entry for entry in _list(spec.get(field)) if isinstance(entry, str) and "\n" not in entry.strip())
    for field in _WITH_PATH:
        yield from (entry.get("path") for entry in _list(spec.get(field)) if isinstance(entry, dict))
    openapi = spec.get("openapi")
    if isinstance(openapi, dict):
        yield openapi.get("path")
    for field in _GENERATORS:
        for generator in _list(spec.get(field)):
            if isinstance(generator, dict):
                yield generator.get("env")
                yield from _list(generator.get("envs"))
                for entry in _list(generator.get("files")):
                    yield entry.partition("=")[2] or entry if isinstance(entry, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_remote(path: str) -> bool:
    # Other forms of a host are not files of the repository, and are refused later.
    return any(mark in path for mark in ("://", "?ref=", "git@", "::"))
