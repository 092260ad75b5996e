"""Environments of a ConfigSync: the spec of each, and its state by the status. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.build import Build, ValuesRef
from syncline.api.common import HistoryEntry
from syncline.api.configsync import (
    ConfigSyncSpec,
    ConfigSyncStatus,
    Environment,
    EnvironmentStatus,
    HeldRollback,
    SourceRevision,
)
from syncline.api.source import GitSource, Source
from syncline.core.digest import short_digest
from syncline.core.history import applied
from syncline.core.objects import Target
from syncline.core.revisions import (
    ActiveRollback,
    AppliedRevision,
    Decision,
    HeadRevision,
    RevisionHealth,
    RevisionState,
    decide,
)
from syncline.core.spec_scope import EnvironmentScope


class SourceSpec(Struct, frozen=True, kw_only=True):
    """One source of an environment: a repository, or an object; its files are in a folder, or at the root."""

    folder: str = ""
    git: GitSource | None = None
    object: Target | None = None

    @property
    def path(self) -> str:
        """The paths that are built."""
        return self.git.path if self.git is not None else "."

    def __str__(self) -> str:
        return self.git.repo if self.git is not None else f"{self.object}"


class EnvironmentSpec(Struct, frozen=True, kw_only=True):
    """The spec of one environment; `name` is empty for a sync without environments."""

    name: str = ""
    sources: tuple[SourceSpec, ...]
    namespace: str | None = None
    """The namespace of all objects of the environment, whatever they name."""
    values: Mapping[str, Any] = {}
    rollback: str | None = None

    @property
    def git(self) -> GitSource | None:
        """The repository of rollbacks, if there is only one."""
        return self.sources[0].git if len(self.sources) == 1 else None

    def scope(self) -> EnvironmentScope:
        """Return the scope of the spec. The revision is not part of it."""
        where = [f"{source.folder}={source}/{source.path}" for source in self.sources]
        return EnvironmentScope(name=self.name, origin=short_digest(*where), namespace=self.namespace or "")


class EnvironmentState(Struct, frozen=True, kw_only=True):
    """The state of an environment, from the status."""

    revision: str | None = None
    revisions: tuple[SourceRevision, ...] = ()
    inputs: str | None = None
    rollback: HeldRollback | None = None
    healthy: str | None = None
    history: tuple[HistoryEntry, ...] = ()


def environments_of(spec: ConfigSyncSpec, namespace: str) -> tuple[EnvironmentSpec, ...]:
    """Return the environments of a spec."""
    sources = tuple(_source_spec(source, namespace) for source in ([spec.source] if spec.source else spec.sources))
    if not spec.environments:
        return (EnvironmentSpec(sources=sources, rollback=spec.rollback.to if spec.rollback else None),)
    return tuple(_environment(one, sources) for one in spec.environments)


def removed_environments(spec: ConfigSyncSpec, status: ConfigSyncStatus) -> tuple[str, ...]:
    """Return the environments that may have written objects and are no longer in the spec."""
    now = {one.name for one in spec.environments} or {""}
    known = {"", *(one.name for one in status.environments)}
    return tuple(sorted(known - now))


def state_of(environment: EnvironmentSpec, status: ConfigSyncStatus) -> EnvironmentState:
    """Return the state of an environment."""
    found: ConfigSyncStatus | EnvironmentStatus | None = status
    if environment.name:
        found = next((one for one in status.environments if one.name == environment.name), None)
    if found is None:
        return EnvironmentState()
    return EnvironmentState(
        revision=found.source_revision,
        revisions=tuple(found.revisions),
        inputs=found.inputs,
        rollback=found.rollback,
        healthy=found.last_healthy_revision,
        history=tuple(found.history),
    )


def references(spec: ConfigSyncSpec, namespace: str) -> Iterator[Target]:
    """Yield the objects of the sync's namespace that a spec names: every change of them matters."""
    for source in [spec.source] if spec.source else spec.sources:
        yield from _source_references(source, namespace)
    for values in (*spec.template.values_from, *helm_values(spec.build)):
        yield Target(namespace, values.name, values.kind)
    secrets = [spec.decryption and spec.decryption.secret_ref.name, spec.webhook and spec.webhook.secret_ref.name]
    for remote in spec.remote_clusters:
        refs = (remote.connection.kubeconfig_secret_ref, remote.connection.service_account_token_ref)
        secrets += [ref.name for ref in refs if ref is not None]
    yield from (Target(namespace, name, "Secret") for name in secrets if name)


