"""Unknown fields in the manifest of a sync, with a suggestion for the correct name."""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from syncline.api.crd import crd
from syncline.api.kinds import ALL_KINDS
from syncline.kube.errors import BadRequest

_UNKNOWN = re.compile(r'(unknown|duplicate) field "((?:[^"\\]|\\.)+)"')


def explain(kind: str, error: BadRequest) -> str | None:
    """Return the unknown or duplicate field in a refused manifest; None if the cause is another one."""
    found = _UNKNOWN.findall(error.message)
    if not found:
        return None
    words = [_word(kind, how, path) for how, path in dict.fromkeys(found)]
    return "; ".join(words)


def _word(kind: str, how: str, path: str) -> str:
    if how == "duplicate":
        return f"the field {path} is duplicate"
    parent, _, name = path.rpartition(".")
    near = difflib.get_close_matches(name, _fields(kind, parent), n=1, cutoff=0.5)
    meant = f": did you mean {f'{parent}.' if parent else ''}{near[0]}?" if near else ""
    return f"there is no field {path}{meant}"


def _fields(kind: str, path: str) -> list[str]:
    """Return the fields of a kind at a path, such as `spec.sources[0].git`."""
    found = next((one for one in ALL_KINDS if one.kind == kind), None)
    if found is None:
        return []
    node: Mapping[str, Any] = crd(found)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        node = node.get("items", {}) if step.startswith("[") else node.get("properties", {}).get(step, {})
    return list(node.get("properties", {}))
