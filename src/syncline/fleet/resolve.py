"""From what a sync says about a cluster to a credential: the one place where such references are followed.

A Secret is of the namespace of whoever names it: a sync's own, or a SyncTarget's own. A SyncTarget is of the sync's
namespace, or of one that the sync names and that allows the sync's; of others it is not even said that they exist.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from syncline.api.connection import ClusterConnection, SecretKeyRef
from syncline.api.synctarget import SyncTarget
from syncline.core.selectors import glob_matches, selector_matches, selector_words
from syncline.fleet.credentials import Credentials, vet
from syncline.fleet.errors import NotResolved
from syncline.fleet.secrets import SecretWire, kubeconfig_connection, token_connection
from syncline.kube.errors import ApiError, ConfigError, NotFound

ReadSecret = Callable[[str, str], Awaitable[SecretWire]]
"""Reads the Secret of a namespace and name, with the rights of whoever asks. Raises what any read raises."""


class MemberKey(Struct, frozen=True, order=True):
    """What a credential is known by: whoever names the same thing means the same cluster."""

    namespace: str
    kind: str
    """SyncTarget, or Secret."""
    name: str
    part: str = ""
    """The key within the Secret and, for a token, what the sync says about the server."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Resolved(Struct, frozen=True, kw_only=True):
    """A cluster that may be used."""

    key: MemberKey
    name: str
    """For people: the name of the SyncTarget or Secret."""
    credentials: Credentials
    target: SyncTarget | None = None

    @property
    def unschedulable(self) -> bool:
        """Whether no sync may start to use it; those that do so already go on."""
        return self.target is not None and self.target.spec.unschedulable


def may_use(target: SyncTarget, namespace: str) -> bool:
    """Whether syncs of a namespace may use a SyncTarget: those of its own always, others where it allows them."""
    patterns = target.spec.allowed_namespaces
    return namespace == target.metadata.namespace or any(glob_matches(pattern, namespace) for pattern in patterns)


def targets_of(
    connection: ClusterConnection, namespace: str, targets: Iterable[SyncTarget], *, readable: bool = False
) -> tuple[SyncTarget, ...]:
    """Return the SyncTargets that a connection of a namespace means: one by name, or all with these labels.

    They are of that namespace, or of the one that the connection names. Nowhere else: a stranger's SyncTarget that
    allows everybody must not draw anybody's Secrets. Raises `NotResolved` for a name that leads to none. A selector may
    lead to none. `readable` says that whoever asks may read the `targets`: only then it is told that one exists which
    does not allow the namespace.
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
                f"have {namespace} added to its allowedNamespaces: SyncTarget {name} of namespace {home} excludes it"
            )
            raise NotResolved("SyncTargetNotAllowed", message)
        if home == namespace:
            message = f"there is no SyncTarget {name} in namespace {home}: create it, or correct syncTargetRef"
        else:
            message = (
                f"there is no SyncTarget {name} in namespace {home} that allows {namespace}: correct syncTargetRef, or "
                f"ask its owner to have {namespace} among its allowedNamespaces"
            )
        raise NotResolved("SyncTargetNotFound", message)
    return found


def no_target(connection: ClusterConnection, namespace: str) -> str:
    """Say that a selector means no SyncTarget; whether there are any that exclude the namespace is not told."""
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
    """Return the one cluster that a connection means, as an object of `namespace` says it.

    `read_secret` acts for that object: it may be an impersonated client. The Secret of a SyncTarget is read by
    `read_target_secret`, which acts for the operator: to be allowed to use a SyncTarget is not to be allowed to read
    its Secret. `readable` is as for `targets_of`. Raises `NotResolved`, and what a read raises. For a selector, see
    `targets_of` and `resolve_target`.
    """
    if connection.type == "SyncTarget":
        found = targets_of(connection, namespace, targets, readable=readable)
        if len(found) != 1:
            raise NotResolved("SyncTargetAmbiguous", f"the selector means {len(found)} SyncTargets, not one")
        reader = read_target_secret or read_secret
        return await resolve_target(found[0], namespace, read_secret=reader, allow_loopback=allow_loopback)
    key, credentials = await _follow(connection, namespace, read_secret, allow_loopback=allow_loopback)
    return Resolved(key=key, name=key.name, credentials=credentials)


async def resolve_target(
    target: SyncTarget, namespace: str, *, read_secret: ReadSecret, allow_loopback: bool = False
) -> Resolved:
    """Return the cluster of a SyncTarget, for a sync of `namespace`, which must be one that it allows."""
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
        # What is wrong with a Secret of another namespace is for those who may look there.
        raise NotResolved(
            "SyncTargetNotReady",
            f"SyncTarget {meta.name} of namespace {meta.namespace} has no usable credential; its status says why",
        ) from None
    key = MemberKey(meta.namespace, "SyncTarget", meta.name)
    return Resolved(key=key, name=meta.name, credentials=credentials, target=target)


async def _follow(
    connection: ClusterConnection, namespace: str, read_secret: ReadSecret, *, allow_loopback: bool
) -> tuple[MemberKey, Credentials]:
    """Read the Secret that a connection names, in `namespace`, and make a credential of it."""
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
        raise NotResolved("InvalidSpec", f"connection type {connection.type} lacks what it needs, or is not meant here")
    return MemberKey(namespace, "Secret", ref.name, part), vet(found, secret.origin, allow_loopback=allow_loopback)


async def _read(ref: SecretKeyRef, namespace: str, read_secret: ReadSecret) -> SecretWire:
    try:
        return await read_secret(namespace, ref.name)
    except NotFound:
        raise NotResolved("SecretNotFound", f"there is no Secret {namespace}/{ref.name}: create it") from None
