"""The requests of a spec, in the words of TenantPolicies. Pure: only the spec is read."""

from collections.abc import Iterable, Iterator

from syncline.api.configmapsync import ConfigMapSyncSpec
from syncline.api.configsync import ConfigSyncSpec
from syncline.api.connection import ClusterConnection
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.api.manifestsync import ManifestSyncSpec
from syncline.api.source import GitSource
from syncline.api.workspacesync import WorkspaceSyncSpec, resources_of
from syncline.core.group_kind import GroupKind
from syncline.core.known_kinds import known_kind
from syncline.core.selectors import is_glob
from syncline.core.tenancy import TenantRequest

ENDPOINT_KINDS = ("Endpoints", "EndpointSlice.discovery.k8s.io")
"""The kinds that a WorkspaceSync with `endpoints: true` writes upstream."""


def configmapsync_request(spec: ConfigMapSyncSpec) -> TenantRequest:
    """Return what a ConfigMapSync asks for; one that goes both ways writes to its source too."""
    both_ways = [spec.source_namespace] if spec.direction == "Bidirectional" else []
    named = [spec.destination_namespace] if spec.destination_namespace else []
    return TenantRequest(
        namespaces=tuple(_exact([*named, *spec.destination_namespaces, *both_ways])), kinds=("ConfigMap",)
    )


def manifestsync_request(spec: ManifestSyncSpec, namespace: str) -> TenantRequest:
    """Return what a ManifestSync of a namespace asks for."""
    refs = [spec.source_ref] if spec.source_ref is not None else spec.source_refs
    remotes = spec.targets.remote_clusters
    inside = spec.targets.in_cluster
    namespaces = [
        *(inside.namespaces if inside is not None else ()),
        *(one for all_ in remotes for one in all_.namespaces),
    ]
    return TenantRequest(
        **_connections((remote.connection for remote in remotes), namespace),
        namespaces=tuple(_exact(namespaces)),
        kinds=tuple(str(GroupKind.of(ref.api_version, ref.kind)) for ref in refs),
    )


def configsync_request(spec: ConfigSyncSpec, namespace: str) -> TenantRequest:
    """Return what a ConfigSync of a namespace asks for; what its objects are only shows once they are built."""
    sources = [spec.source] if spec.source is not None else spec.sources
    repositories = [source.git for source in sources if source.git is not None]
    placed = [target.namespace for target in spec.targets] + [one.namespace for one in spec.environments]
    return TenantRequest(
        repositories=tuple(git.repo for git in repositories),
        detours=tuple(field for git in repositories for field in _detours(git)),
        **_connections((remote.connection for remote in spec.remote_clusters), namespace),
        namespaces=tuple(one for one in placed if one),
    )


def ignitionsync_request(spec: IgnitionSyncSpec) -> TenantRequest:
    """Return the request of an IgnitionSync. Its gateways are pods of its own namespace."""
    app = spec.git.auth.github_app if spec.git.auth is not None else None
    detours = ("git.auth.githubApp.apiBaseURL",) if app is not None and app.api_base_url is not None else ()
    return TenantRequest(repositories=(spec.git.repo,), detours=detours)


def workspacesync_request(spec: WorkspaceSyncSpec, namespace: str) -> TenantRequest:
    """Return the request of a WorkspaceSync of a namespace.

    Namespaces of prefixes and templates, kinds of custom resources and clusters of selectors are known only in a
    reconcile.
    """
    upstream, downstream, mapping = spec.upstream.connection, spec.downstream, spec.namespaces.mapping
    asked = _connections([upstream] if upstream is not None else [], namespace)
    targets = [f"{downstream.sync_target_namespace or namespace}/{name}" for name in downstream.sync_targets]
    kinds = [known_kind(one.group, one.resource) for one in resources_of(spec)]
    endpoints = ENDPOINT_KINDS if spec.endpoints else ()
    return TenantRequest(
        sync_targets=(*asked["sync_targets"], *targets),
        servers=asked["servers"],
        namespaces=(mapping.fixed,) if mapping is not None and mapping.fixed is not None else (),
        kinds=(*(kind for kind in kinds if kind is not None), *endpoints),
    )


def _connections(connections: Iterable[ClusterConnection], namespace: str) -> dict[str, tuple[str, ...]]:
    found = list(connections)
    targets = [
        f"{one.sync_target_namespace or namespace}/{one.sync_target_ref.name}" for one in found if one.sync_target_ref
    ]
    return {"sync_targets": tuple(targets), "servers": tuple(one.server for one in found if one.server)}


def _detours(git: GitSource) -> Iterator[str]:
    if git.proxy_secret_ref is not None:
        yield "source.git.proxySecretRef"
    if git.submodules:
        yield "source.git.submodules"


def _exact(patterns: Iterable[str]) -> Iterator[str]:
    return (pattern for pattern in patterns if not is_glob(pattern))
