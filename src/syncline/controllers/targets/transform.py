"""Transform: makes the desired object of each target from a source object. It accesses no cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from syncline.api.content import Keys
from syncline.api.manifestsync import Patch, PatchContentRef, Selection
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, SourceObject
from syncline.controllers.targets.select import PlannedCopy
from syncline.core.content import ContentError, exact_content, select_keys
from syncline.core.digest import DigestKey
from syncline.core.keypolicies import MOST_COMPARISONS
from syncline.core.objects import Body, Content, Desired
from syncline.core.outcome import Outcome
from syncline.core.patching import PatchError, parse_patch, patched
from syncline.core.sanitize import copied_metadata
from syncline.core.secrets import decoded, encoded
from syncline.core.strip import NotCopyable, strip_cluster_fields
from syncline.core.wire import DATA_KINDS
from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.programs import in_thread
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.transform_pool import TransformPool, is_template
from syncline.render.workers.protocol import TransformSource as RenderSource
from syncline.render.workers.protocol import TransformTarget as RenderTarget

Json = dict[str, Any]
MAX_VALUES = 500_000
"""The maximum number of values in all different copies of a sync: each of these copies is held in memory."""
_PAUSE_AFTER = 1_000
"""After a copy with this many values, other tasks run."""

_FEW_COMPARISONS = 20_000
"""The most globs of `keys`, times the keys of a source, that are compared in the event loop."""
_SMALL_PATCH = 1024
"""The longest text of a patch, in characters, that is read in the event loop."""
_slots = FairSemaphore(2, share=1)
"""The large patches that are carried out at once: in total, and of one namespace."""

PatchTexts = Mapping[PatchContentRef, str]
"""The patches that other objects hold."""


class RenderedTargets(Struct, frozen=True, kw_only=True):
    """The desired object of each target, and the outcomes of the targets that could not be rendered."""

    desired: tuple[tuple[PlannedCopy, Desired], ...] = ()
    failed: tuple[Outcome, ...] = ()


class _Rendered(Struct, frozen=True):
    """The rendered content that several targets share."""

    content: Content
    body: Body | None
    digest: str
    leaves: Mapping[str, str] | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


async def render_targets(
    lowered: LoweredSpec, copies: Sequence[PlannedCopy], texts: PatchTexts, renderer: TransformPool, key: DigestKey
) -> RenderedTargets:
    """Render the desired object of each target. Raises `SyncError` if no target can be rendered."""
    groups: dict[tuple[int, int], list[PlannedCopy]] = {}
    for copy in copies:
        groups.setdefault((id(copy.source), id(copy.site.destination)), []).append(copy)
    desired: list[tuple[PlannedCopy, Desired]] = []
    failed: list[Outcome] = []
    budget = _ValueBudget(MAX_VALUES)
    for group in groups.values():
        try:
            forms = await _render_group(lowered, group, texts, renderer, key, budget=budget)
        except (ContentError, NotCopyable, PatchError, TransformError) as error:
            if len(groups) == 1:
                raise SyncError("InvalidContent", str(error), stalled=True) from error
            failed += [_invalid(copy, error) for copy in group]
            continue
        except RenderFailed as error:
            raise SyncError("RenderFailed", str(error), again=error.retry_after, retry=not error.retry_after) from error
        for copy, form in zip(group, forms, strict=True):
            if isinstance(form, Exception):
                failed.append(_invalid(copy, form))
            else:
                desired.append((copy, _desired(copy, form, key)))
    return RenderedTargets(desired=tuple(desired), failed=tuple(failed))


def _desired(copy: PlannedCopy, form: _Rendered, key: DigestKey) -> Desired:
    source = copy.source
    return Desired(
        target=copy.target,
        content=form.content,
        body=form.body,
        digest=form.digest,
        value_digests=form.leaves,
        key=key.id,
        source=str(source),
        revision=source.meta.resource_version,
        labels=form.labels,
        annotations=form.annotations,
    )


class _ValueBudget:
    """The number of values that further different copies of a sync may have."""

    def __init__(self, values: int) -> None:
        self._left = values

    async def take(self, manifest: Json) -> None:
        """Count one more copy, and let other tasks run after a large one. Raises `SyncError` if there is no room."""
        values = _count_values(manifest)
        self._left -= values
        if self._left < 0:
            message = (
                f"the copies differ from each other and have more than {MAX_VALUES} values together: use fewer targets "
                "or smaller sources, or make several syncs"
            )
            raise SyncError("SourceTooLarge", message, stalled=True)
        if values > _PAUSE_AFTER:
            await asyncio.sleep(0)


def _count_values(manifest: Json) -> int:
    """Count the values of an object at any depth."""
    count = 0
    open_values: list[Any] = [manifest]
    while open_values:
        value = open_values.pop()
        count += 1
        if isinstance(value, dict):
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)
    return count


async def _render_group(
    lowered: LoweredSpec,
    copies: Sequence[PlannedCopy],
    texts: PatchTexts,
    renderer: TransformPool,
    key: DigestKey,
    *,
    budget: _ValueBudget,
) -> list[_Rendered | Exception]:
    """Return the rendered content of the targets of one source and destination; equal targets share it."""
    source, place = copies[0].source, copies[0].site.destination
    labels, annotations = _copied_metadata(lowered, source)
    base = strip_cluster_fields(source.manifest)
    manifests: Sequence[Json | TransformError] = [base] * len(copies)
    if source.target.kind in DATA_KINDS and (lowered.keys is not None or lowered.transforms):
        manifests = await _transformed(lowered, copies, base, renderer)
    patches: Sequence[str | TransformError | None] = [None] * len(copies)
    if place.patch is not None:
        try:
            patches = await _patch_texts(copies, place.patch, texts, renderer)
        except TransformError as error:
            raise _unrendered(place.patch, error) from None
    known: dict[tuple[int, str | None], _Rendered | Exception] = {}
    forms: list[_Rendered | Exception] = []
    for copy, manifest, patch in zip(copies, manifests, patches, strict=True):
        if isinstance(manifest, TransformError) or isinstance(patch, TransformError):
            forms.append(manifest if isinstance(manifest, TransformError) else _unrendered(place.patch, patch))
            continue
        which = (id(manifest), patch)
        if which not in known:
            if known:  # the first copy is as large as its source
                await budget.take(manifest)
            try:
                job = _RenderJob(copy=copy, manifest=manifest, labels=labels, annotations=annotations, patch=patch)
                rendered = known[which] = await _render(job, key)
                _refuse_comparisons(lowered, copy, rendered)
            except (PatchError, ContentError) as error:
                known[which] = _redacted(place.patch, error)
        forms.append(known[which])
    failures = [form for form in forms if isinstance(form, Exception)]
    if failures and len(failures) == len(forms) and len({str(failure) for failure in failures}) == 1:
        raise failures[0]
    return forms


class _RenderJob(Struct, frozen=True, kw_only=True):
    """A copy to render: the content of its source, and its patch."""

    copy: PlannedCopy
    manifest: Json
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    patch: str | None

    @property
    def is_large(self) -> bool:
        """Whether it takes up to a second."""
        if self.patch is None:
            return False
        return len(self.patch) > _SMALL_PATCH or _count_values(self.manifest) > _PAUSE_AFTER

    def render(self, key: DigestKey) -> _Rendered:
        """Apply the patch. Raises `PatchError` or `ContentError`."""
        manifest, labels, annotations = self.manifest, self.labels, self.annotations
        kind, place = self.copy.target.kind, self.copy.site.destination
        if self.patch is not None and place.patch is not None:
            strategy = place.patch.patch_strategy
            manifest = patched(self._whole(), strategy, parse_patch(self.patch, strategy))
            changed = manifest.get("metadata") or {}
            labels, annotations = changed.get("labels") or {}, changed.get("annotations") or {}
        fields = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
        if kind not in DATA_KINDS:
            body = Body(str(manifest["apiVersion"]), str(manifest["kind"]), fields)
            return _Rendered(Content(), body, body.digest(key), None, labels, annotations)
        content = exact_content(kind, fields)
        leaves = content.value_digests(key)
        return _Rendered(content, None, content.digest(key), leaves, labels, annotations)

    def _whole(self) -> Json:
        """Return the object that the patch changes."""
        target = self.copy.target
        metadata = {
            "name": target.name,
            **({"namespace": target.namespace} if target.namespace else {}),
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
        }
        return {**self.manifest, "metadata": metadata}


async def _render(job: _RenderJob, key: DigestKey) -> _Rendered:
    """Render a copy; a large one in a thread, of which tenants have a fair share."""
    if not job.is_large:
        return job.render(key)
    async with _slots.slot(on_behalf_of.get()):
        return await in_thread(job.render, key)


def _unrendered(patch: Patch | None, error: str | TransformError | None) -> PatchError | ContentError:
    return _redacted(patch, PatchError(f"the patch: {error}", "its template cannot be rendered"))


def _redacted(patch: Patch | None, error: PatchError | ContentError) -> PatchError | ContentError:
    """Return why a patch cannot be applied. If it is in a Secret, its paths and names are not repeated."""
    ref = patch.patch_content_ref if patch is not None else None
    if ref is None or ref.kind != "Secret":
        return error
    why = error.redacted if isinstance(error, PatchError) else "it makes content that the kind cannot have"
    return PatchError(
        f"correct the patch in the Secret {ref.name}, key {ref.key}: {why} (what it holds is not repeated; try it with "
        "patchContent and without the secret values to learn more)"
    )


async def _transformed(
    lowered: LoweredSpec, copies: Sequence[PlannedCopy], manifest: Json, renderer: TransformPool
) -> list[Json | TransformError]:
    """Select and rename keys, and transform values, of a ConfigMap or Secret."""
    secret = copies[0].target.kind == "Secret"
    data, binary = manifest.get("data") or {}, manifest.get("binaryData") or {}
    if secret:
        data, binary = _texts(data)
    data, binary = await _selected(lowered.keys, data, binary)
    results: Sequence[Mapping[str, str] | TransformError] = [data] * len(copies)
    if lowered.transforms:
        source = copies[0].source.target
        results = await renderer.transform(
            lowered.transforms,
            data,
            binary,
            RenderSource(source.namespace, source.name, copies[0].source.ref.kind),
            [RenderTarget(copy.target.namespace, copy.target.name, copy.target.cluster) for copy in copies],
        )
    known: dict[int, Json] = {}
    manifests: list[Json | TransformError] = []
    for result in results:
        if isinstance(result, TransformError):
            manifests.append(result)
            continue
        if id(result) not in known:
            values = (
                {"data": {**binary, **{name: encoded(text) for name, text in result.items()}}}
                if secret
                else {"data": result, "binaryData": binary}
            )
            known[id(result)] = {**manifest, **values}
        manifests.append(known[id(result)])
    return manifests


async def _selected(
    keys: Keys | None, data: Mapping[str, str], binary: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Select and rename keys; many keys by many globs in a thread, of which tenants have a fair share."""
    if keys is None or (len(keys.include) + len(keys.exclude)) * (len(data) + len(binary)) <= _FEW_COMPARISONS:
        return select_keys(keys, data, binary)
    async with _slots.slot(on_behalf_of.get()):
        return await in_thread(select_keys, keys, data, binary)