def build_inputs(spec: ConfigSyncSpec, namespace: str) -> Iterator[Target]:
    """Yield the objects of the sync's namespace that the manifests are built from."""
    for source in [spec.source] if spec.source else spec.sources:
        if source.config_map_ref is not None:
            yield Target(namespace, source.config_map_ref.name, "ConfigMap")
        if source.secret_ref is not None:
            yield Target(namespace, source.secret_ref.name, "Secret")
    for values in (*spec.template.values_from, *helm_values(spec.build)):
        yield Target(namespace, values.name, values.kind)


def _source_references(source: Source, namespace: str) -> Iterator[Target]:
    if source.git is not None:
        git = source.git
        refs = (git.auth and git.auth.secret_ref, git.ca_secret_ref, git.proxy_secret_ref)
        named = [ref.name for ref in (*refs, git.verify and git.verify.secret_ref) if ref]
        yield from (Target(namespace, name, "Secret") for name in named)
    elif (held := _source_spec(source, namespace).object) is not None:
        yield held


def helm_values(build: Build) -> tuple[ValuesRef, ...]:
    """Return the references to the values of a chart."""
    return tuple(build.helm.values_from) if build.helm is not None else ()


def build_spec_digest(spec: ConfigSyncSpec, environment: EnvironmentSpec) -> str:
    """Return the digest of all fields of a spec that affect a build."""
    parts = (
        spec.build,
        spec.template,
        spec.decryption,
        spec.targets,
        spec.ignore_differences,
        spec.validation,
        environment,
    )
    return short_digest(*(msgspec.json.encode(part, order="sorted").decode() for part in parts))


def _source_spec(source: Source, namespace: str) -> SourceSpec:
    folder = getattr(source, "name", "")
    if source.git is not None:
        return SourceSpec(folder=folder, git=source.git)
    if source.config_map_ref is not None:
        return SourceSpec(folder=folder, object=Target(namespace, source.config_map_ref.name))
    name = source.secret_ref.name if source.secret_ref is not None else ""
    return SourceSpec(folder=folder, object=Target(namespace, name, "Secret"))


def _environment(environment: Environment, sources: tuple[SourceSpec, ...]) -> EnvironmentSpec:
    changed = {
        field: value
        for field, value in (("path", environment.path), ("revision", environment.revision))
        if value is not None
    }
    if changed:
        sources = tuple(_changed(source, changed) for source in sources)
    return EnvironmentSpec(
        name=environment.name,
        sources=sources,
        namespace=environment.namespace,
        values=environment.values,
        rollback=environment.rollback.to if environment.rollback else None,
    )


def _changed(source: SourceSpec, fields: Mapping[str, str]) -> SourceSpec:
    return structs.replace(source, git=structs.replace(source.git, **fields)) if source.git is not None else source


def choose_revision(
    spec: ConfigSyncSpec,
    environment: EnvironmentSpec,
    recorded: EnvironmentState,
    head: HeadRevision,
    *,
    health: RevisionHealth,
    requested: bool,
) -> Decision:
    """Decide which revision an environment applies, given the health of the current one and a request for a sync."""
    rollback = (
        ActiveRollback(recorded.rollback.to, recorded.rollback.requested) if recorded.rollback is not None else None
    )
    return decide(
        RevisionState(
            head=head,
            rollback_to=environment.rollback,
            active_rollback=rollback,
            history=[_applied_revision(entry, spec) for entry in applied(recorded.history)],
            current=recorded.revision,
            health=health,
            last_healthy=recorded.healthy,
            policy=spec.failure_policy,
            requested=requested,
        )
    )


def _applied_revision(entry: HistoryEntry, spec: ConfigSyncSpec) -> AppliedRevision:
    healthy = None
    if spec.wait:
        healthy = True if entry.result == "Synced" else False if entry.result == "Failed" else None
    return AppliedRevision(entry.revision, healthy)
