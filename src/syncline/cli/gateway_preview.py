"""The file changes of a commit in each gateway, for `syncline plan` and `syncline diff`. Paths, never contents."""

import sys

from syncline.cli.arguments import shown_revision
from syncline.cli.table import print_table, printable
from syncline.controllers.gateways.preview import FleetPreview, GatewayPreview

POSSIBLE, IMPOSSIBLE = 0, 1
SAME, DIFFERENT, WRONG = 0, 1, 2


def show_plan(title: str, preview: FleetPreview) -> int:
    """Print the changes in each gateway. Return whether all of them are possible."""
    print(printable(title))
    rows = [_row(one) for one in preview.gateways]
    print_table(("ACTION", "POD", "GATEWAY", "FROM", "ADDED", "MODIFIED", "DELETED", "WHY"), rows)
    if preview.problem is not None:
        print(printable(f"{preview.problem.reason}: {preview.problem.message}"))
        return IMPOSSIBLE
    unable = sum(one.action == "Hold" for one in preview.gateways)
    changed = sum(one.changes.any for one in preview.gateways)
    print(f"{preview.ref} is {shown_revision(preview.commit)}: {changed} of {len(preview.gateways)} gateways change")
    if unable:
        print(f"{unable} cannot be done")
    return IMPOSSIBLE if unable else POSSIBLE


def show_diff(title: str, preview: FleetPreview) -> int:
    """Print the paths that would change in each gateway. Return whether some would."""
    if preview.problem is not None:
        print(printable(f"syncline: {title}: {preview.problem.reason}: {preview.problem.message}"), file=sys.stderr)
        return WRONG
    code, lines = SAME, []
    for one in preview.gateways:
        if one.action != "Publish":
            lines.append(f"# not changed: {one.pod}: {one.message}")
        elif one.changes.any:
            code = DIFFERENT
            lines.append(f"# {one.pod}: {_from(one)} to {shown_revision(preview.commit)}")
            changes = one.changes
            for sign, paths in (("+", changes.added), ("~", changes.modified), ("-", changes.deleted)):
                lines += [f"{sign} {path}" for path in paths]
    if lines:
        print("\n".join(printable(line) for line in (f"# {title}", *lines)))
    return code


def _row(one: GatewayPreview) -> tuple[str, ...]:
    changes = one.changes
    action = one.action.lower() if one.changes.any or one.action != "Publish" else "leave"
    counts = (str(len(paths)) for paths in (changes.added, changes.modified, changes.deleted))
    return action, one.pod, one.gateway, _from(one), *counts, one.message


def _from(one: GatewayPreview) -> str:
    return shown_revision(one.before) if one.before else "unknown"
