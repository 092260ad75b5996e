"""From the files of a track to what each target should hold: read, build, place, wish.

One digest names all that goes in. While it is the same, nothing is read, built or compared, whatever else was pushed.
"""

import asyncio
import posixpath
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from prometheus_client import Counter

from syncline.api.build import Helm, ValuesRef
from syncline.api.configsync import ConfigSyncSpec
from syncline.api.configsync import Target as Listed
from syncline.controllers.field_lines import at_field_lines
from syncline.controllers.forest import Forest
from syncline.controllers.origins import SourceProblem, source_problem
from syncline.controllers.quotas import Quotas
from syncline.controllers.references import Asking, References
from syncline.controllers.reporting import Problem
from syncline.controllers.tenancy import refuse
from syncline.controllers.tracks import Strand, Track, helm_values, recipe_digest
from syncline.controllers.wishes import InvalidManifest, wish
from syncline.core.digest import body_digest
from syncline.core.documents import DocumentError, read_document
from syncline.core.fielderrors import FieldError
from syncline.core.ignoring import PointerError
from syncline.core.objects import Desired, Target
from syncline.core.patching import merge_patch
from syncline.core.placing import Build, Placement, ScopeOf, by_values, place
from syncline.core.shape import field_errors, group_of
from syncline.engine.cluster import Cluster
from syncline.fairness import FairSemaphore
from syncline.git import GitError
from syncline.kube.errors import KindNotServed, KubeError
from syncline.render.build_spec import BuildSpec, Built, Files
from syncline.render.errors import BuildError, RenderFailed
from syncline.render.inputs import inputs
from syncline.render.key_credentials import services_of
from syncline.render.tools import tool_versions
from syncline.render.validation import InvalidObject, Validation

Json = dict[str, Any]
GroupVersionKind = tuple[str, str, str]
_NAMED = 5
# A cluster is upgraded seldom: so long its version counts.
VERSION_LASTS = 300.0
BUILDS_IN_MEMORY = 4

BUILDS = Counter("syncline_builds_total", "Builds of what Git says; there is none where nothing that goes in changed.")


class Builder(Protocol):
    """Makes manifests of files."""

    def warm(self) -> None:
        """Get ready: something is to be built soon."""

    async def build(self, files: Files, recipe: BuildSpec) -> Built:
        """Build; raises `BuildError` or `RenderFailed`."""

    async def validate(self, work: Validation) -> list[InvalidObject]:
        """Return what is wrong with objects; raises `RenderFailed`."""

    async def field_lines(self, tenant: str, content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        """Return the line of each field of a file, 0 where it is not found; raises `RenderFailed`."""


class Commission(Struct, frozen=True, kw_only=True):
    """What is to be built, and for whom."""

    asking: Asking
    spec: ConfigSyncSpec
    track: Track
    telling: bool = False
    """Whether the newest revision is told even if nothing has changed with it."""

    @property
    def namespace(self) -> str:
        """Where objects go that name no namespace."""
        helm = self.spec.build.helm or Helm()
        return helm.namespace or self.track.namespace or self.asking.key.namespace


class Made(Struct, frozen=True, kw_only=True):
    """What was built last, packed, and what it was built from."""

    recipe: str
    """Names all that goes in beside files."""
    paths: Mapping[str, str]
    """The paths that the build depends on, with what names their content."""
    inputs: str
    """Names all that goes in."""
    packed: bytes
    notes: tuple[str, ...] = ()
    guessed: tuple[GroupVersionKind, ...] = ()
    """Kinds that were not served, and so are taken to be in namespaces."""

    def desired(self) -> list[Desired]:
        """Unpack what each target should hold."""
        return _decoder.decode(zlib.decompress(self.packed))


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Desired]] = msgspec.msgpack.Decoder(list[Desired])


class _Pantry(Struct, frozen=True, kw_only=True):
    """What goes into a build beside files."""

    values: Json
    helm: tuple[Json, ...]
    keys: Mapping[str, bytes] | None
    sensitive: bool
    kube_version: str
    """What charts are told; empty where there can be none."""

    def contents(self) -> Json:
        """Return all of it, to be digested."""
        keys = {name: value.hex() for name, value in (self.keys or {}).items()}
        return {"values": self.values, "helm": self.helm, "keys": keys, "kubernetes": self.kube_version}


