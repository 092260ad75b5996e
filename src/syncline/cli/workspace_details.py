"""The parts of a WorkspaceSync's status that other kinds do not have, as tables."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Rows = list[tuple[str, ...]]


def workspace_sections(status: Json) -> Iterator[tuple[tuple[str, ...], Rows]]:
    """Yield the header and the rows of each table: resources, namespaces with their clusters, conflicts."""
    yield (
        ("RESOURCE", "DIRECTION", "STATE", "SYNCED", "FAILED", "CONFLICTED", "WHY"),
        [_resource_row(one) for one in status.get("resources") or ()],
    )
    places = {_key(one, "namespace"): one for one in status.get("placement") or ()}
    yield (
        ("NAMESPACE", "DOWNSTREAM", "STATE", "CLUSTERS", "WHY"),
        [_namespace_row(one, places.get(_key(one, "upstream")) or {}) for one in status.get("namespaces") or ()],
    )
    yield (
        ("CONFLICT", "NAMESPACE", "NAME", "CLUSTER", "PATHS", "WHY"),
        [_conflict_row(one) for one in status.get("conflicts") or ()],
    )


def _resource_row(one: Json) -> tuple[str, ...]:
    name = f"{one['resource']}.{one['group']}" if one.get("group") else one["resource"]
    counts = (str(one.get(count, 0)) for count in ("synced", "failed", "conflicted"))
    return (name, one["direction"], one["state"], *counts, _why(one))


def _namespace_row(one: Json, place: Json) -> tuple[str, ...]:
    clusters = ", ".join(place.get("targets") or ()) or "-"
    name = f"{one['cluster']}/{one['upstream']}" if one.get("cluster") else one["upstream"]
    return (name, one.get("downstream") or "-", one["state"], clusters, _why(one) or _why(place))


def _conflict_row(one: Json) -> tuple[str, ...]:
    paths = ", ".join(one.get("paths") or ()) or "-"
    where = (one.get("namespace") or "-", one["name"], one.get("cluster") or "-")
    return (one["resource"], *where, paths, one.get("message") or "")


def _why(one: Json) -> str:
    return ": ".join(part for part in (one.get("reason"), one.get("message")) if part)


def _key(one: Json, name: str) -> tuple[str, str]:
    return one.get("cluster", ""), one[name]
