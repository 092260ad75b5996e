"""What can be wrong with a cluster, beside what its API server says.

KubeError
|-- ConfigError
|   `-- NotResolved         what a sync or SyncTarget names cannot be used until a person changes something
`-- Unreachable
    `-- ClusterDown         the cluster is known to be away, or not to be trusted; nothing was sent
"""

# ruff: noqa: N818  # states have names, as the errors of `kube` do

from syncline.kube.errors import ConfigError, Unreachable


class NotResolved(ConfigError):
    """A reference leads nowhere usable; `reason` is one CamelCase word, the message says what to fix."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClusterDown(Unreachable):
    """The cluster is not used at the moment; the message says since when, and why. Nothing was sent."""

    def __init__(self, cluster: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.cluster = cluster
        self.reason = reason
