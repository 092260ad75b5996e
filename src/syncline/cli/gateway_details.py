"""The parts of an IgnitionSync's status that other kinds do not have, as facts and tables."""

from collections.abc import Iterator
from typing import Any

from syncline.cli.arguments import shown_revision

Json = dict[str, Any]
Rows = list[tuple[str, ...]]

_SHOWN_PATHS = 3


def followed_ref(one: Json) -> str:
    """Return the ref that gateways follow and its commit, as text."""
    status = one.get("status") or {}
    ref = status.get("lastSyncRef") or one["spec"]["git"]["ref"]
    commit = status.get("lastSyncCommit")
    return f"{ref} {shown_revision(commit)}" if commit else str(ref)


def gateway_facts(one: Json) -> list[tuple[str, str]]:
    """Return the ref of an IgnitionSync, and the progress of its rollout."""
    status = one.get("status") or {}
    facts = [("Ref", followed_ref(one))]
    requested = status.get("requestedRef")
    if requested:
        by, at = requested.get("by"), requested.get("at")
        words = [
            f"requested instead of {one['spec']['git']['ref']}",
            f"by {by}" if by else "",
            f"at {at}" if at else "",
        ]
        facts.append(("Requested", f"{requested['ref']}, {' '.join(word for word in words if word)}"))
    rollout = status.get("rollout") or {}
    if rollout.get("stage"):
        facts.append(("Rollout", f"{shown_revision(rollout.get('commit') or '-')} at {rollout['stage']}"))
    if rollout.get("failedCommits"):
        facts.append(("Failed", ", ".join(shown_revision(commit) for commit in rollout["failedCommits"])))
    return facts


def gateway_sections(status: Json) -> Iterator[tuple[tuple[str, ...], Rows]]:
    """Yield the header and the rows of each table: gateways, their pending confirmations, their last syncs."""
    gateways = status.get("discoveredGateways") or ()
    yield (
        ("GATEWAY", "POD", "PROFILE", "STATUS", "COMMIT", "FILES", "CHANGED", "SCAN", "WHY"),
        [_gateway_row(one) for one in gateways],
    )
    yield (
        ("DRIFT", "FILES"),
        [(one["podName"], _paths(one["drifted"])) for one in gateways if one.get("drifted")],
    )
    yield (
        ("HELD DELETION", "FILES", "CONFIRM WITH"),
        [_deletion_row(one) for one in gateways if one.get("heldDeletion")],
    )


def _gateway_row(one: Json) -> tuple[str, ...]:
    why = ": ".join(one[key] for key in ("reason", "message") if one.get(key))
    return (
        one["name"],
        one["podName"],
        one.get("profile") or one.get("servicePath") or "-",
        one.get("syncStatus", "Pending") + (" (dry run)" if one.get("dryRun") else ""),
        shown_revision(one.get("syncedCommit") or "-"),
        str(one.get("files", 0)),
        _changes(one.get("changes") or {}),
        one.get("lastScanResult") or "-",
        why or "-",
    )


def _changes(changes: Json) -> str:
    counts = ((changes.get("added", 0), "+"), (changes.get("modified", 0), "~"), (changes.get("deleted", 0), "-"))
    return " ".join(f"{sign}{count}" for count, sign in counts if count) or "-"


def _deletion_row(one: Json) -> tuple[str, ...]:
    held = one["heldDeletion"]
    files = f"{held.get('files', 0)} of {held.get('of', 0)}"
    return one["podName"], files, f"annotation syncline.dev/confirm-deletion: {held['digest']}"


def _paths(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    return ", ".join(paths[:_SHOWN_PATHS]) + more
