"""The errors of clusters, in addition to the errors of their API servers.

KubeError
|-- ConfigError
|   `-- NotResolved         a reference of a sync or SyncTarget is not valid until somebody changes an object
`-- Unreachable
    `-- ClusterDown         the cluster is unreachable or not trusted; no request was sent
"""

# ruff: noqa: N818  # the names are states, like the errors of `kube`

from syncline.kube.errors import ConfigError, Unreachable


class NotResolved(ConfigError):
    """A reference is not valid. `reason` is one CamelCase word. The message names the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClusterDown(Unreachable):
    """The cluster is not used now. The message has the start and the cause. No request was sent."""

    def __init__(self, cluster: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.cluster = cluster
        self.reason = reason
