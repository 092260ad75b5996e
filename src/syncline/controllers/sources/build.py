"""Build of a revision: makes desired objects from the files of an environment.

One digest identifies all inputs. While it is the same, nothing is read, built or compared, whatever else was pushed.
"""

import asyncio
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from msgspec import Struct
from prometheus_client import Counter

from syncline.api.build import Helm, ValuesRef
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncTarget, Ignored
from syncline.controllers.errors import SourceError, SyncError
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources.field_lines import at_field_lines
from syncline.controllers.sources.git import source_error
from syncline.controllers.sources.references import ReferenceReader, Requester
from syncline.controllers.sources.tree import SourceTree
from syncline.controllers.tenancy import refuse
from syncline.core.desired import BuildArtifact, DesiredError, GroupVersionKind, compress, from_manifest
from syncline.core.digest import DigestKey, body_digest
from syncline.core.documents import DocumentError, read_document
from syncline.core.environments import EnvironmentSpec, SourceSpec, build_spec_digest, helm_values
from syncline.core.fielderrors import FieldError
from syncline.core.ignored_fields import PointerError
from syncline.core.manifest_errors import field_errors, group_of
from syncline.core.objects import Target
from syncline.core.patching import merge_patch
from syncline.core.placing import BuildOutput, Placed, Placement, ScopeOf, by_values, place
from syncline.engine.cluster import Cluster
from syncline.fairness import FairSemaphore
from syncline.git import GitError
from syncline.kube.errors import KindNotServed, KubeError
from syncline.programs import in_thread
from syncline.render.build_spec import BuildSpec, Built, Files
from syncline.render.errors import BuildError, RenderFailed
from syncline.render.inputs import inputs
from syncline.render.key_credentials import services_of
from syncline.render.tools import tool_versions
from syncline.render.validation import InvalidObject, Validation

Json = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
_NAMED = 5
# How long the version of a cluster is cached: upgrades are rare.
VERSION_TTL = 300.0
BUILDS_IN_MEMORY = 4
# The maximum size of all values that a sync reads from ConfigMaps and Secrets, as text. Parsed, they can take many
# times as much.
MAX_VALUES_BYTES = 2 * 1024 * 1024
# Values of the usual size do not wait. Only a few syncs at a time parse larger values.
SMALL_VALUES_BYTES = 64 * 1024
LARGE_VALUES = 4

BUILDS = Counter(
    "syncline_builds_total", "Number of builds of Git content. If no input has changed, there is no build."
)


