"""From the spec of a sync to the credential of a cluster: the only place where these references are resolved.

A Secret is in the namespace of the sync or SyncTarget that names it. A SyncTarget is in the namespace of the sync, or
in a namespace that the sync names, and then it must allow the namespace of the sync. The existence of other SyncTargets
is not revealed.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from msgspec import Struct, structs

from syncline.api.connection import ClusterConnection, SecretKeyRef
from syncline.api.synctarget import SyncTarget
from syncline.core.api_exports import is_same_host
from syncline.core.namespace_mapping import WorkspaceError, workspace_server
from syncline.core.selectors import glob_matches, selector_matches, selector_words
from syncline.fleet.credentials import Credentials, validate
from syncline.fleet.errors import NotResolved
from syncline.fleet.secrets import SecretWire, kubeconfig_connection, token_connection
from syncline.kube.errors import ApiError, ConfigError, NotFound

ReadSecret = Callable[[str, str], Awaitable[SecretWire]]
"""Reads a Secret by namespace and name, with the rights of the sync. Raises the errors of a read."""


class MemberKey(Struct, frozen=True, order=True):
    """The key of a credential: equal keys mean the same cluster."""

    namespace: str
    kind: str
    """SyncTarget or Secret."""
    name: str
    part: str = ""
    """The key in the Secret and, for a token, the server in the spec."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Resolved(Struct, frozen=True, kw_only=True):
    """A cluster that the sync can use."""

    key: MemberKey
    name: str
    """The name of the SyncTarget or Secret, for people."""
    credentials: Credentials
    target: SyncTarget | None = None

    @property
    def unschedulable(self) -> bool:
        """Whether new syncs are refused. Syncs that already use the cluster continue."""
        return self.target is not None and self.target.spec.unschedulable


def may_use(target: SyncTarget, namespace: str) -> bool:
    """Whether syncs of a namespace can use a SyncTarget: its own namespace always, others if it allows them."""
    patterns = target.spec.allowed_namespaces
    return namespace == target.metadata.namespace or any(glob_matches(pattern, namespace) for pattern in patterns)


def targets_of(
    connection: ClusterConnection, namespace: str, targets: Iterable[SyncTarget], *, readable: bool = False
) -> tuple[SyncTarget, ...]:
    """Return the SyncTargets that a connection selects: one by name, or all with these labels.

    They are in the namespace of the sync, or in the namespace that the connection names, and nowhere else: a SyncTarget
    of another tenant that allows all namespaces must not receive Secrets of others. Raises `NotResolved` if there is no
    SyncTarget with the name. A selector can select none. `readable` means that the sync can read the `targets`. Only
    then a message names a SyncTarget that does not allow the namespace.
    """
    home = connection.sync_target_namespace or namespace
    there = [target for target in targets if target.metadata.namespace == home]
    allowed = sorted(
        (target for target in there if may_use(target, namespace)), key=lambda target: target.metadata.name
    )
    if connection.selector is not None:
        selector = connection.selector
        return tuple(target for target in allowed if selector_matches(selector, target.metadata.labels))
    if connection.sync_target_ref is None:
        raise NotResolved("InvalidSpec", "connection type SyncTarget needs syncTargetRef or selector")
    name = connection.sync_target_ref.name
    found = tuple(target for target in allowed if target.metadata.name == name)
    if not found:
        if readable and any(target.metadata.name == name for target in there):
            message = (
                f"SyncTarget {name} in namespace {home} does not allow {namespace}: add {namespace} to its"
                " allowedNamespaces"
            )
            raise NotResolved("SyncTargetNotAllowed", message)
        if home == namespace:
            message = f"there is no SyncTarget {name} in namespace {home}: create it, or correct syncTargetRef"
        else:
            message = (
                f"there is no SyncTarget {name} in namespace {home} that allows {namespace}: correct syncTargetRef, or"
                f" ask its owner to add {namespace} to its allowedNamespaces"
            )
        raise NotResolved("SyncTargetNotFound", message)
    return found


def no_target(connection: ClusterConnection, namespace: str) -> str:
    """Return the message that a selector selects no SyncTarget, without SyncTargets that do not allow the namespace."""
    home = connection.sync_target_namespace or namespace
    allows = "" if home == namespace else f" that allows {namespace}"
    return f"no SyncTarget in namespace {home}{allows} has the labels {selector_words(connection.selector)}"


async def resolve(
    connection: ClusterConnection,
    namespace: str,
    *,
    read_secret: ReadSecret,
    targets: Iterable[SyncTarget] = (),
    readable: bool = False,
    read_target_secret: ReadSecret | None = None,
    allow_loopback: bool = False,
) -> Resolved:
    """Return the only cluster that a connection selects, for an object in `namespace`.

    `read_secret` acts for that object and can use an impersonated client. `read_target_secret` reads the Secret of a
    SyncTarget as the operator: a sync that can use a SyncTarget does not need the right to read its Secret. `readable`
    is as for `targets_of`. Raises `NotResolved` and the errors of a read. For a selector, see `targets_of` and
    `resolve_target`.
    """
    if connection.type == "SyncTarget":
        found = targets_of(connection, namespace, targets, readable=readable)
        if len(found) != 1:
            raise NotResolved(
                "SyncTargetAmbiguous", f"the selector selects {len(found)} SyncTargets, not one: write syncTargetRef"
            )
        reader = read_target_secret or read_secret
        return await resolve_target(found[0], namespace, read_secret=reader, allow_loopback=allow_loopback)
    key, credentials = await _follow(connection, namespace, read_secret, allow_loopback=allow_loopback)
    return Resolved(key=key, name=key.name, credentials=credentials)


