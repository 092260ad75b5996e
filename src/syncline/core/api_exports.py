"""An APIExport of kcp: the address of its virtual workspace, and the workspaces that are bound to it.

A bound workspace is identified by its logical cluster and the UID of its APIBinding. Its objects can exist and be
invisible: if the binding ends, or if the workspace withdraws a permission claim. `Binding.proves` says whether the
absence of an object means that it was deleted.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from syncline.core.group_kind import GroupResource
from syncline.core.namespace_mapping import Workspace, WorkspaceError

MAX_WORKSPACES = 200
MAX_ENDPOINTS = 16
NAMESPACES = GroupResource("", "namespaces")
# Names of logical clusters are unique, so two workspaces never get the same downstream namespace.
DEFAULT_TEMPLATE = "{{ workspace.cluster }}-{{ namespace }}"

CLUSTER = "kcp.io/cluster"
"""The annotation with the logical cluster of an object. kcp writes it, and nobody else can."""

_PATH = "kcp.io/path"
_PREFIX = "/services/apiexport/"
_is_cluster = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch


class BindingMeta(Struct, rename="camel"):
    """The metadata of an APIBinding. Its logical cluster is in the place of a namespace.

    Over all workspaces, a name is unique only together with its logical cluster.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the logical cluster in the place of the namespace."""
        self.namespace = self.annotations.get(CLUSTER, "")


class _ClaimSelector(Struct, rename="camel"):
    match_all: bool = False


class PermissionClaim(Struct):
    """A resource that a workspace grants to the owner of the APIExport."""

    resource: str = ""
    group: str = ""
    state: str = ""
    selector: _ClaimSelector = field(default_factory=_ClaimSelector)

    @property
    def name(self) -> GroupResource:
        """The resource."""
        return GroupResource(self.group, self.resource)


class _BoundResource(Struct):
    resource: str = ""
    group: str = ""


class _ExportRef(Struct):
    name: str = ""
    path: str = ""


class _Reference(Struct):
    export: _ExportRef | None = None


class _BindingSpec(Struct, rename="camel"):
    reference: _Reference = field(default_factory=_Reference)
    permission_claims: list[PermissionClaim] = field(default_factory=list)


class _BindingStatus(Struct, rename="camel"):
    phase: str = ""
    api_export_cluster_name: str = ""
    applied_permission_claims: list[PermissionClaim] = field(default_factory=list)
    bound_resources: list[_BoundResource] = field(default_factory=list)


class BindingWire(Struct):
    """An APIBinding, as the server sends it."""

    metadata: BindingMeta = field(default_factory=BindingMeta)
    spec: _BindingSpec = field(default_factory=_BindingSpec)
    status: _BindingStatus = field(default_factory=_BindingStatus)


class Binding(Struct, frozen=True, kw_only=True):
    """The state of an APIBinding."""

    workspace: Workspace
    name: str
    """The name of the APIBinding."""
    uid: str
    export: tuple[str, str]
    """The logical cluster and the name of the APIExport."""
    bound: bool
    granted: frozenset[GroupResource]
    """The resources that can be read."""
    proven: frozenset[GroupResource]
    """The granted resources whose objects can all be read: an absent object was deleted."""

    def proves(self, other: "Binding", resource: GroupResource) -> bool:
        """Whether an object that is absent in `other`, a later state, was deleted."""
        return other.bound and (other.uid, other.export) == (self.uid, self.export) and resource in other.proven


def read_binding(wire: BindingWire) -> Binding:
    """Return the state of an APIBinding."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    reference = spec.reference.export
    path = meta.annotations.get(_PATH, "")
    exported = {GroupResource(one.group, one.resource) for one in status.bound_resources}
    accepted = {one.name: one for one in spec.permission_claims if one.state == "Accepted"}
    applied = {one.name: one for one in status.applied_permission_claims}
    claimed = accepted.keys() & applied.keys()
    whole = {name for name in claimed if accepted[name].selector.match_all and applied[name].selector.match_all}
    return Binding(
        workspace=Workspace(path, path.rpartition(":")[2], meta.namespace),
        name=meta.name,
        uid=meta.uid,
        export=(status.api_export_cluster_name, reference.name if reference is not None else ""),
        bound=status.phase == "Bound" and meta.deletion_timestamp is None,
        granted=frozenset(exported | claimed),
        proven=frozenset(exported | whole),
    )


class ExportEndpoint(NamedTuple):
    """The virtual workspace of an APIExport on one shard."""

    url: str
    cluster: str
    """The logical cluster of the APIExport."""
    is_other: bool = False
    """Whether it is of an APIExport of the same name in another workspace."""

    def server(self, cluster: str) -> str:
        """Return the address of a logical cluster; `*`: of all bound ones."""
        return f"{self.url}/clusters/{cluster}"


def read_endpoint(url: str, export: str, home: str = "") -> ExportEndpoint:
    """Return the endpoint that an APIExportEndpointSlice names. Raises `WorkspaceError` for any other address.

    `home` is the logical cluster of the APIExport, if it is known.
    """
    parts = urlsplit(url)
    cluster, _, name = parts.path.rstrip("/").removeprefix(_PREFIX).partition("/")
    plain = parts.scheme == "https" and parts.netloc and "@" not in parts.netloc and not parts.query + parts.fragment
    if not plain or not parts.path.startswith(_PREFIX) or not _is_cluster(cluster) or unquote(name) != export:
        raise WorkspaceError(
            f"the APIExportEndpointSlice names {url[:256]!r}, which is not the address of APIExport {export}: an"
            f" address of it is https://HOST{_PREFIX}CLUSTER/{export}"
        )
    return ExportEndpoint(f"https://{parts.netloc}{_PREFIX}{cluster}/{name}", cluster, cluster != (home or cluster))


def is_same_host(server: str, other: str) -> bool:
    """Whether two addresses are of the same host and port."""
    return _host(server) == _host(other)


def _host(server: str) -> tuple[str, int]:
    parts = urlsplit(server)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return (parts.hostname or "").rstrip(".").lower(), 443 if port is None else port


class ChosenBindings(NamedTuple):
    """The bindings that a sync follows."""

    bindings: tuple[Binding, ...]
    left_out: int
    """The number of workspaces above the limit."""


def choose_bindings(
    bindings: Iterable[Binding], endpoints: Iterable[tuple[str, str]], known: frozenset[str]
) -> ChosenBindings:
    """Return the workspaces that are bound to an APIExport, at most 200; the `known` logical clusters go first.

    `endpoints` are the logical clusters and names that the APIExport has.
    """
    exports = frozenset(endpoints)
    found: dict[str, Binding] = {}
    for one in sorted(bindings, key=lambda one: (one.workspace.cluster, one.name)):
        if one.bound and one.export in exports and _is_cluster(one.workspace.cluster):
            found.setdefault(one.workspace.cluster, one)
    order = sorted(found, key=lambda cluster: (cluster not in known, cluster))
    return ChosenBindings(tuple(found[one] for one in order[:MAX_WORKSPACES]), max(0, len(order) - MAX_WORKSPACES))
