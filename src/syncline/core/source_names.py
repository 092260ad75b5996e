"""The name of a source in the marks of its copies: `Deployment.apps/shop/web`, the kind, the namespace and the name.

An object of one of several workspaces has the logical cluster at the end: `Deployment.apps/shop/web/2l4oxjz3bq`.
"""

from typing import NamedTuple

_PARTS = 3


class SourceName(NamedTuple):
    """A source, as marks name it."""

    kind: str
    namespace: str
    """Empty for kinds that have none."""
    name: str
    workspace: str = ""
    """The logical cluster of its workspace; empty if the sync has only one upstream."""

    def __str__(self) -> str:
        return "/".join(self if self.workspace else self[:_PARTS])


def read_source_name(text: str) -> SourceName | None:
    """Return the source that a mark names; None if it names none."""
    parts = text.split("/")
    return SourceName(*parts) if len(parts) in (_PARTS, _PARTS + 1) and parts[0] and parts[2] else None
