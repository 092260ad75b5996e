"""The check of the installed CRDs: whether this version of the operator can use them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Manifest = Mapping[str, Any]

INSTALL = "run `syncline install` of this version"


def describe_together(problems: Iterable[str]) -> str:
    """Tell several problems in one text, each remedy once: `remedy: cause; cause`."""
    causes: dict[str, list[str]] = {}
    for problem in problems:
        remedy, _, cause = problem.partition(": ")
        causes.setdefault(remedy, []).append(cause)
    return "; ".join(f"{remedy}: {'; '.join(several)}" for remedy, several in causes.items())


def find_crd_problem(shipped: Manifest, live: Manifest | None) -> str:
    """Say what a CRD lacks, and what to do; nothing where it serves all that this version knows.

    A newer one may have more. What the schema of an older one does not have, the API server drops without a word.
    """
    name = shipped["metadata"]["name"]
    if live is None:
        return f"{INSTALL}: the CustomResourceDefinition {name} does not exist"
    (ours,) = shipped["spec"]["versions"]
    version = ours["name"]
    theirs = next((one for one in live["spec"]["versions"] if one["name"] == version), None)
    if theirs is None or not theirs.get("served"):
        return f"{INSTALL}: the CustomResourceDefinition {name} does not serve version {version}"
    if "status" not in (theirs.get("subresources") or {}):
        return f"{INSTALL}: the CustomResourceDefinition {name} has no status subresource"
    wanted, had = (one["schema"]["openAPIV3Schema"] for one in (ours, theirs))
    missing = next(_missing(wanted, had), "")
    return f"{INSTALL}: the CustomResourceDefinition {name} is older, it has no {missing}" if missing else ""


def _missing(wanted: Manifest, had: Manifest, path: str = "") -> Iterator[str]:
    """Yield the fields that one schema has and the other has not."""
    for name, field in wanted.get("properties", {}).items():
        where = f"{path}.{name}".removeprefix(".")
        if name not in (had.get("properties") or {}):
            yield where
        else:
            yield from _missing(field, had["properties"][name], where)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        inner = wanted.get(key)
        if isinstance(inner, Mapping):
            other = had.get(key)
            yield from _missing(inner, other if isinstance(other, Mapping) else {}, f"{path}{mark}")
