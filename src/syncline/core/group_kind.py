"""The group with the kind or the resource, and how both are written as one name: `Secret`, `Deployment.apps`.

Targets, markers and statuses hold such names. Only this module composes and parses such names.
"""

from functools import lru_cache
from typing import NamedTuple, Self


class GroupKind(NamedTuple):
    """A kind of objects, whatever the version."""

    group: str
    """Empty for the core group."""
    kind: str

    def __str__(self) -> str:
        return _join(self.kind, self.group)

    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, name: str) -> Self:
        """Read `Kind` or `Kind.group`."""
        kind, _, group = name.partition(".")
        return cls(group, kind)

    @classmethod
    def of(cls, api_version: str, kind: str) -> Self:
        """Return the kind of an object with this `apiVersion` and `kind`."""
        return cls(api_version.rpartition("/")[0], kind)


class GroupResource(NamedTuple):
    """A resource, whatever the version, as in URLs and RBAC rules: `secrets` or `deployments.apps`."""

    group: str
    """Empty for the core group."""
    resource: str

    def __str__(self) -> str:
        return _join(self.resource, self.group)

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read `resource` or `resource.group`."""
        resource, _, group = name.partition(".")
        return cls(group, resource)


def _join(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name
