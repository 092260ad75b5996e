"""The agent's check of a plan: it refuses paths that leave the folder, and work without bounds."""

import re

from syncline.core.gateway_plan import MAX_BLOB_BYTES, MAX_PLAN_FILES, GatewayPlan, PlannedFile
from syncline.core.protected_paths import is_protected, path_problem
from syncline.core.publish_plan import ancestors

MAX_KEPT_SNAPSHOTS = 100
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST_SHOWN = 120


def plan_problem(plan: GatewayPlan) -> str:
    """Return why a plan cannot be executed, or an empty text."""
    if len(plan.files) > MAX_PLAN_FILES:
        return f"it has {len(plan.files)} files, and at most {MAX_PLAN_FILES} are allowed: map fewer folders"
    if plan.snapshots.keep > MAX_KEPT_SNAPSHOTS:
        return f"it keeps {plan.snapshots.keep} snapshots, and at most {MAX_KEPT_SNAPSHOTS} are allowed"
    paths = {file.path for file in plan.files}
    if len(paths) != len(plan.files):
        return "it has two files with the same path"
    for file in plan.files:
        if why := _file_problem(file, plan):
            return f"{file.path[:_LONGEST_SHOWN]!r} {why}"
        above = next((folder for folder in ancestors(file.path) if folder in paths), None)
        if above is not None:
            return f"{above[:_LONGEST_SHOWN]!r} is a file and a folder"
    return ""


def _file_problem(file: PlannedFile, plan: GatewayPlan) -> str:
    if why := path_problem(file.path):
        return why
    if is_protected(file.path, plan.rules.unprotected):
        return "is protected, and never written"
    if not 0 <= file.size <= MAX_BLOB_BYTES:
        return f"has {file.size} bytes, and at most {MAX_BLOB_BYTES} are allowed"
    if not _BLOB.fullmatch(file.blob):
        return "has an id that is not one of a Git blob"
    if not 0 <= file.mapping < len(plan.mappings):
        return "belongs to no mapping"
    return ""