class ManifestBuilder(Protocol):
    """Makes manifests from files."""

    def warm(self) -> None:
        """Get ready: something is to be built soon."""

    async def build(self, files: Files, recipe: BuildSpec) -> Built:
        """Build the manifests. Raises `BuildError` or `RenderFailed`."""

    async def validate(self, work: Validation) -> list[InvalidObject]:
        """Return the errors of objects. Raises `RenderFailed`."""

    async def field_lines(self, tenant: str, content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        """Return the line of each field of a file; 0 for a field that is not found. Raises `RenderFailed`."""


class BuildRequest(Struct, frozen=True, kw_only=True):
    """The request for one build: the environment, its sources, and its requester."""

    requester: Requester
    spec: ConfigSyncSpec
    environment: EnvironmentSpec
    force_report: bool = False
    """Whether the newest revision is reported even if it changes no input."""

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""
        helm = self.spec.build.helm or Helm()
        return helm.namespace or self.environment.namespace or self.requester.key.namespace


class _ValueText(Struct, frozen=True):
    """The values of an object, as text."""

    where: str
    kind: str
    text: bytes


ValueTexts = dict[ValuesRef, _ValueText | None]
"""The objects of `valuesFrom`; None for an optional object that does not exist."""


class _BuildValues(Struct, frozen=True, kw_only=True):
    """The inputs of a build that are not files."""

    values: Json
    helm: tuple[Json, ...]
    keys: Mapping[str, bytes] | None
    sensitive: bool
    kube_version: str
    """The version and APIs of the cluster, for charts; empty for a build without charts."""

    def contents(self) -> Json:
        """Return all inputs, for their digest."""
        keys = {name: value.hex() for name, value in (self.keys or {}).items()}
        return {"values": self.values, "helm": self.helm, "keys": keys, "kubernetes": self.kube_version}


class RevisionBuilder:
    """Builds for one environment after the other."""

    def __init__(self, hub: Cluster, references: ReferenceReader, builder: ManifestBuilder, quotas: Quotas) -> None:
        self._hub = hub
        self._references = references
        self._builder = builder
        self._quotas = quotas
        self._version = "", 0.0
        # Files are in memory until they are built: only a few builds run at a time, of more than one namespace.
        self._in_memory = FairSemaphore(BUILDS_IN_MEMORY, share=BUILDS_IN_MEMORY // 2)
        self._large_values = FairSemaphore(LARGE_VALUES, share=LARGE_VALUES // 2)
        self._threads = FairSemaphore(2, share=1)

    async def make(
        self, request: BuildRequest, source_tree: SourceTree, before: BuildArtifact | None, revision: str
    ) -> BuildArtifact:
        """Build an environment. Return the earlier artifact if no input has changed.

        Raises `SyncError`.
        """
        texts = await self._value_texts(request)
        # An object with two references is in memory twice.
        named = [texts[ref] for ref in _values_refs(request.spec)]
        size = sum(len(one.text) for one in named if one is not None)
        if size > MAX_VALUES_BYTES:
            most = MAX_VALUES_BYTES // 1024**2
            message = f"name fewer or smaller values: those of all valuesFrom have more than {most} MiB together"
            raise SyncError("InvalidValues", message, stalled=True)
        if size <= SMALL_VALUES_BYTES:
            return await self._make_with(texts, request, source_tree, before, revision)
        async with self._large_values.slot(request.requester.key.namespace):
            return await self._make_with(texts, request, source_tree, before, revision)

    async def _make_with(
        self,
        texts: ValueTexts,
        request: BuildRequest,
        source_tree: SourceTree,
        before: BuildArtifact | None,
        revision: str,
    ) -> BuildArtifact:
        values_read = await self._read_values(request, texts)
        said = [build_spec_digest(request.spec, request.environment), tool_versions()]
        recipe = body_digest({"said": said, **values_read.contents()}, self._hub.key)
        try:
            same = before is not None and before.recipe == recipe and inputs_unchanged(before, source_tree)
            if before is not None and same and not await self._scope_changed(before):
                return before
            return await self._make(request, source_tree, values_read, recipe, revision)
        except GitError as error:
            raise source_error(error) from error
        except BuildError as error:
            raise _missing_path(request, source_tree) or SourceError("BuildFailed", str(error)) from error
        except RenderFailed as error:
            retry = not error.retry_after
            raise SourceError("RenderFailed", str(error), again=error.retry_after or None, retry=retry) from error

    async def _make(
        self, request: BuildRequest, source_tree: SourceTree, values_read: _BuildValues, recipe: str, revision: str
    ) -> BuildArtifact:
        spec = request.spec
        builds: list[BuildOutput] = []
        notes: list[str] = []
        paths: dict[str, str] = {}
        for values, listed in by_values(spec.targets):
            for source in request.environment.sources:
                how = _build_spec(request, source, values_read, values, listed)
                self._quotas.admit_build(request.requester.key.namespace)
                async with self._in_memory.slot(request.requester.key.namespace):
                    needs = await inputs(source_tree, how)
                    paths |= {path: source_tree.digest(path) for path in needs}
                    BUILDS.inc()
                    built = await self._builder.build(await source_tree.files(needs), how)
                notes += built.notes
                builds.append(BuildOutput(built.documents, built.data, listed))
        scopes = await self._scopes(builds)
        tenant = request.requester.key.namespace
        placement = await self._in_thread(
            tenant, place, builds, namespace=request.namespace, forced=request.environment.namespace, scope=scopes
        )
        await self._refuse(placement, source_tree, tenant)
        if spec.validation != "None":
            await self._refuse_wrong_fields(placement, source_tree, tenant)
        notes += [*placement.notes, *map(str, placement.unplaced)]
        try:
            compressed = await self._in_thread(
                tenant, _compressed, placement, spec.ignore_differences, self._hub.key, revision
            )
        except (DesiredError, PointerError) as error:
            raise SourceError("InvalidManifest", str(error)) from error
        return BuildArtifact(
            recipe=recipe,
            paths=paths,
            inputs=body_digest({"recipe": recipe, "paths": paths}, self._hub.key),
            compressed=compressed,
            notes=tuple(dict.fromkeys(notes)),
            unserved_kinds=tuple({_kind_of(placed.manifest) for placed in placement.objects if not placed.served}),
        )

    async def _in_thread(self, tenant: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do work that grows with a repository in a thread, so that it blocks nobody else."""
        async with self._threads.slot(tenant):
            return await in_thread(work, *args, **kwargs)

    async def _refuse(self, placement: Placement, source_tree: SourceTree, tenant: str) -> None:
        """Refuse an invalid result, and an empty one, which is suspicious."""
        if placement.errors:
            fields = [(error, *placement.fields[error]) for error in placement.errors if error in placement.fields]
            located = [(origin, FieldError(path, "")) for _, origin, path in fields]
            places = await at_field_lines(self._builder, source_tree, tenant, located)
            located_errors = {
                error: f"{place}{error.removeprefix(origin)}"
                for (error, origin, _), place in zip(fields, places, strict=True)
            }
            raise SourceError(
                "InvalidManifest", _first_few([located_errors.get(error, error) for error in placement.errors])
            )
        if not placement.objects:
            said = f": {placement.unplaced[0]}" if placement.unplaced else ""
            message = (
                f"the source has no objects{said}; the written objects stay: check path and "
                "targets, or delete the sync to have it removed"
            )
            raise SourceError("EmptySource", message)

    async def _refuse_wrong_fields(self, placement: Placement, source_tree: SourceTree, tenant: str) -> None:
        """Refuse objects that no cluster accepts. Each cluster validates the others before the first write there."""
        found = await self._in_thread(tenant, _wrong_fields, placement)
        if found:
            errors = [(placed.origin, error) for placed, error in found]
            places = await at_field_lines(self._builder, source_tree, tenant, errors)
            named = zip(places, found, strict=True)
            listed = _first_few([f"{place}: {placed.target}: {error}" for place, (placed, error) in named])
            raise SourceError("InvalidManifest", listed)

    async def _value_texts(self, request: BuildRequest) -> ValueTexts:
        """Read the values that the spec refers to, each once."""
        requester, spec = request.requester, request.spec
        texts: ValueTexts = {}
        for what, refs in (
            ("template.valuesFrom", spec.template.values_from),
            ("build.helm.valuesFrom", helm_values(spec.build)),
        ):
            for ref in refs:
                if ref not in texts:
                    texts[ref] = await self._value_text(requester, ref, what)
        return texts

    async def _read_values(self, request: BuildRequest, texts: ValueTexts) -> _BuildValues:
        requester, spec, environment = request.requester, request.spec, request.environment
        values: Json = {}
        for ref in spec.template.values_from:
            values = merge_patch(values, await _parsed(texts[ref]))
        values = merge_patch(merge_patch(values, spec.template.values), environment.values)
        charts = [await _parsed(texts[ref]) for ref in helm_values(spec.build)]
        if spec.build.helm is not None:
            charts.append(spec.build.helm.values)
        keys = None
        if spec.decryption is not None:
            target = Target(requester.key.namespace, spec.decryption.secret_ref.name, "Secret")
            keys = (await self._references.get(requester, target, "decryption.secretRef")).data
            for service, address in services_of(keys):
                refuse(requester.limits.key_service(service, address))
        secret_source = any(
            source.object is not None and source.object.kind == "Secret" for source in environment.sources
        )
        return _BuildValues(
            values=values,
            helm=(*charts, dict(environment.values)),
            keys=keys,
            sensitive=secret_source or any(ref.kind == "Secret" for ref in _values_refs(spec)),
            kube_version=await self._kube_version() if spec.build.type in ("Auto", "Helm") else "",
        )

    async def _kube_version(self) -> str:
        version, until = self._version
        if time.monotonic() > until:
            try:
                version = await self._hub.client.version()
            except KubeError as error:
                raise SyncError("Unreachable", f"cannot ask for the server's version: {error}", retry=True) from error
            self._version = version, time.monotonic() + VERSION_TTL
        return version

    async def _value_text(self, requester: Requester, ref: ValuesRef, what: str) -> _ValueText | None:
        target = Target(requester.key.namespace, ref.name, ref.kind)
        held = await self._references.get_or_none(requester, target, what)
        text = held.data.get(ref.key) if held is not None else None
        where = f"key {ref.key} of {ref.kind} {ref.name} in {requester.key.namespace}, which {what} names,"
        if text is None:
            if ref.optional:
                return None
            raise SyncError("ReferenceNotFound", f"the {where} does not exist: create it, or set optional: true")
        return _ValueText(where, ref.kind, text)

    async def _scope_changed(self, artifact: BuildArtifact) -> bool:
        """Whether a kind that was not served at the build is cluster-scoped, as discovery shows now."""
        return any([await self._namespaced(*kind) is False for kind in artifact.unserved_kinds])

    async def _scopes(self, builds: Sequence[BuildOutput]) -> ScopeOf:
        """Find out once for each kind whether it is namespaced."""
        known: dict[GroupVersionKind, bool | None] = {}
        for build in builds:
            for document in build.documents:
                if not isinstance(document.manifest.get("kind"), str):
                    continue
                request = _kind_of(document.manifest)
                if request not in known:
                    known[request] = await self._namespaced(*request)
        return lambda group, version, kind: known.get((group, version, kind))

    async def _namespaced(self, group: str, version: str, kind: str) -> bool | None:
        try:
            return (await self._hub.discovery.find(group, kind, version)).namespaced
        except KindNotServed:
            return None
        except KubeError as error:
            raise SyncError("Unreachable", f"cannot ask for the kinds that are served: {error}", retry=True) from error


def _values_refs(spec: ConfigSyncSpec) -> tuple[ValuesRef, ...]:
    return (*spec.template.values_from, *helm_values(spec.build))


async def _parsed(values: _ValueText | None) -> Json:
    """Parse values. Raises `SyncError`."""
    if values is None:
        return {}
    try:
        # In a thread: a megabyte takes seconds, which must not block the event loop.
        found = await asyncio.to_thread(read_document, values.text.decode())
    except (DocumentError, UnicodeDecodeError) as error:
        said = "cannot be read as YAML" if values.kind == "Secret" else f"cannot be read: {error}"
        raise SyncError("InvalidValues", f"the {values.where} {said}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SyncError("InvalidValues", f"the {values.where} must be a map of values, such as `replicas: 3`")
    return found


def _build_spec(
    request: BuildRequest,
    source: SourceSpec,
    values_read: _BuildValues,
    values: Mapping[str, Any],
    listed: Sequence[ConfigSyncTarget],
) -> BuildSpec:
    requester, spec, environment = request.requester, request.spec, request.environment
    helm = spec.build.helm or Helm()
    only = listed[0] if len(listed) == 1 else None
    return BuildSpec(
        namespace=request.namespace,
        release=helm.release_name or requester.key.name,
        tenant=requester.key.namespace,
        path=_path(source),
        build=spec.build,
        template=spec.template.enabled,
        values=merge_patch(values_read.values, values),
        variables={
            "source": {
                "name": source.folder,
                "path": source.path,
                "repo": source.git.repo if source.git else "",
                "revision": source.git.revision if source.git else "",
            },
            "environment": {"name": environment.name, "namespace": environment.namespace or ""},
            "sync": {"name": requester.key.name, "namespace": requester.key.namespace},
            "target": {"name": only.name, "namespace": only.namespace or "", "type": only.type} if only else {},
        },
        helm_values=values_read.helm,
        keys=values_read.keys,
        sensitive=values_read.sensitive,
        kube_version=values_read.kube_version,
    )


def _wrong_fields(placement: Placement) -> list[tuple[Placed, FieldError]]:
    return [(placed, error) for placed in placement.objects for error in field_errors(placed.manifest)]


def _compressed(placement: Placement, ignored: Sequence[Ignored], key: DigestKey, revision: str) -> bytes:
    return compress([from_manifest(placed, ignored, key, revision) for placed in placement.objects])


def _kind_of(manifest: Json) -> GroupVersionKind:
    version = str(manifest.get("apiVersion") or "").rpartition("/")[2]
    return group_of(manifest), version, str(manifest["kind"])


def inputs_unchanged(before: BuildArtifact, source_tree: SourceTree) -> bool:
    """Whether the files of a build are still the same."""
    return all(source_tree.digest(path) == digest for path, digest in before.paths.items())


def _missing_path(request: BuildRequest, source_tree: SourceTree) -> SourceError | None:
    """Return the error of a path that its source does not have, with the commit."""
    for source in request.environment.sources:
        path = _path(source)
        if not source_tree.is_missing(path):
            continue
        commit = source_tree.commit(path)
        where = f"commit {commit[:12]}" if commit else "the source"
        message = f"{where} has no file or folder {source.path!r}: push it, or correct source.git.path"
        return SourceError("PathNotFound", message)
    return None


def _path(source: SourceSpec) -> str:
    """Return the built path, from the root of all sources."""
    return posixpath.normpath(posixpath.join(source.folder, source.path))


def _first_few(errors: Sequence[str]) -> str:
    rest = len(errors) - _NAMED
    return "; ".join(errors[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")
