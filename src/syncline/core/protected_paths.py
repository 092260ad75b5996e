"""Paths below a data folder: which are valid, and which are never written, deleted or sent."""

import re
from collections.abc import Sequence

STATE_FOLDER = ".syncline"
"""The agent's own folder in the data folder."""

RESOURCES_FOLDER = ".resources"
"""The cache of an Ignition gateway, in any folder."""
PROTECTED = (
    ".uuid",
    ".ignition-seed-complete",
    "commissioning.json",
    "config/ignition/keys",
    "config/local",
    "config/resources/local",
    "db",
    "jar-cache",
    "metricsdb",
    "valueStore.idb",
    "var",
)
"""What an Ignition gateway keeps for itself: identity, keys, values, databases, and marks of its first start."""

# In any folder; the others are paths from the data folder.
_ANYWHERE = frozenset({".uuid", "valuestore.idb"})
# Never written, whatever a spec allows.
_ALWAYS = frozenset({STATE_FOLDER, RESOURCES_FOLDER})
_PATHS = tuple(path for path in map(str.casefold, PROTECTED) if path not in _ANYWHERE)

LONGEST_NAME = 255
LONGEST_PATH = 1024
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f]").search


def path_problem(path: str) -> str:
    """Return why a path cannot be one below a folder, or an empty text."""
    if not path or path.startswith("/"):
        return "is not relative to the folder"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "has an empty name, . or .."
    if _UNSAFE(path):
        return "has a backslash or a control character"
    try:
        sizes = [len(part.encode()) for part in path.split("/")]
    except UnicodeEncodeError:
        return "is not UTF-8"
    if max(sizes) > LONGEST_NAME or sum(sizes) + len(sizes) > LONGEST_PATH:
        return f"is longer than {LONGEST_PATH} bytes, or one of its names is longer than {LONGEST_NAME}"
    return ""


def is_protected(path: str, unprotected: Sequence[str] = ()) -> bool:
    """Whether a path is never written, deleted or sent. `unprotected`: which of `PROTECTED` may be. Case is ignored."""
    folded = path.casefold()
    names = folded.split("/")
    if not _ALWAYS.isdisjoint(names):
        return True
    allowed = {one.casefold() for one in unprotected}
    if any(name in _ANYWHERE and name not in allowed for name in names):
        return True
    return any(one not in allowed and (folded == one or folded.startswith(f"{one}/")) for one in _PATHS)
