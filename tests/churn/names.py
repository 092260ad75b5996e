"""The parts of the stage: which namespaces, sources and keys the churn plays with.

Names are disjoint on purpose: a place tells from its name which syncs may want it, so that the oracle can say of an
object that no sync may ever have touched it.
"""

HOME = "home"
"""Where most syncs live. Never deleted."""
SRC = "src"
"""Where most sources live. Never deleted."""
LODGE = "lodge"
"""A tenant's namespace: with syncs and a source, deleted and created again."""
TARGETS = tuple(f"t-{number}" for number in range(8))
WIDE = tuple(f"w-{number:02}" for number in range(16))
GIT = ("g-0", "g-1", "g-2")
FAR_SPACES = ("f-0", "f-1", "f-2", "f-3")
"""Namespaces of the second cluster."""
CUSTOM = "widgets.example.com"
"""A kind that comes and goes."""
CREDENTIAL = "far-kubeconfig"

GROUPS = ("red", "blue")
WIDE_LABEL = "wide"

SOURCE_KEYS = ("s0", "s1", "s2", "s3")
"""Edited at sources only."""
BOTH_KEY = "x0"
"""Edited on both sides, so that its value is a matter of history."""
NOTE = "note"
"""A label or annotation that only users put on copies."""
SOURCE_LABELS = ("team", "tier")

OWNER = "syncline.dev/owner"
MARKER = "syncline.dev/copy"
PREFIX = "syncline.dev/"
IGNORE = "syncline.dev/ignore"
FINALIZER = "syncline.dev/cleanup"
REQUESTED = "syncline.dev/requestedAt"
CONFIRM = "syncline.dev/confirm-deletion"
ABANDON = "syncline.dev/abandon"
PRUNE = "syncline.dev/prune"
RECONCILE = "syncline.dev/reconcile"
