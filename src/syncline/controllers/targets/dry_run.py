"""Server-side dry run of a revision, with the identity that would write it.

The server decodes, defaults, admits and validates the object as for a write, and stores nothing. It cannot check
objects that depend on the rest of the revision: objects of kinds that the revision defines or changes, and objects in
namespaces that the revision creates. These are deferred: the caller checks them in another way.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.keep_policy import mark_at
from syncline.controllers.targets.stages import DesiredAt, for_cluster, refused_kind
from syncline.core.objects import Desired, Observed
from syncline.core.ownership import object_id_of
from syncline.core.plan import WRITES, Action, Verb
from syncline.core.request_bodies import apply_body, create_body, replace_body, update_patch
from syncline.core.schema_errors import is_schema_error, wrong_field
from syncline.core.strip import preserve_allocated
from syncline.engine.writer import IMMUTABLE, IRREPLACEABLE, Writer
from syncline.kube.client import PatchKind
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
)
from syncline.kube.resources import Resource

# The timeout of one answer. A revision that cannot be checked in time is checked later, and delays no other sync.
ANSWER_SECONDS = 15.0
MOST_REFUSALS = 100
_AT_ONCE = 32
_TRIES = 3
# The messages of the server about a field that it does not know or cannot decode.
_FIELD_WORDS = re.compile(r'unknown field "([^"]{1,300})"|Go struct field \w+\.([\w.]{1,300}) of type')
_NO_DRY_RUN = "does not support dry run"


class Refusal(Struct, frozen=True):
    """The refusal of an object by the server."""

    desired: Desired
    error: ApiError

    @property
    def is_manifest(self) -> bool:
        """Whether the manifest is wrong, rather than forbidden."""
        return not isinstance(self.error, Forbidden)

    @property
    def field(self) -> str:
        """The path of the first field that the server names, or an empty text."""
        if self.error.fields:
            return self.error.fields[0]
        named = _FIELD_WORDS.search(self.error.message)
        return next(filter(None, named.groups()), "") if named is not None else wrong_field(self.error.message)


class DryRunResult(Struct, frozen=True, kw_only=True):
    """The results of the dry runs."""

    refusals: tuple[Refusal, ...] = ()
    deferred: tuple[Desired, ...] = ()
    """Objects that the server cannot check."""
    failure: str = ""
    """Why no dry run was possible."""


class DryRunner:
    """Dry runs for all syncs; `writer` returns the writer for a cluster."""

    def __init__(self, writer: Callable[[TargetCluster], Writer]) -> None:
        self._writer = writer

    async def run(
        self, site: TargetCluster, desired: Sequence[Desired], definitions: Mapping[str, Desired], kept: frozenset[str]
    ) -> DryRunResult:
        """Check all new and changed objects. `definitions` are the CRDs among them, by the kind that they define."""
        asking = _DryRunPass(site, self._writer(site), kept)
        changing = {kind for kind, one in definitions.items() if await asking.is_changed(one)}
        arriving = {one.target.name for one in desired if one.target.kind == "Namespace"}
        deferred: list[Desired] = []
        asked: list[Desired] = []
        for one in desired:
            namespace = one.target.namespace
            later = namespace in arriving and site.cluster.namespace(namespace) is None
            (deferred if later or one.target.kind in changing else asked).append(one)
        # A kind that cannot be watched cannot be written either: the apply reports it.
        firsts = {one.target.kind: one for one in reversed(asked)}
        opened = {kind for kind, one in firsts.items() if await asking.is_open(one)}
        refusals: list[Refusal] = []
        for part in _parts([one for one in asked if one.target.kind in opened]):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answers = await asyncio.gather(*map(asking.answer, part))
            except TimeoutError:
                return DryRunResult(failure=f"a dry run was not answered within {ANSWER_SECONDS:g} s")
            for one, error in zip(part, answers, strict=True):
                if isinstance(error, ApiError) and _is_refusal(error):
                    refusals.append(Refusal(one, error))
                elif isinstance(error, BadRequest):
                    deferred.append(one)
                elif error is not None:
                    return DryRunResult(failure=str(error))
            if len(refusals) >= MOST_REFUSALS:
                break
        return DryRunResult(refusals=tuple(refusals), deferred=tuple(deferred))


def _parts(desired: Sequence[Desired]) -> Iterator[Sequence[Desired]]:
    for start in range(0, len(desired), _AT_ONCE):
        yield desired[start : start + _AT_ONCE]


def _is_refusal(error: ApiError) -> bool:
    """Whether the server refuses the object itself, and not the request or its time."""
    if isinstance(error, BadRequest):
        return _NO_DRY_RUN not in error.message
    if isinstance(error, ServerError):
        return is_schema_error(error.message)
    return isinstance(error, Forbidden | Invalid)


class _DryRunPass:
    """Dry runs of one revision in one cluster."""

    def __init__(self, site: TargetCluster, writer: Writer, kept: frozenset[str]) -> None:
        self._site = site
        self._writer = writer
        self._kept = kept

    async def is_open(self, desired: Desired) -> bool:
        """Watch the kind of an object. Return whether it is watched."""
        return await refused_kind(DesiredAt(self._site, for_cluster(self._site, desired))) is None

    async def is_changed(self, desired: Desired) -> bool:
        """Whether an object would be written."""
        if not await self.is_open(desired):
            return True
        here = for_cluster(self._site, desired)
        action = await self._writer.plan(
            here, await self._writer.observed(here.target), created_once=self._is_kept(here)
        )
        return action.verb in WRITES

    async def answer(self, desired: Desired) -> KubeError | None:
        """Return the refusal of an object; None if it is accepted, or not written."""
        try:
            await self._ask(for_cluster(self._site, desired))
        except NotFound:
            return None  # a namespace, or a role that is bound: the apply reports it
        except Invalid as error:
            return None if self._is_recreated(desired, error) else error
        except KubeError as error:
            return error
        return None

    async def _ask(self, desired: Desired) -> None:
        observed = await self._writer.observed(desired.target)
        for _ in range(_TRIES):
            action = await self._writer.plan(desired, observed, created_once=self._is_kept(desired))
            if action.verb in (Verb.LEAVE, Verb.RECREATE):
                return
            if action.verb is not Verb.READ:
                try:
                    await self._write(action, desired, observed)
                except (AlreadyExists, Conflict):
                    pass  # it differs from the observed object
                else:
                    return
            observed = await self._writer.get_live(desired)

    def _is_kept(self, desired: Desired) -> bool:
        return bool(self._kept) and mark_at(self._site.cluster, desired.target) in self._kept

    def _is_recreated(self, desired: Desired, error: ApiError) -> bool:
        """Whether the writer would delete an object and create it again, because a changed field is immutable."""
        overwrites = (
            self._site.destination.policy.management == "Overwrite" and desired.target.kind not in IRREPLACEABLE
        )
        return overwrites and any(word in str(error).lower() for word in IMMUTABLE)

    async def _write(self, action: Action, desired: Desired, observed: Observed | None) -> None:
        change, target, client = action.change, desired.target, self._site.client
        assert change is not None  # noqa: S101 - every write of the plan has one
        owner, object_id = self._site.owner, object_id_of(self._site.cluster.uid, target)
        resource, namespace = self._resource(desired), target.namespace or None
        if observed is None or action.verb is Verb.CREATE:
            body: Any = create_body(desired, owner, object_id, change, desired.content)
            await client.create(resource, body, namespace, dry_run=True, strict=True, fair_key=owner.ref)
        elif desired.body is None:
            patch = update_patch(desired, observed, owner, object_id, change)
            await client.patch(
                resource, target.name, namespace, patch, PatchKind.JSON, dry_run=True, strict=True, fair_key=owner.ref
            )
        elif change.exact and not change.metadata_only:
            live: dict[str, Any] = await client.get(resource, target.name, namespace)
            body = preserve_allocated(live, replace_body(desired, live, owner, object_id, change))
            await client.replace(resource, target.name, namespace, body, dry_run=True, strict=True, fair_key=owner.ref)
        else:
            body = apply_body(desired, observed, owner, object_id, change)
            await client.patch(
                resource,
                target.name,
                namespace,
                body,
                PatchKind.APPLY,
                force=True,
                dry_run=True,
                strict=True,
                fair_key=owner.ref,
            )

    def _resource(self, desired: Desired) -> Resource:
        resource = self._site.cluster.informer(desired.target.kind).resource
        version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else resource.version
        return structs.replace(resource, version=version)