class Builds:
    """Builds for one track after the other."""

    def __init__(self, hub: Cluster, references: References, builder: Builder, quotas: Quotas) -> None:
        self._hub = hub
        self._references = references
        self._builder = builder
        self._quotas = quotas
        self._version = "", 0.0
        # Files are in memory from when they are read until they are built: a few builds at a time, and not of one
        # namespace alone.
        self._in_memory = FairSemaphore(BUILDS_IN_MEMORY, share=BUILDS_IN_MEMORY // 2)

    def warm(self) -> None:
        """Get ready: something is to be built soon."""
        self._builder.warm()

    async def make(self, asked: Commission, forest: Forest, before: Made | None, revision: str) -> Made:
        """Build what a track wants; what was made before is returned as it is where nothing that went in has changed.

        Raises `Problem`.
        """
        pantry = await self._pantry(asked)
        said = [recipe_digest(asked.spec, asked.track), tool_versions()]
        recipe = body_digest({"said": said, **pantry.contents()}, self._hub.key)
        try:
            same = before is not None and before.recipe == recipe and is_same(before, forest)
            if before is not None and same and not await self._is_misplaced(before):
                return before
            return await self._make(asked, forest, pantry, recipe, revision)
        except GitError as error:
            raise source_problem(error) from error
        except BuildError as error:
            raise _missing_path(asked, forest) or SourceProblem("BuildFailed", str(error)) from error
        except RenderFailed as error:
            retry = not error.retry_after
            raise SourceProblem("RenderFailed", str(error), again=error.retry_after or None, retry=retry) from error

    async def _make(self, asked: Commission, forest: Forest, pantry: _Pantry, recipe: str, revision: str) -> Made:
        spec = asked.spec
        builds: list[Build] = []
        notes: list[str] = []
        paths: dict[str, str] = {}
        for values, listed in by_values(spec.targets):
            for strand in asked.track.strands:
                how = _recipe(asked, strand, pantry, values, listed)
                self._quotas.admit_build(asked.asking.key.namespace)
                async with self._in_memory.slot(asked.asking.key.namespace):
                    needs = await inputs(forest, how)
                    paths |= {path: forest.digest(path) for path in needs}
                    BUILDS.inc()
                    built = await self._builder.build(await forest.files(needs), how)
                notes += built.notes
                builds.append(Build(built.documents, built.data, listed))
        scopes = await self._scopes(builds)
        placement = place(builds, namespace=asked.namespace, forced=asked.track.namespace, scope=scopes)
        await self._refuse(placement, forest, asked.asking.key.namespace)
        if spec.validation != "None":
            await self._refuse_wrong_fields(placement, forest, asked.asking.key.namespace)
        notes += [*placement.notes, *map(str, placement.reported)]
        try:
            desired = [wish(placed, spec.ignore_differences, self._hub.key, revision) for placed in placement.objects]
        except (InvalidManifest, PointerError) as error:
            raise SourceProblem("InvalidManifest", str(error)) from error
        return Made(
            recipe=recipe,
            paths=paths,
            inputs=body_digest({"recipe": recipe, "paths": paths}, self._hub.key),
            packed=zlib.compress(_encoder.encode(desired), 1),
            notes=tuple(dict.fromkeys(notes)),
            guessed=tuple({_kind_of(placed.manifest) for placed in placement.objects if not placed.served}),
        )

    async def _refuse(self, placement: Placement, forest: Forest, tenant: str) -> None:
        """Refuse what is wrong, and what is suspiciously nothing at all."""
        if placement.errors:
            fields = [(error, *placement.fields[error]) for error in placement.errors if error in placement.fields]
            located = [(origin, FieldError(path, "")) for _, origin, path in fields]
            places = await at_field_lines(self._builder, forest, tenant, located)
            told = {
                error: f"{place}{error.removeprefix(origin)}"
                for (error, origin, _), place in zip(fields, places, strict=True)
            }
            raise SourceProblem("InvalidManifest", _listed([told.get(error, error) for error in placement.errors]))
        if not placement.objects:
            said = f": {placement.reported[0]}" if placement.reported else ""
            message = (
                f"the source comes to no object at all{said}; what was written before stays as it is: check path and "
                "targets, or delete the sync to have it removed"
            )
            raise SourceProblem("EmptySource", message)

    async def _refuse_wrong_fields(self, placement: Placement, forest: Forest, tenant: str) -> None:
        """Refuse what no cluster takes; what each cluster takes is asked before the first write there."""
        found = [(placed, error) for placed in placement.objects for error in field_errors(placed.manifest)]
        if found:
            errors = [(placed.origin, error) for placed, error in found]
            places = await at_field_lines(self._builder, forest, tenant, errors)
            named = zip(places, found, strict=True)
            listed = _listed([f"{place}: {placed.target}: {error}" for place, (placed, error) in named])
            raise SourceProblem("InvalidManifest", listed)

    async def _pantry(self, asked: Commission) -> _Pantry:
        asking, spec, track = asked.asking, asked.spec, asked.track
        values: Json = {}
        for ref in spec.template.values_from:
            values = merge_patch(values, await self._values(asking, ref, "template.valuesFrom"))
        values = merge_patch(merge_patch(values, spec.template.values), track.values)
        charts = [await self._values(asking, ref, "build.helm.valuesFrom") for ref in helm_values(spec.build)]
        if spec.build.helm is not None:
            charts.append(spec.build.helm.values)
        keys = None
        if spec.decryption is not None:
            target = Target(asking.key.namespace, spec.decryption.secret_ref.name, "Secret")
            keys = (await self._references.read(asking, target, "decryption.secretRef")).data
            for service, address in services_of(keys):
                refuse(asking.limits.key_service(service, address))
        refs = (*spec.template.values_from, *helm_values(spec.build))
        secret_source = any(strand.object is not None and strand.object.kind == "Secret" for strand in track.strands)
        return _Pantry(
            values=values,
            helm=(*charts, dict(track.values)),
            keys=keys,
            sensitive=secret_source or any(ref.kind == "Secret" for ref in refs),
            kube_version=await self._kube_version() if spec.build.type in ("Auto", "Helm") else "",
        )

    async def _kube_version(self) -> str:
        version, until = self._version
        if time.monotonic() > until:
            try:
                version = await self._hub.client.version()
            except KubeError as error:
                raise Problem("Unreachable", f"cannot ask for the server's version: {error}", retry=True) from error
            self._version = version, time.monotonic() + VERSION_LASTS
        return version

    async def _values(self, asking: Asking, ref: ValuesRef, what: str) -> Json:
        target = Target(asking.key.namespace, ref.name, ref.kind)
        held = await self._references.find(asking, target, what)
        text = held.data.get(ref.key) if held is not None else None
        where = f"key {ref.key} of {ref.kind} {ref.name} in {asking.key.namespace}, which {what} names,"
        if text is None:
            if ref.optional:
                return {}
            raise Problem("ReferenceNotFound", f"the {where} does not exist: create it, or set optional: true")
        try:
            # In a thread: a megabyte takes seconds, in which nobody else may have to wait.
            found = await asyncio.to_thread(read_document, text.decode())
        except (DocumentError, UnicodeDecodeError) as error:
            said = "cannot be read as YAML" if ref.kind == "Secret" else f"cannot be read: {error}"
            raise Problem("InvalidValues", f"the {where} {said}") from None
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise Problem("InvalidValues", f"the {where} must be a map of values, such as `replicas: 3`")
        return found

    async def _is_misplaced(self, made: Made) -> bool:
        """Whether a kind that was not served when something was built turned out to be in no namespace."""
        return any([await self._namespaced(*kind) is False for kind in made.guessed])

    async def _scopes(self, builds: Sequence[Build]) -> ScopeOf:
        """Ask once for every kind whether it is in namespaces."""
        known: dict[GroupVersionKind, bool | None] = {}
        for build in builds:
            for document in build.documents:
                if not isinstance(document.manifest.get("kind"), str):
                    continue
                asked = _kind_of(document.manifest)
                if asked not in known:
                    known[asked] = await self._namespaced(*asked)
        return lambda group, version, kind: known.get((group, version, kind))

    async def _namespaced(self, group: str, version: str, kind: str) -> bool | None:
        try:
            return (await self._hub.discovery.find(group, kind, version)).namespaced
        except KindNotServed:
            return None
        except KubeError as error:
            raise Problem("Unreachable", f"cannot ask for the kinds that are served: {error}", retry=True) from error


def _recipe(
    asked: Commission, strand: Strand, pantry: _Pantry, values: Mapping[str, Any], listed: Sequence[Listed]
) -> BuildSpec:
    asking, spec, track = asked.asking, asked.spec, asked.track
    helm = spec.build.helm or Helm()
    only = listed[0] if len(listed) == 1 else None
    return BuildSpec(
        namespace=asked.namespace,
        release=helm.release_name or asking.key.name,
        tenant=asking.key.namespace,
        path=_path(strand),
        build=spec.build,
        template=spec.template.enabled,
        values=merge_patch(pantry.values, values),
        variables={
            "source": {
                "name": strand.folder,
                "path": strand.path,
                "repo": strand.git.repo if strand.git else "",
                "revision": strand.git.revision if strand.git else "",
            },
            "environment": {"name": track.name, "namespace": track.namespace or ""},
            "sync": {"name": asking.key.name, "namespace": asking.key.namespace},
            "target": {"name": only.name, "namespace": only.namespace or "", "type": only.type} if only else {},
        },
        helm_values=pantry.helm,
        keys=pantry.keys,
        sensitive=pantry.sensitive,
        kube_version=pantry.kube_version,
    )


def _kind_of(manifest: Json) -> GroupVersionKind:
    version = str(manifest.get("apiVersion") or "").rpartition("/")[2]
    return group_of(manifest), version, str(manifest["kind"])


def is_same(before: Made, forest: Forest) -> bool:
    """Whether the files that went into a build are still the same."""
    return all(forest.digest(path) == digest for path, digest in before.paths.items())


def _missing_path(asked: Commission, forest: Forest) -> SourceProblem | None:
    """Say which path of the spec its source does not have, and at which commit."""
    for strand in asked.track.strands:
        path = _path(strand)
        if not forest.is_missing(path):
            continue
        commit = forest.commit(path)
        where = f"commit {commit[:12]}" if commit else "the source"
        message = f"{where} has no file or folder {strand.path!r}: push it, or correct source.git.path"
        return SourceProblem("PathNotFound", message)
    return None


def _path(strand: Strand) -> str:
    """Return what is built, from the root of all sources."""
    return posixpath.normpath(posixpath.join(strand.folder, strand.path))


def _listed(errors: Sequence[str]) -> str:
    rest = len(errors) - _NAMED
    return "; ".join(errors[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")
