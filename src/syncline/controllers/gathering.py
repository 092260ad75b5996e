"""Reads what a sync copies from: its sources and the patches it refers to, live, as the sync's own identity."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.api.manifestsync import PatchContentRef, SourceObservedState
from syncline.controllers.reporting import Problem
from syncline.controllers.work import Source, SourceRef, Work
from syncline.core.carry import needs_account, protected
from syncline.core.digest import short_digest
from syncline.core.marks import UNSIGNED
from syncline.core.objects import Target
from syncline.core.ownership import OWNER_LABEL, Marks, place, read_marks
from syncline.core.remedies import grant, grant_operator, with_cause
from syncline.core.secrets import decoded
from syncline.core.selectors import selector_words
from syncline.core.spec_scope import SourceScope
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.view import MetaWire, View
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, Forbidden, KindNotServed, KubeError, NotFound
from syncline.kube.resources import Resource

# How long a turn waits for the first list of a kind.
LIST_PATIENCE = 5.0


class Gathered(Struct, frozen=True, kw_only=True):
    """What was read."""

    sources: tuple[Source, ...] = ()
    absent: tuple[Target, ...] = ()
    """Named sources that the server says do not exist."""
    patches: Mapping[PatchContentRef, str] = {}
    problem: Problem | None = None
    """What is wrong, though the rest can go on."""

    @property
    def revision(self) -> str:
        """Name the state of all sources together."""
        versions = [f"{source} {source.meta.resource_version}" for source in self.sources]
        return self.sources[0].meta.resource_version if len(versions) == 1 else short_digest(*versions)

    @property
    def observed(self) -> SourceObservedState | None:
        """Return what was seen of the first source."""
        if not self.sources:
            return None
        meta = self.sources[0].meta
        return SourceObservedState(uid=meta.uid, generation=meta.generation, resource_version=meta.resource_version)


class Gatherer:
    """Reads for one sync after the other; holds nothing."""

    def __init__(self, hub: Cluster, claims: Claims, allowed_kinds: frozenset[str]) -> None:
        self._hub = hub
        self._claims = claims
        self._allowed_kinds = allowed_kinds

    async def gather(self, work: Work) -> Gathered:
        """Read all that a sync names. Raises `Problem` where something cannot be read."""
        client = self._hub.acting_as(work.user)
        sources: list[Source] = []
        absent: list[Target] = []
        for ref in work.sources:
            self._refuse(work, ref)
            view = await self._open(work, ref)
            found = await self._read(client, work, ref, view)
            sources += found
            if ref.name and not found:
                absent.append(_place(ref, view))
        patches = {ref: await self._patch(client, work, ref) for ref in _patch_refs(work)}
        problem = None
        if absent:
            words = ", ".join(f"{target.kind} {target._replace(kind='ConfigMap')}" for target in absent)
            stays = "; its copies stay (sourceDeletionPolicy Orphan)"
            orphan = work.source_deletion_policy == "Orphan"
            problem = Problem("SourceNotFound", f"the source {words} does not exist{stays if orphan else ''}")
        return Gathered(sources=_unique(sources), absent=tuple(absent), patches=patches, problem=problem)

    async def vanished(self, work: Work, sources: Iterable[str]) -> frozenset[str]:
        """Return which former sources, as markers name them, were selected by labels and are not known to exist."""
        client = self._hub.acting_as(work.user)
        selected = {(ref.kind_name, ref.namespace) for ref in work.sources if ref.selector is not None}
        gone = set()
        for source in sources:
            kind, _, place = source.partition("/")
            namespace, _, name = place.partition("/")
            view = next((view for view in self._hub.views() if view.kind == kind), None)
            if view is None or not any(kind == one and namespace in ("", where) for one, where in selected):
                continue
            try:
                await client.get(view.resource, name, namespace or None, metadata_only=True)
            except KubeError:
                gone.add(source)
        return frozenset(gone)

    async def selected(self, work: Work, scope: SourceScope) -> frozenset[str]:
        """Return the sources that a selector means, as markers name them; none where that cannot be read."""
        kind, _, group = scope.kind.partition(".")
        try:
            resource = (await self._hub.open(group, kind)).resource
            found, _ = await self._hub.acting_as(work.user).list(
                resource,
                scope.namespace if resource.namespaced else None,
                labels=selector_words(scope.selector),
                type=MetaWire,
                metadata_only=True,
            )
        except KubeError:
            return frozenset()
        return frozenset(f"{scope.kind}/{one.metadata.namespace}/{one.metadata.name}" for one in found)

    def phantoms(self, work: Work) -> Iterator[Source]:
        """Yield the named sources as if they had been read, to know where their copies belong."""
        for ref in work.sources:
            view = next((view for view in self._hub.views() if view.kind == ref.kind_name), None)
            if ref.name and view is not None:
                target = _place(ref, view)
                namespaced = view.resource.namespaced
                yield Source(ref=ref, target=target, namespaced=namespaced, meta=ObjectMeta(), manifest={})

    def _refuse(self, work: Work, ref: SourceRef) -> None:
        """Refuse kinds whose copies would break a cluster, or give away rights."""
        if needs_account(ref.group, ref.kind) and work.user is None:
            message = (
                f"{ref.kind_name} grants rights, so it is copied only as a service account, with its rights: "
                "set serviceAccountName"
            )
            raise Problem("KindProtected", message, stalled=True)
        why = protected(ref.group, ref.kind)
        if why and ref.kind_name not in self._allowed_kinds:
            message = f"{ref.kind_name} is not copied: {why}; an operator with --allow-kinds={ref.kind_name} does it"
            raise Problem("KindProtected", message, stalled=True)

    async def _open(self, work: Work, ref: SourceRef) -> View:
        try:
            view = await self._hub.open(ref.group, ref.kind, ref.version)
            await self._hub.complete(view, LIST_PATIENCE)
        except KindNotServed as error:
            raise Problem("KindNotServed", str(error), retry=True) from error
        except NotWatchedError as error:
            remedy = grant_operator(error.resource, read=work.user is not None) if error.forbidden else ""
            raise Problem("KindNotWatched", with_cause(remedy, error), retry=True) from error
        return view

    async def _read(self, client: Client, work: Work, ref: SourceRef, view: View) -> list[Source]:
        resource = view.resource
        if ref.version != resource.version:
            resource = structs.replace(resource, version=ref.version)
        try:
            manifests = await _fetch(client, resource, ref)
        except NotFound as error:  # not of the object, but of its kind
            try:
                await self._hub.check_served(view, ref.version)
            except KindNotServed as why:
                raise Problem("KindNotServed", str(why), retry=True) from error
            raise Problem("SourceUnreadable", str(error), retry=True) from error
        except Forbidden as error:
            raise Problem("SourceForbidden", _forbidden(work, error), retry=True) from error
        except ApiError as error:
            raise Problem("SourceUnreadable", str(error), retry=True) from error
        sources = []
        for manifest in manifests:
            meta = msgspec.convert(manifest["metadata"], ObjectMeta)
            target = Target(meta.namespace, meta.name, ref.kind_name)
            view.observe_unmanaged(meta, work.sync.owner.sync)
            if copied_by := await self._copied_by(work, meta, target):
                if ref.name:
                    message = f"the source {target} is itself a copy, made by {copied_by}; name the original instead"
                    raise Problem("SourceIsCopy", message, stalled=True)
                continue
            full = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
            namespaced = resource.namespaced
            sources.append(Source(ref=ref, target=target, namespaced=namespaced, meta=meta, manifest=full))
        return sources

    async def _copied_by(self, work: Work, meta: ObjectMeta, target: Target) -> str:
        """Name the living sync that made an object, or nothing: a copy is never a source."""
        keys = self._hub.marks.keys
        marker, claim = read_marks(meta.annotations, keys) if OWNER_LABEL in meta.labels else Marks()
        # What may be a copy of another hub, or of an earlier version, is no source either; what is made up may be one.
        if claim is not None and (claim.proof != UNSIGNED or claim.hub or UNSIGNED in keys.takeovers):
            marker = claim
        if marker is None or marker.at != place(self._hub.uid, target):
            return ""
        self._claims.wait(work.sync.owner.sync, self._hub.name, target, marker.sync)
        return marker.sync if marker.hub or await self._claims.alive(marker.sync) else ""

    async def _patch(self, client: Client, work: Work, ref: PatchContentRef) -> str:
        namespace = work.sync.metadata.namespace
        where = f"{ref.kind} {namespace}/{ref.name}, which patchContentRef names,"
        view = await self._hub.open("", ref.kind)
        try:
            holder: dict[str, Any] = await client.get(view.resource, ref.name, namespace)
        except NotFound:
            raise Problem("PatchNotFound", f"the {where} does not exist: create it") from None
        except Forbidden as error:
            message = with_cause(f"{_needs(work, error)} for the {where.rstrip(',')}", error)
            raise Problem("PatchUnreadable", message, retry=True) from error
        except KubeError as error:
            raise Problem("PatchUnreadable", f"the {where} cannot be read: {error}", retry=True) from error
        view.observe_unmanaged(msgspec.convert(holder["metadata"], ObjectMeta), work.sync.owner.sync)
        value = (holder.get("data") or {}).get(ref.key)
        text = decoded(value) if ref.kind == "Secret" and value is not None else value
        if text is None:
            raise Problem(
                "PatchNotFound", f"the {where} has no key {ref.key!r} that holds text: add it, or name another"
            )
        return text


async def _fetch(client: Client, resource: Resource, ref: SourceRef) -> list[dict[str, Any]]:
    """Read one object, or all that match; none only where the server says so of this very object."""
    namespace = ref.namespace if resource.namespaced else None
    if not ref.name:
        found, _ = await client.list(resource, namespace, labels=selector_words(ref.selector))
        return found
    try:
        return [await client.get(resource, ref.name, namespace)]
    except NotFound as error:
        if error.about != ref.name:  # not the object is unknown, but its kind: or something else answers
            raise
        return []


def _needs(work: Work, error: Forbidden) -> str:
    """Say who lacks which right: of Secrets the server's own words are not told."""
    return grant(work.user, error.verb, error.resource)


def _forbidden(work: Work, error: Forbidden) -> str:
    return with_cause(_needs(work, error), error)


def _place(ref: SourceRef, view: View) -> Target:
    return Target(ref.namespace if view.resource.namespaced else "", ref.name, ref.kind_name)


def _patch_refs(work: Work) -> set[PatchContentRef]:
    patches = (place.patch.patch_content_ref for place in work.places if place.patch is not None)
    return {ref for ref in patches if ref is not None}


def _unique(sources: list[Source]) -> tuple[Source, ...]:
    """Drop what two references both name."""
    return tuple({source.target: source for source in sources}.values())
