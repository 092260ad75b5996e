"""Jsonnet with only the given files for imports. It runs in a worker process, which can crash."""

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

import rjsonnet

from syncline.render.errors import BuildError
from syncline.render.tree import join, normal

_PLACE = re.compile(r"^\s+(\S+):(\d+):\d+", re.MULTILINE)
_KINDS = ("syntax error", "runtime error", "stack overflow", "external variable is not defined", "function parameter")
_LONGEST_CAUSE = 200
_STACK = 300


class _ImportRefused(Exception):  # noqa: N818 - reported as a BuildError
    pass


def evaluate(
    files: Mapping[str, bytes],
    entry: str,
    libraries: Sequence[str],
    tlas: Mapping[str, Any],
    ext_vars: Mapping[str, Any],
    *,
    sensitive: bool,
) -> Any:
    """Return the value of a file. Raises BuildError with the line. `sensitive`: the message quotes no file."""
    refused: list[str] = []

    def load(folder: str, name: str) -> tuple[str, str]:
        # The first import is our own: the entry, with its path from the root.
        folders = [folder, *libraries] if load.started else ["."]  # type: ignore[attr-defined]
        load.started = True  # type: ignore[attr-defined]
        for place in folders:
            try:
                path = join(place or ".", name)
            except BuildError:
                continue
            if path in files:
                try:
                    return path, files[path].decode()
                except UnicodeDecodeError:
                    refused.append(f"imports {path}, which is not UTF-8")
                    raise _ImportRefused from None
        refused.append(f"imports {name!r}, which is not among the files of the build")
        raise _ImportRefused

    load.started = False  # type: ignore[attr-defined]
    try:
        text = rjsonnet.evaluate_snippet(
            "",
            f"import {json.dumps(normal(entry))}",
            max_stack=_STACK,
            max_trace=5,
            import_callback=load,
            tla_vars={name: value for name, value in tlas.items() if isinstance(value, str)},
            tla_codes={name: json.dumps(value) for name, value in tlas.items() if not isinstance(value, str)},
            ext_vars={name: value for name, value in ext_vars.items() if isinstance(value, str)},
            ext_codes={name: json.dumps(value) for name, value in ext_vars.items() if not isinstance(value, str)},
        )
    except (RuntimeError, _ImportRefused) as error:
        raise _told(str(error), entry, refused, sensitive=sensitive) from None
    return json.loads(text)


def _told(message: str, entry: str, refused: Sequence[str], *, sensitive: bool) -> BuildError:
    place = _PLACE.search(message)
    file = place[1] if place and not posixpath.isabs(place[1]) else entry
    line = int(place[2]) if place else 0
    if refused:
        return BuildError(refused[-1], file=file, line=line)
    cause = message.partition("\n")[0]
    if sensitive:
        kind = next((kind for kind in _KINDS if cause.startswith(kind)), "it cannot be evaluated")
        return BuildError(f"{kind}; the details are hidden, because the build contains secrets", file=file, line=line)
    return BuildError(cause[:_LONGEST_CAUSE], file=file, line=line)
