"""Upstream versions: whether an upstream went back to an earlier state, as after a restore from a backup.

It did if its version is lower than a recorded one, or if an object has an earlier version than before. Then nothing is
written or removed until a person has confirmed its state. Each shard of an APIExport counts for itself: the versions of
different servers have nothing to do with one another.
"""

from collections.abc import Iterable, Sequence

from msgspec import structs

from syncline.api.common import CONFIRM_DELETION
from syncline.api.workspace_status import UpstreamStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, SourceObject
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_identity import confirmation
from syncline.controllers.sources.upstream_parts import UpstreamPart, UpstreamSet
from syncline.controllers.sources.upstream_reader import UPSTREAM_AGAIN, UpstreamReader, UpstreamResource
from syncline.core.digest import short_digest
from syncline.core.source_history import SourceVersion, is_regressed
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError

WENT_BACK = "UpstreamWentBack"
_LONGEST_VERSION = 20

OpenedResource = tuple[SourceCluster, UpstreamResource]


async def with_version(sync: AnySync, recorded: UpstreamStatus | None, upstreams: UpstreamSet) -> UpstreamSet:
    """Return an upstream with its highest observed resourceVersion. Raises `SyncError` if it went back."""
    before = recorded.resource_version if recorded is not None else ""
    version = await _highest(_opened(upstreams.parts), before)
    if _is_earlier(version, before):
        replaced = upstreams.identity.problem is not None
        _refuse(sync, _state(recorded), f"resourceVersion {version} after {before}", replaced=replaced)
    return structs.replace(upstreams, identity=structs.replace(upstreams.identity, version=version))


async def with_shard_versions(sync: AnySync, recorded: UpstreamStatus | None, upstreams: UpstreamSet) -> UpstreamSet:
    """Return the workspaces of an APIExport with the highest resourceVersion of each shard.

    The workspaces of a shard that went back, or does not answer, are lost for now.
    """
    before = recorded_shards(recorded)
    shards: dict[str, list[UpstreamPart]] = {}
    for part in upstreams.parts:
        shards.setdefault(shard_id(part.bound.shard if part.bound is not None else ""), []).append(part)
    versions, lost, kept = dict(before), dict(upstreams.lost), list(upstreams.parts)
    for shard, parts in shards.items():
        known = before.get(shard, "")
        try:
            version = await _highest(_opened(parts), known)
            if _is_earlier(version, known):
                _refuse(sync, _state(recorded, shard), f"resourceVersion {version} after {known}")
        except SyncError as error:
            lost |= {part.at.workspace: error for part in parts}
            kept = [part for part in kept if part not in parts]
        else:
            versions[shard] = version
    return structs.replace(
        upstreams,
        parts=tuple(kept),
        lost=lost,
        problem=upstreams.problem or next(iter(lost.values()), None),
        shards={shard: version for shard, version in versions.items() if version},
    )


def shard_id(url: str) -> str:
    """Name a shard shortly, by the address of the virtual workspace there."""
    return short_digest("shard", url)


def recorded_shards(status: UpstreamStatus | None) -> dict[str, str]:
    """Return the recorded versions by shard."""
    entries = (entry.partition("=") for entry in (status.shards if status is not None else ()))
    return {shard: version for shard, _, version in entries if shard and version}


def recorded_version(status: UpstreamStatus | None, part: UpstreamPart) -> str:
    """Return the recorded version of the server of an upstream."""
    if status is None:
        return ""
    return recorded_shards(status).get(shard_id(part.bound.shard), "") if part.bound else status.resource_version


def _opened(parts: Sequence[UpstreamPart]) -> list[OpenedResource]:
    return [(part.at, one) for part in parts for one in part.resources if one.informer is not None]


async def _highest(opened: Sequence[OpenedResource], before: str) -> str:
    """Return the highest observed resourceVersion of a server; empty if its versions are no numbers.

    A watch may lag behind, so the server itself is asked before its version counts as an earlier one.
    """
    versions = [one.informer.unmanaged.version for _, one in opened if one.informer is not None]
    highest = str(max((int(version) for version in versions if _is_number(version)), default=""))
    if not _is_earlier(highest, before):
        return highest
    at, one = opened[0]
    assert one.resource is not None  # noqa: S101 - it is watched
    try:
        async for page in at.client.pages(one.resource, None, type=MetaWire, page=1, metadata_only=True):
            return page.version if _is_number(page.version) else ""
    except KubeError as error:
        raise SyncError("UpstreamUnreadable", f"the upstream: {error}", again=UPSTREAM_AGAIN) from error
    return ""


async def refuse_regressed(
    sync: AnySync,
    recorded: UpstreamStatus | None,
    part: UpstreamPart,
    reader: UpstreamReader,
    regressed: Iterable[tuple[SourceObject, SourceVersion]],
) -> None:
    """Raise `SyncError` if the upstream confirms that an object has an earlier version than the one of its copy."""
    resources = {one.kind: one.resource for one in part.resources}
    for source, seen in regressed:
        resource = resources.get(source.target.kind)
        if resource is None:
            continue
        try:
            meta = await reader.find(part.at, resource, Key(source.target.namespace, source.target.name))
        except KubeError as error:
            raise SyncError("UpstreamUnreadable", f"the upstream: {error}", again=UPSTREAM_AGAIN) from error
        if meta is not None and is_regressed(seen, meta.uid, meta.resource_version):
            shard = shard_id(part.bound.shard) if part.bound is not None else ""
            why = f"{source} has resourceVersion {meta.resource_version} after {seen.version}"
            _refuse(sync, _state(recorded, shard), why)


def _state(recorded: UpstreamStatus | None, shard: str = "") -> str:
    """Return an id of the state from which an upstream went back, so that a confirmation is for this state only."""
    if recorded is None:
        return f" {shard}" if shard else ""
    if shard:
        return f"{recorded.identity} {shard} {recorded_shards(recorded).get(shard, '')}"
    return f"{recorded.identity} {recorded.resource_version}"


def _refuse(sync: AnySync, state: str, why: str, *, replaced: bool = False) -> None:
    """Raise `SyncError` unless a person has confirmed the state; `replaced`: the upstream has another identity."""
    digest = confirmation(state)
    if sync.metadata.annotations.get(CONFIRM_DELETION) == digest:
        return
    what, right = "the upstream went back to an earlier state", "its present state is right"
    if replaced:
        what = "the upstream is another one than before, or went back to an earlier state"
        right = "spec.upstream was changed, or the present state is right"
    message = (
        f"{what} ({why}), as after a restore from a backup, so nothing is written"
        f" or removed; if {right}, annotate the sync with {CONFIRM_DELETION}={digest}"
    )
    raise SyncError(WENT_BACK, message, status="Unknown", stalled=True)


def _is_earlier(version: str, before: str) -> bool:
    """Whether a version is earlier. Versions that are no numbers cannot be compared."""
    return _is_number(before) and _is_number(version) and int(version) < int(before)


def _is_number(version: str) -> bool:
    """Whether a version counts; one that no etcd has, such as one of a thousand digits, does not."""
    return version.isdecimal() and len(version) <= _LONGEST_VERSION