async def resolve_target(
    target: SyncTarget, namespace: str, *, read_secret: ReadSecret, allow_loopback: bool = False
) -> Resolved:
    """Return the cluster of a SyncTarget, for a sync in `namespace`, which the SyncTarget must allow."""
    meta = target.metadata
    if not may_use(target, namespace):
        raise NotResolved("SyncTargetNotFound", f"there is no SyncTarget {meta.name} for namespace {namespace}")
    try:
        _, credentials = await _follow(
            target.spec.connection, meta.namespace, read_secret, allow_loopback=allow_loopback
        )
    except (ApiError, ConfigError):
        if namespace == meta.namespace:
            raise
        # The problem of a Secret in another namespace is shown only in that namespace.
        raise NotResolved(
            "SyncTargetNotReady",
            f"SyncTarget {meta.name} of namespace {meta.namespace} has no usable credential: see its status",
        ) from None
    key = MemberKey(meta.namespace, "SyncTarget", meta.name)
    return Resolved(key=key, name=meta.name, credentials=credentials, target=target)


def in_workspace(found: Resolved, workspace: str, *, allow_loopback: bool) -> Resolved:
    """Return the same credential for a workspace of its server: that of the server's address, or one below it.

    Raises `NotResolved` for a workspace that the address does not lead to.
    """
    connection = found.credentials.connection
    try:
        server = workspace_server(connection.server, workspace)
    except WorkspaceError as error:
        raise NotResolved("InvalidWorkspace", f"{found.credentials.origin}: {error}") from None
    credentials = validate(
        structs.replace(connection, server=server), found.credentials.origin, allow_loopback=allow_loopback
    )
    key = structs.replace(found.key, part=f"{found.key.part} {workspace}")
    return structs.replace(found, key=key, credentials=credentials)


def at_endpoint(
    found: Resolved,
    server: str,
    *,
    allow_loopback: bool,
    allow_host: Callable[[Resolved], bool],
    is_other: bool = False,
) -> Resolved:
    """Return the same credential for an address that the server reported: one of its own host.

    A user who can change the reported address would get the credential, or what it can read of another APIExport
    (`is_other`). So another host and another APIExport need `allow_host`. Raises `NotResolved`.
    """
    connection = found.credentials.connection
    credentials = validate(
        structs.replace(connection, server=server), found.credentials.origin, allow_loopback=allow_loopback
    )
    key = structs.replace(found.key, part=f"{found.key.part} {server}")
    moved = structs.replace(found, key=key, credentials=credentials)
    if not is_same_host(server, connection.server) and not allow_host(moved):
        host = urlsplit(server).netloc
        message = (
            f"the APIExport is served by {host}, which is another host than that of the credential, so the credential"
            f" is not sent there: use a kubeconfig for https://{host}, or have a TenantPolicy list it in"
            " clusters.servers"
        )
        raise NotResolved("EndpointNotAllowed", message)
    if is_other and not allow_host(moved):
        message = (
            f"the APIExportEndpointSlice names {server}, which is the address of an APIExport of another workspace, so"
            " the credential is not used there: correct upstream.apiExport, or have a TenantPolicy list the address in"
            " clusters.servers"
        )
        raise NotResolved("EndpointNotAllowed", message)
    return moved


async def _follow(
    connection: ClusterConnection, namespace: str, read_secret: ReadSecret, *, allow_loopback: bool
) -> tuple[MemberKey, Credentials]:
    """Read the Secret of a connection in `namespace`, and return its credential."""
    if connection.type == "KubeconfigSecret" and connection.kubeconfig_secret_ref is not None:
        ref = connection.kubeconfig_secret_ref
        secret = await _read(ref, namespace, read_secret)
        found, part = kubeconfig_connection(secret, ref.key), ref.key or ""
    elif connection.type == "ServiceAccountToken" and connection.service_account_token_ref and connection.server:
        ref = connection.service_account_token_ref
        secret = await _read(ref, namespace, read_secret)
        found = token_connection(secret, ref.key, connection.server, connection.ca_data)
        said = "\n".join((ref.key or "", connection.server, connection.ca_data or ""))
        part = hashlib.sha256(said.encode()).hexdigest()[:16]
    else:
        raise NotResolved(
            "InvalidSpec", f"the connection of type {connection.type} lacks a field, or is not allowed here: correct it"
        )
    return MemberKey(namespace, "Secret", ref.name, part), validate(found, secret.origin, allow_loopback=allow_loopback)


async def _read(ref: SecretKeyRef, namespace: str, read_secret: ReadSecret) -> SecretWire:
    try:
        return await read_secret(namespace, ref.name)
    except NotFound:
        raise NotResolved("SecretNotFound", f"there is no Secret {namespace}/{ref.name}: create it") from None