def _refuse_comparisons(lowered: LoweredSpec, copy: PlannedCopy, rendered: _Rendered) -> None:
    """Raise `ContentError` if the conflict policies of keys would take long: they are compared in the event loop."""
    rules = lowered.two_way.rules if lowered.two_way is not None else copy.site.destination.policy.key_policies
    globs = sum(len(rule.keys) for rule in rules)
    keys = len(rendered.content.data) + len(rendered.content.binary_data)
    if globs * keys > MOST_COMPARISONS:
        raise ContentError(
            f"keyPolicies has {globs} names and globs, and the copy has {keys} keys: more than {MOST_COMPARISONS} "
            "comparisons. Write fewer globs, or split the source"
        )


def _texts(data: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the values of a Secret into decoded texts, and values that are not text."""
    texts: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in data.items():
        text = decoded(value)
        if text is None:
            rest[name] = value
        else:
            texts[name] = text
    return texts, rest


async def _patch_texts(
    copies: Sequence[PlannedCopy], patch: Patch, texts: PatchTexts, renderer: TransformPool
) -> Sequence[str | TransformError]:
    ref = patch.patch_content_ref
    text = texts[ref] if ref is not None else patch.patch_content or ""
    if not is_template(text):
        return [text] * len(copies)
    source = copies[0].source
    place = RenderSource(source.target.namespace, source.target.name, source.ref.kind)
    targets = [RenderTarget(copy.target.namespace, copy.target.name, copy.target.cluster) for copy in copies]
    return await renderer.texts(text, place, targets)


def _copied_metadata(lowered: LoweredSpec, source: SourceObject) -> tuple[dict[str, str], dict[str, str]]:
    labels = lowered.options.labels or Selection()
    annotations = lowered.options.annotations or Selection()
    return (
        copied_metadata(source.meta.labels, labels.include, labels.exclude),
        copied_metadata(source.meta.annotations, annotations.include, annotations.exclude),
    )


def _invalid(copy: PlannedCopy, error: Exception) -> Outcome:
    return Outcome(target=copy.target, state="Failed", reason="InvalidContent", message=str(error))
