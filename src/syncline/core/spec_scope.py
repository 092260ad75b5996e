"""The places that a spec selects for managed objects, in a form that can be recorded and evaluated later.

An object that is no longer wanted was removed *by an edit* of the spec, or by a change of the cluster or the source
(*derived*). Which of the two it was is decided for each object: the former scope and the new one are both evaluated
against the namespaces, labels and sources of today. An object that the former scope would still want, and that the new
one does not, is removed by the edit. All others are derived, whatever else was edited at the same time.
"""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct

from syncline.api.common import LabelSelector
from syncline.core.digest import short_digest
from syncline.core.group_kind import GroupKind
from syncline.core.scope import Namespace, Scope

OWN_CLUSTER = ""
"""The connection of the cluster that the sync is in."""


class NamespaceScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The namespaces of one cluster: exact names, globs and a label selector."""

    names: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    selector: LabelSelector | None = None

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return what the spec says; the namespaces that an operator protects are no part of the spec."""
        return cls(names=tuple(sorted(scope.names)), globs=tuple(sorted(scope.globs)), selector=scope.selector)

    def matches(self, namespace: Namespace, guarded: frozenset[str]) -> bool:
        """Whether a namespace is meant, as it is labelled now."""
        if namespace.name in self.names:
            return True
        return Scope(globs=self.globs, selector=self.selector, guarded=guarded).matches(namespace)


