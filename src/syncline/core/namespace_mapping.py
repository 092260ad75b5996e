"""The downstream namespace of an upstream namespace, and the address of a workspace.

    downstream_namespace(NamespaceRule(prefix="team-"), UpstreamNamespace("shop")) == "team-shop"

One function maps names, for create, update and delete alike. `resolve_namespaces` maps a whole set: if two namespaces
map to the same name, the recorded one keeps it. `resolve_objects` does the same for objects that share a fixed
namespace.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from msgspec import Struct

from syncline.core.digest import short_digest
from syncline.core.placeholders import TemplateError, fill
from syncline.core.selectors import glob_matches

LONGEST_NAME = 63
LONGEST_WORKSPACE = 1024

_HASH = 10
_CLUSTERS = "/clusters/"
_is_label = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?").fullmatch
_is_workspace = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?::[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*").fullmatch


class NamespaceMappingError(Exception):
    """A namespace has no name downstream; the message has the remedy."""


class WorkspaceError(Exception):
    """A workspace cannot be reached through a server; the message has the remedy."""


class Workspace(NamedTuple):
    """The workspace of a namespace; all fields are empty if the upstream is a plain cluster."""

    path: str = ""
    """Such as `root:team`."""
    name: str = ""
    """The last part of the path."""
    cluster: str = ""
    """The name of the logical cluster, of several workspaces; records and marks contain it."""
    only: str = ""
    """The name of the logical cluster of a single workspace: for templates only."""

    @property
    def logical_cluster(self) -> str:
        """The name of the logical cluster."""
        return self.cluster or self.only


NO_WORKSPACE = Workspace()


class UpstreamNamespace(NamedTuple):
    """A namespace of the upstream."""

    name: str
    workspace: Workspace = NO_WORKSPACE

    @property
    def key(self) -> str:
        """Its name in records: with the logical cluster, if any, because a path can later name another workspace."""
        return f"{self.workspace.cluster}/{self.name}" if self.workspace.cluster else self.name

    def __str__(self) -> str:
        place = self.workspace.path or self.workspace.cluster
        return f"{self.name} of workspace {place}" if place else self.name


class NamespaceRule(Struct, frozen=True, kw_only=True):
    """The rule for downstream names: one of these, or else the upstream name."""

    prefix: str = ""
    template: str = ""
    fixed: str = ""


class NamespaceDecision(Struct, frozen=True, kw_only=True):
    """The downstream names of a set of namespaces, by `UpstreamNamespace.key`."""

    names: Mapping[str, str]
    refused: Mapping[str, str]
    """The causes for namespaces without a name."""


class SharedObject(NamedTuple):
    """An object in a namespace that several upstream namespaces share."""

    kind: str
    name: str


class ObjectDecision(Struct, frozen=True, kw_only=True):
    """The upstream namespace of each shared object."""

    owners: Mapping[SharedObject, str]
    refused: Mapping[tuple[SharedObject, str], str]
    """The causes for the other objects, by object and upstream namespace."""


def downstream_namespace(rule: NamespaceRule, namespace: UpstreamNamespace) -> str:
    """Return the name of the downstream namespace, at most 63 characters. Raises `NamespaceMappingError`."""
    if rule.fixed:
        return _checked(rule.fixed, "mapping.fixed")
    if rule.template:
        return _checked(_from_template(rule.template, namespace), f"mapping.template gives namespace {namespace}")
    return _checked(rule.prefix + namespace.name, f"mapping.prefix gives namespace {namespace}")


def resolve_namespaces(
    rule: NamespaceRule,
    namespaces: Iterable[UpstreamNamespace],
    recorded: Mapping[str, str],
    guarded: frozenset[str] = frozenset(),
) -> NamespaceDecision:
    """Name a set of namespaces. `recorded` holds earlier names by `UpstreamNamespace.key`.

    A recorded namespace keeps its name from others until the record is dropped, because its copies can still be
    there. Of unrecorded namespaces, the first in the order of their keys gets the name. A fixed namespace is shared.
    `guarded` are names or globs that are never written, in addition to `kube-*`.
    """
    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    holders = {name: key for key, name in sorted(recorded.items(), reverse=True)}
    for namespace in sorted(set(namespaces), key=lambda one: (recorded.get(one.key) is None, one.key)):
        try:
            name = downstream_namespace(rule, namespace)
        except NamespaceMappingError as error:
            refused[namespace.key] = str(error)
            continue
        if why := guarded_reason(name, guarded):
            refused[namespace.key] = why
        elif not rule.fixed and (holder := holders.setdefault(name, namespace.key)) != namespace.key:
            refused[namespace.key] = (
                f"namespace {namespace} comes to the downstream namespace {name}, which holds the copies of {holder}:"
                " rename one of them, or use {{ namespace }} and {{ workspace.cluster }} in mapping.template"
            )
        else:
            names[namespace.key] = name
    return NamespaceDecision(names=names, refused=refused)


def resolve_objects(
    objects: Iterable[tuple[SharedObject, str]], recorded: Mapping[SharedObject, str]
) -> ObjectDecision:
    """Choose, for each object of a fixed namespace, the upstream namespace (by its key) that it comes from.

    The recorded upstream namespace keeps an object until the record is dropped. Otherwise it is the first one in the
    order of the keys.
    """
    owners: dict[SharedObject, str] = {}
    refused: dict[tuple[SharedObject, str], str] = {}
    holders = dict(recorded)
    for shared, namespace in sorted(set(objects)):
        holder = holders.setdefault(shared, namespace)
        if holder == namespace:
            owners[shared] = namespace
        else:
            refused[shared, namespace] = (
                f"{shared.kind} {shared.name} of namespace {namespace} has the name of a copy from {holder} in the"
                " fixed namespace: rename one of them, or use mapping.prefix"
            )
    return ObjectDecision(owners=owners, refused=refused)


def guarded_reason(name: str, guarded: frozenset[str]) -> str:
    """Return why a downstream namespace is never written; empty if it can be."""
    if name.startswith("kube-"):
        return f"namespace {name} belongs to the cluster: write a mapping that gives another name"
    if any(glob_matches(guard, name) for guard in guarded):
        return f"namespace {name} is guarded by the operator: write a mapping that gives another name"
    return ""


def check_workspace(workspace: str) -> str:
    """Return the path of a workspace. Raises `WorkspaceError` if it is not valid."""
    if not _is_workspace(workspace) or len(workspace) > LONGEST_WORKSPACE:
        raise WorkspaceError(
            f"{workspace[:LONGEST_NAME]!r} is not the path of a workspace: write names of lowercase letters, digits"
            ' and "-", joined by ":", such as root:team'
        )
    return workspace


def workspace_server(server: str, workspace: str) -> str:
    """Return the address of a workspace, from the address of a server. Raises `WorkspaceError`.

    The path `/clusters/X` of the server is replaced if the workspace is X or below X. A server without any path is
    the base of all workspaces.
    """
    check_workspace(workspace)
    url = urlsplit(server)
    if url.query or url.fragment or not url.netloc:
        raise WorkspaceError("the server of the kubeconfig is not a plain address: write https://HOST/clusters/NAME")
    before, found, own = url.path.rstrip("/").rpartition(_CLUSTERS)
    if not found:
        if url.path.rstrip("/"):
            raise WorkspaceError(
                f"the server of the kubeconfig has the path {url.path}, which names no workspace: write a server that"
                f" ends with /clusters/{workspace}"
            )
        return _with_path(url, f"{_CLUSTERS}{workspace}")
    own = unquote(own)
    if not _is_workspace(own) or f"{workspace}:".removeprefix(f"{own}:") == f"{workspace}:":
        raise WorkspaceError(
            f"workspace {workspace} is not {own} or below it, and the kubeconfig is for {own}: name a workspace at or"
            " below it, or use a kubeconfig of another workspace"
        )
    return _with_path(url, f"{before}{_CLUSTERS}{workspace}")


def server_workspace(server: str) -> str:
    """Return the workspace or logical cluster that the address of a server names; empty where it names none."""
    _, found, own = urlsplit(server).path.rstrip("/").rpartition(_CLUSTERS)
    own = unquote(own)
    return own if found and _is_workspace(own) else ""


def _with_path(url: SplitResult, path: str) -> str:
    return urlunsplit((url.scheme, url.netloc, path, "", ""))


def _from_template(template: str, namespace: UpstreamNamespace) -> str:
    workspace = namespace.workspace
    variables = {
        "namespace": namespace.name,
        "workspace.path": workspace.path.replace(":", "-"),
        "workspace.name": workspace.name,
        "workspace.cluster": workspace.logical_cluster,
    }
    try:
        return fill(template, variables)
    except TemplateError as error:
        raise NamespaceMappingError(f"mapping.template: {error}") from None


def _checked(name: str, where: str) -> str:
    if not _is_label(name):
        raise NamespaceMappingError(
            f"{where} the name {name[: LONGEST_NAME + 1]!r}, which is not a DNS label: a name has lowercase letters,"
            ' digits and "-" inside'
        )
    if len(name) <= LONGEST_NAME:
        return name
    kept = name[: LONGEST_NAME - _HASH - 1].rstrip("-")
    return f"{kept}-{short_digest(name)[:_HASH]}"
