"""The places that a spec selects for managed objects, in a form that can be recorded and evaluated later.

An unwanted object was removed *by an edit* of the spec, or by a change of the cluster or the source (*derived*). This
is decided for each object: the former and the new scope are both evaluated with the present namespaces, labels and
sources. An object that the former scope still wants, and the new one does not, is removed by the edit. All others are
derived, whatever else was edited at the same time.
"""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct

from syncline.api.common import LabelSelector
from syncline.core.digest import short_digest
from syncline.core.group_kind import GroupKind
from syncline.core.scope import Namespace, Scope

OWN_CLUSTER = ""
"""The connection of the sync's own cluster."""


class NamespaceScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The namespaces of one cluster: exact names, globs and a label selector."""

    names: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    selector: LabelSelector | None = None

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the scope of the spec. Namespaces that the operator protects are not part of it."""
        return cls(names=tuple(sorted(scope.names)), globs=tuple(sorted(scope.globs)), selector=scope.selector)

    def matches(self, namespace: Namespace, guarded: frozenset[str]) -> bool:
        """Whether a namespace with its present labels is in the scope."""
        if namespace.name in self.names:
            return True
        return Scope(globs=self.globs, selector=self.selector, guarded=guarded).matches(namespace)


class ClusterSelector(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All SyncTargets of a namespace with these labels."""

    labels: LabelSelector
    namespace: str = ""

    @property
    def key(self) -> str:
        """Return the key of the selector."""
        return short_digest("clusters", self.namespace, *_words(self.labels))


class ClusterScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cluster, or all clusters of a selector, and the namespaces there."""

    name: str = ""
    """The name of the cluster in the spec."""
    connection: str = OWN_CLUSTER
    """The digest of the connection; empty for the sync's own cluster, and for a selector."""
    selector: ClusterSelector | None = None
    namespaces: NamespaceScope | None = None
    """None: the namespace of each source; for objects from Git: any namespace."""


class SourceScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One source object, or all objects of a namespace that a selector matches."""

    kind: str
    namespace: str
    name: str = ""
    selector: LabelSelector | None = None
    namespaces: LabelSelector | None = None
    """For an upstream resource: the labels of its namespaces."""

    @property
    def key(self) -> str:
        """Return the key of the selector."""
        words = _words(self.selector or LabelSelector())
        words += ["namespaces", *_words(self.namespaces)] if self.namespaces is not None else []
        return short_digest("sources", self.kind, self.namespace, *words)


class EnvironmentScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One environment of a sync that reads files: their location, and the forced namespace of all objects."""

    name: str = ""
    origin: str
    """The digest of the repositories and paths; the revision is not part of the scope."""
    namespace: str = ""


class ListedTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a list of objects that may be written."""

    kind: str
    """As in the spec: `configmap`, `Deployment.apps`."""
    name: str
    namespace: str = ""


class SpecScope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The targets of a spec. Copies have `sources` and a name; objects from files have `environments`."""

    clusters: tuple[ClusterScope, ...] = ()
    sources: tuple[SourceScope, ...] = ()
    name: str = ""
    """The name of copies; empty: the name of the source."""
    template: bool = False
    """Whether the name is a template: then each target has its own name, which changes of a cluster do not affect."""
    environments: tuple[EnvironmentScope, ...] = ()
    targets: tuple[ListedTarget, ...] = ()
    layout: str = ""
    """For a sync with an upstream: the digest of the mapping and placement of its namespaces."""


class ManagedObject(Struct, frozen=True, kw_only=True):
    """A managed object, with everything that decides whether a scope wants it."""

    id: bytes
    """The identifier of exactly this object, with its UID."""
    environment: str = ""
    connections: frozenset[str] = frozenset({OWN_CLUSTER})
    """The digests of all connections of the sync to the cluster of the object."""
    cluster: str = ""
    """The name of that cluster in the sync."""
    kind: str
    namespace: Namespace | None = None
    """The namespace; None for a cluster-scoped kind."""
    name: str
    source: str = ""
    """Its source, as in its marker: kind, namespace and name."""


class Today(Struct, frozen=True, kw_only=True):
    """The present matches of the selectors of a scope, by their keys. A missing selector matches nothing."""

    guarded: frozenset[str] = frozenset()
    """Namespaces that a sync must name exactly."""
    clusters: Mapping[str, frozenset[str]] = {}
    """The connections to the SyncTargets that a selector matches."""
    sources: Mapping[str, frozenset[str]] = {}
    """The sources that a selector matches, as in markers."""


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
    """Whether the cluster and the namespace of an object are in the scope; `anywhere`: in all namespaces."""
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
    """Whether an object has the name that the scope gives it."""
    if scope.template or not scope.sources:
        return True
    return managed.name == (scope.name or managed.source.rpartition("/")[2])


def _is_still_named(old: SpecScope, new: SpecScope, managed: ManagedObject, clusters: tuple[str, str]) -> bool:
    """Whether the new scope gives an object its present name. A template may use the name of the cluster."""
    if new.template:
        return old.name == new.name and clusters[0] == clusters[1]
    return _is_named(new, managed)


def _is_made(scope: SpecScope, managed: ManagedObject, today: Today) -> bool:
    """Whether the scope has the source, or the environment and the list entry, of an object."""
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
    # A source of a cluster-scoped kind has no namespace in markers, whatever the spec says.
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
