"""One sync or SyncTarget in full: conditions, targets, history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from syncline.api.common import LabelSelector
from syncline.api.kinds import (
    CONFIG_MAP_SYNC,
    CONFIG_SYNC,
    IGNITION_SYNC,
    SYNC_TARGET,
    TENANT_POLICY,
    WORKSPACE_SYNC,
    Kind,
)
from syncline.cli.arguments import shown_revision
from syncline.cli.gateway_details import gateway_facts, gateway_sections
from syncline.cli.table import print_table, printable
from syncline.cli.workspace_details import workspace_sections
from syncline.core.selectors import selector_words

Json = dict[str, Any]

_STATES = ("failed", "conflicted", "unknown", "pending", "skipped", "unwanted")
_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))
# Up to these limits the smaller unit is more useful: 90m, 47h, 9d.
_COARSE = 2
_LAST = ("lastSuccessfulSyncTime", "lastSyncTime", "lastSyncedTime")


def show_details(kind: Kind, one: Json) -> None:
    """Print all details of the object."""
    meta, status = one["metadata"], one.get("status") or {}
    print(
        printable(
            f"{kind.kind} {meta['namespace']}/{meta['name']}" if kind.namespaced else f"{kind.kind} {meta['name']}"
        )
    )
    if kind is TENANT_POLICY:
        facts = _policy_facts(one["spec"], status)
    else:
        facts = _cluster_facts(one, status) if kind is SYNC_TARGET else _sync_facts(one, status)
    facts.append(("Age", age(meta["creationTimestamp"])))
    if "deletionTimestamp" in meta:
        facts.append(
            ("Deleted", f"{age(meta['deletionTimestamp'])} ago; the operator removes or keeps its objects first")
        )
    width = max(len(name) for name, _ in facts) + 1
    for name, value in facts:
        print(f"  {name + ':':{width}} {printable(value)}")
    if not status:
        print("\nThe object has no status yet: check that the operator runs, and that it watches this namespace.")
    _section(
        ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"),
        [
            (one["type"], one["status"], one["reason"], age(one["lastTransitionTime"]), one.get("message") or "")
            for one in status.get("conditions") or ()
        ],
    )
    _section(
        ("ENVIRONMENT", "REVISION", "READY", "STAYS AT", "MESSAGE"),
        [_environment_row(entry) for entry in status.get("environments") or ()],
    )
    _section(("RESOURCE", "STATE", "MESSAGE"), [_resource_row(entry) for entry in status.get("syncedResources") or ()])
    if kind is WORKSPACE_SYNC:
        for header, rows in workspace_sections(status):
            _section(header, rows)
    if kind is IGNITION_SYNC:
        for header, rows in gateway_sections(status):
            _section(header, rows)
    targets = status.get("targetStatuses") or []
    _section(
        ("CLUSTER", "KIND", "NAMESPACE", "NAME", "STATUS", "WHY", "WHEN"), [_target_row(entry) for entry in targets]
    )
    total = (status.get("targets") or {}).get("desired", 0)
    listed = len(targets) or len(status.get("discoveredGateways") or ())
    if total > listed:
        print(f"{listed} of {total} targets are listed, failures first")
    _section(("PLANNED",), [(line,) for line in status.get("plan") or ()])
    header = ("WHEN", "REVISION", "RESULT", "CHANGES", "WHY")
    _section(header, [_change_row(entry) for entry in status.get("history") or ()])
    _section(
        ("ENVIRONMENT", *header),
        [
            (environment["name"], *_change_row(entry))
            for environment in status.get("environments") or ()
            for entry in environment.get("history") or ()
        ],
    )


def ready(status: Json) -> tuple[str, str]:
    """Return the Ready condition of an object and its reason, as cells."""
    found = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), None)
    return (found["status"], found["reason"]) if found else ("-", "-")


def source_words(one: Json) -> str:
    """Return the first source of a sync, as text."""
    spec = one["spec"]
    if one["kind"] == CONFIG_MAP_SYNC.kind:
        return f"{spec['sourceNamespace']}/{spec['configMapName']}"
    if one["kind"] == CONFIG_SYNC.kind:
        return _origin_words([spec["source"]] if "source" in spec else spec.get("sources") or [])
    if one["kind"] == WORKSPACE_SYNC.kind:
        return _upstream_words(spec.get("upstream") or {})
    if one["kind"] == IGNITION_SYNC.kind:
        return str(spec["git"]["repo"])
    refs = [spec["sourceRef"]] if "sourceRef" in spec else spec.get("sourceRefs") or []
    if not refs:
        return "-"
    return f"{refs[0]['kind']} {_object_words(refs[0])}{_more(refs)}"


def track_words(status: Json) -> str:
    """Return the revision of a ConfigSync, or of each of its environments, as text."""
    environments = status.get("environments") or ()
    tracks = [f"{one['name']} {shown_revision(one.get('sourceRevision') or '-')}" for one in environments]
    return ", ".join(tracks) or shown_revision(status.get("sourceRevision") or "-")


def resource_words(status: Json) -> str:
    """Return the number of resources that syncs write to a cluster, and the number of incompatible resources."""
    entries = status.get("syncedResources") or ()
    refused = sum(entry["state"] == "Incompatible" for entry in entries)
    return (f"{len(entries)}, {refused} incompatible" if refused else str(len(entries))) if entries else "-"


def age(timestamp: str) -> str:
    """Return the age of a time in the format of kubectl."""
    try:
        passed = datetime.now(UTC) - datetime.fromisoformat(timestamp)
    except ValueError:
        return "-"
    for unit, size in _UNITS:
        if passed >= _COARSE * size:
            return f"{passed // size}{unit}"
    return f"{max(0, passed // timedelta(seconds=1))}s"


def _upstream_words(upstream: Json) -> str:
    """Return the upstream of a WorkspaceSync as text: a workspace, the workspaces of an APIExport, or a cluster."""
    if "apiExport" in upstream:
        return f"APIExport {upstream['apiExport']['workspace']}/{upstream['apiExport']['name']}"
    if "workspace" in upstream:
        return str(upstream["workspace"])
    connection = upstream.get("connection")
    if connection is None:
        return "this cluster"
    if "syncTargetRef" in connection:
        return f"SyncTarget {connection['syncTargetRef']['name']}"
    return str(connection.get("server") or f"Secret {connection['kubeconfigSecretRef']['name']}")


def _origin_words(sources: list[Json]) -> str:
    """Return the source of a ConfigSync as text: a repository, or an object in its namespace."""
    if not sources:
        return "-"
    first = sources[0]
    if "git" in first:
        words = first["git"]["repo"]
    elif "configMapRef" in first:
        words = f"ConfigMap {first['configMapRef']['name']}"
    else:
        words = f"Secret {first['secretRef']['name']}"
    return f"{words}{_more(sources)}"


def _more(sources: list[Json]) -> str:
    return f" and {len(sources) - 1} more" if len(sources) > 1 else ""


def _object_words(ref: Json) -> str:
    """Return a source as in the spec: the spec does not say whether its kind is namespaced."""
    name = ref.get("name") or f"({selector_words(msgspec.convert(ref.get('selector') or {}, LabelSelector))})"
    return f"{ref['namespace']}/{name}" if ref.get("namespace") else name


def _sync_facts(one: Json, status: Json) -> list[tuple[str, str]]:
    revision = status.get("sourceRevision")
    facts = [("Source", source_words(one) + (f", revision {shown_revision(revision)}" if revision else ""))]
    facts += gateway_facts(one) if one["kind"] == IGNITION_SYNC.kind else []
    counts = status.get("targets")
    if counts:
        wrong = [f"{counts[state]} {state}" for state in _STATES if counts.get(state)]
        facts.append(("Targets", ", ".join([f"{counts['summary']} synced", *wrong])))
    rollback = status.get("rollback")
    if rollback:
        facts.append(("Stays at", f"{shown_revision(rollback['to'])}, since {rollback['since']} (rollback)"))
    last = next((status[key] for key in _LAST if status.get(key)), None)
    if last:
        facts.append(("Last sync", f"{last} ({age(last)} ago)"))
    return facts


def _cluster_facts(one: Json, status: Json) -> list[tuple[str, str]]:
    spec = one["spec"]
    allowed = spec.get("allowedNamespaces") or [one["metadata"]["namespace"]]
    facts = [("Connection", spec["connection"]["type"]), ("For syncs of", ", ".join(allowed))]
    if spec.get("unschedulable"):
        facts.append(("Unschedulable", "no new sync can use it"))
    for name, key in (("Version", "version"), ("Credential ends", "credentialExpiry"), ("Last seen", "lastSeen")):
        if status.get(key):
            facts.append((name, status[key]))
    return facts


def _policy_facts(spec: Json, status: Json) -> list[tuple[str, str]]:
    """Return the limits of a policy as text."""
    selector = selector_words(msgspec.convert(spec["namespaceSelector"], LabelSelector))
    clusters, account = spec.get("clusters"), spec.get("serviceAccount") or {}
    words = [
        "required" if account.get("required") else "",
        f"default {account['default']}" if account.get("default") else "",
        f"allowed {_allowed(account.get('allowed'))}" if "allowed" in account else "",
    ]
    reachable = clusters if clusters is None else [*clusters.get("syncTargets", ()), *clusters.get("servers", ())]
    return [
        ("Namespaces with", f"{selector} ({status.get('namespaces', 0)} now, with {status.get('syncs', 0)} syncs)"),
        ("Service account", "; ".join(word for word in words if word) or "any, or none"),
        ("Repositories", _allowed(spec.get("repositories"))),
        ("Other clusters", _allowed(reachable)),
        ("Destinations", _allowed(spec.get("destinationNamespaces"))),
        ("Kinds", _allowed(spec.get("kinds"))),
        ("Key services", _allowed(spec.get("keyServices"))),
        ("In each namespace", _quota_words(spec.get("quotas") or {})),
    ]


def _quota_words(quotas: Json) -> str:
    words = {
        "syncs": "syncs",
        "targets": "targets",
        "buildSecondsPerHour": "seconds of builds in an hour",
        "mirrorBytes": "bytes of repositories",
    }
    said = [f"{quotas[field]} {what}" for field, what in words.items() if field in quotas]
    return f"at most {', '.join(said)}" if said else "any number of syncs, targets, builds and bytes"


def _allowed(patterns: list[str] | None) -> str:
    return "any" if patterns is None else ", ".join(patterns) or "none"


def _environment_row(entry: Json) -> tuple[str, ...]:
    return (
        entry["name"],
        shown_revision(entry.get("sourceRevision") or "-"),
        entry.get("ready") or "Unknown",
        shown_revision((entry.get("rollback") or {}).get("to") or "-"),
        entry.get("message") or "",
    )


def _change_row(entry: Json) -> tuple[str, ...]:
    why = ": ".join(entry[key] for key in ("reason", "message") if entry.get(key))
    when, revision = f"{age(entry['time'])} ago", shown_revision(entry["revision"] or "-")
    return when, revision, entry["result"], entry["changes"] or "-", why


def _resource_row(entry: Json) -> tuple[str, ...]:
    return entry["name"], entry["state"], entry.get("message") or ""


def _target_row(entry: Json) -> tuple[str, ...]:
    reason, message = entry.get("reason") or "", entry.get("message") or ""
    return (
        entry.get("clusterName") or "-",
        entry.get("kind") or "ConfigMap",
        entry.get("namespace") or "-",
        entry["name"],
        entry["status"],
        ": ".join(part for part in (reason, message) if part) or "-",
        f"{age(entry['lastSyncTime'])} ago" if entry.get("lastSyncTime") else "-",
    )


def _section(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if rows:
        print()
        print_table(header, rows)