class ClusterSelector(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All SyncTargets of a namespace with these labels."""

    labels: LabelSelector
    namespace: str = ""

    @property
    def key(self) -> str:
        """Name the selector."""
        return short_digest("clusters", self.namespace, *_words(self.labels))


class ClusterScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cluster, or all that a selector means, and the namespaces there."""

    name: str = ""
    """What the spec calls the cluster."""
    connection: str = OWN_CLUSTER
    """Digest of how the cluster is reached; empty for the sync's own, and where a selector means several."""
    selector: ClusterSelector | None = None
    namespaces: NamespaceScope | None = None
    """None: the namespace of each source; of objects from Git: any."""


class SourceScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One source object, or all of a namespace that a selector means."""

    kind: str
    namespace: str
    name: str = ""
    selector: LabelSelector | None = None
    namespaces: LabelSelector | None = None
    """Of an upstream resource: the labels of its namespaces."""

    @property
    def key(self) -> str:
        """Name the selector."""
        words = _words(self.selector or LabelSelector())
        words += ["namespaces", *_words(self.namespaces)] if self.namespaces is not None else []
        return short_digest("sources", self.kind, self.namespace, *words)


class EnvironmentScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One environment of a sync that reads files: where they are, and the one namespace that all objects go to."""

    name: str = ""
    origin: str
    """Digest of the repositories and paths; the revision is no part of the scope."""
    namespace: str = ""


class ListedTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a list of objects that may be written."""

    kind: str
    """As the spec has it: `configmap`, `Deployment.apps`."""
    name: str
    namespace: str = ""


class SpecScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a spec wants objects. Copies have `sources` and a name; objects from files have `environments`."""

    clusters: tuple[ClusterScope, ...] = ()
    sources: tuple[SourceScope, ...] = ()
    name: str = ""
    """The name of copies; empty: that of the source."""
    template: bool = False
    """Whether the name is a template: then each target has a name of its own, which no change of a cluster changes."""
    environments: tuple[EnvironmentScope, ...] = ()
    targets: tuple[ListedTarget, ...] = ()
    layout: str = ""
    """Of a sync with an upstream: names how its namespaces are mapped and placed; each object has its own place."""


class ManagedObject(Struct, frozen=True, kw_only=True):
    """An object that a sync manages, with what decides whether a scope means it."""

    id: bytes
    """Names this very object, its UID included."""
    environment: str = ""
    connections: frozenset[str] = frozenset({OWN_CLUSTER})
    """Digests of all ways in which the sync reaches the cluster of the object."""
    cluster: str = ""
    """What the sync calls that cluster."""
    kind: str
    namespace: Namespace | None = None
    """None for a kind that has none."""
    name: str
    source: str = ""
    """The source that it was made from, as its marker has it: kind, namespace and name."""


class Today(Struct, frozen=True, kw_only=True):
    """What the cluster says now of the selectors of a scope, by their keys. What is missing selects nothing."""

    guarded: frozenset[str] = frozenset()
    """Namespaces that only an exact name reaches."""
    clusters: Mapping[str, frozenset[str]] = {}
    """The connections that a selector of SyncTargets means."""
    sources: Mapping[str, frozenset[str]] = {}
    """The sources that a selector means, as markers have them."""


def is_removed_by_edit(old: SpecScope, new: SpecScope, managed: ManagedObject, today: Today) -> bool:
    """Whether an unwanted object is unwanted because of the edit from the old scope to the new one."""
    before = [cluster for cluster in old.clusters if _is_in(cluster, managed, today, anywhere=bool(old.layout))]
    if not before or not _is_named(old, managed) or not _is_made(old, managed, today):
        return False
    if old.layout != new.layout:
        return True
    if not _is_made(new, managed, today) or _origin(old, managed) != _origin(new, managed):
        return True
    return not any(
        _is_in(cluster, managed, today, anywhere=bool(new.layout))
        and _is_still_named(old, new, managed, (former.name, cluster.name))
        for cluster in new.clusters
        for former in before
    )


def _is_in(cluster: ClusterScope, managed: ManagedObject, today: Today, *, anywhere: bool) -> bool:
    """Whether the cluster and the namespace of an object are meant; `anywhere`: all namespaces are."""
    if cluster.selector is not None:
        if managed.connections.isdisjoint(today.clusters.get(cluster.selector.key, frozenset())):
            return False
    elif cluster.connection not in managed.connections:
        return False
    if managed.namespace is None or anywhere:
        return True
    if cluster.namespaces is not None:
        return cluster.namespaces.matches(managed.namespace, today.guarded)
    return not managed.source or managed.source.split("/")[1:2] == [managed.namespace.name]


def _is_named(scope: SpecScope, managed: ManagedObject) -> bool:
    """Whether an object has the name that the scope gives to it."""
    if scope.template or not scope.sources:
        return True
    return managed.name == (scope.name or managed.source.rpartition("/")[2])


def _is_still_named(old: SpecScope, new: SpecScope, managed: ManagedObject, clusters: tuple[str, str]) -> bool:
    """Whether the new scope gives an object the name that it has; a template may use the name of the cluster."""
    if new.template:
        return old.name == new.name and clusters[0] == clusters[1]
    return _is_named(new, managed)


def _is_made(scope: SpecScope, managed: ManagedObject, today: Today) -> bool:
    """Whether the scope has the source, or the environment and the list entry, that an object comes from."""
    if scope.sources:
        return any(_is_source(source, managed.source, today) for source in scope.sources)
    environment = _environment(scope, managed)
    if environment is None:
        return False
    namespace = managed.namespace.name if managed.namespace is not None else ""
    if namespace and environment.namespace not in ("", namespace):
        return False
    return not scope.targets or any(
        _is_listed(target, managed, "" if environment.namespace else namespace) for target in scope.targets
    )


def _is_source(source: SourceScope, made_from: str, today: Today) -> bool:
    if source.selector is not None:
        return made_from in today.sources.get(source.key, frozenset())
    # A source of a kind without namespaces has none in markers, whatever the spec says.
    return made_from in (f"{source.kind}/{namespace}/{source.name}" for namespace in (source.namespace, ""))


def _is_listed(target: ListedTarget, managed: ManagedObject, namespace: str) -> bool:
    group, kind = GroupKind.parse(target.kind.lower())
    found_group, found = GroupKind.parse(managed.kind.lower())
    return (
        (kind, target.name) == (found, managed.name)
        and group in ("", found_group)
        and (not namespace or target.namespace in ("", namespace))
    )


def _environment(scope: SpecScope, managed: ManagedObject) -> EnvironmentScope | None:
    return next((one for one in scope.environments if one.name == managed.environment), None)


def _origin(scope: SpecScope, managed: ManagedObject) -> str:
    environment = _environment(scope, managed)
    return environment.origin if environment is not None else ""


def _words(selector: LabelSelector) -> list[str]:
    return [
        *(f"{key}={value}" for key, value in sorted(selector.match_labels.items())),
        *sorted(f"{r.key} {r.operator} {','.join(sorted(r.values))}" for r in selector.match_expressions),
    ]
