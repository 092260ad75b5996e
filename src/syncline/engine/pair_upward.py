"""Writes the changes of a copy to its upstream object. A refusal stops only this part of a pair."""

import time
from collections.abc import Callable

from msgspec import Struct, structs

from syncline.core.digest import combined_digest
from syncline.core.json_diff import diff_patch
from syncline.core.merge import ValueDigests
from syncline.core.objects import Desired
from syncline.core.ownership import RESOLVE, object_id_of
from syncline.core.pair_plan import PairPlan
from syncline.core.pair_values import ValueReader, shown_paths
from syncline.engine.pair_sides import Copy, UpstreamSide
from syncline.engine.twoway import Upstream
from syncline.engine.write_loops import WriteLoops
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unreachable,
)

DesiredOf = Callable[[Upstream], Desired | None]
"""Returns the desired copy of an upstream object that was read again; None if it gets no copy any more."""


class PairMoved(Exception):  # noqa: N818 - a state
    """One of the two objects has changed since it was read, so the pair is planned again."""


class Problem(Struct, frozen=True):
    """Why the upstream object was not written."""

    reason: str
    message: str


class Upward(Struct, frozen=True, kw_only=True):
    """The result of the upward write."""

    source: Upstream
    desired: Desired
    digests: ValueDigests
    """The digests of the upstream side, as its server stored it."""
    unwritten: tuple[str, ...] = ()
    """The paths that were not written."""
    problem: Problem | None = None
    written: bool = False


class UpwardWriter:
    """Writes upstream objects on behalf of one sync."""

    def __init__(self, side: UpstreamSide, loops: WriteLoops, desired_of: DesiredOf) -> None:
        self._side = side
        self._loops = loops
        self._desired_of = desired_of

    async def write(self, source: Upstream, plan: PairPlan, copy: Copy, reader: ValueReader) -> Upward:
        """Write exactly the paths that flow up. Raises `PairMoved`, and the errors of a server that does not answer."""
        flow = plan.agreement.up
        same = Upward(source=source, desired=plan.desired, digests=plan.up.digests)
        if not flow:
            return same
        paths = (*flow.set, *flow.unset)
        object_id = object_id_of(self._side.uid, source.target)
        digest = combined_digest({path: plan.down.digests.get(path, "") for path in paths})
        if (problem := self._obstacle(source, object_id, digest, paths)) is not None:
            return structs.replace(same, unwritten=paths, problem=problem)
        put = {path: plan.down.values[path] for path in flow.set}
        after = reader.changed(source.manifest, put, flow.unset, copy.manifest)
        try:
            written = await self._side.patch(source, diff_patch(source.manifest, after))
        except (BadRequest, Forbidden, Invalid) as error:
            problem = await self._refusal(source, paths, error)
            return structs.replace(same, unwritten=paths, problem=problem)
        except KubeError as error:
            raise moved(error) from error
        self._loops.record(object_id, digest, written.version, time.monotonic())
        desired = self._desired_of(written) or plan.desired
        return Upward(source=written, desired=desired, digests=reader.upstream(desired).digests, written=True)

    async def remove_resolve(self, source: Upstream) -> Problem | None:
        """Remove the annotation that resolved the conflicts. Return why the upstream does not let us.

        Raises `PairMoved`, and the errors of a server that does not answer.
        """
        try:
            await self._side.remove_resolve(source)
        except (BadRequest, Forbidden, Invalid) as error:
            if not isinstance(error, Forbidden) and await self._side.has_moved(source):
                raise PairMoved from error
            right = (
                f"grant the right to {error.verb} {error.resource} upstream, or "
                if isinstance(error, Forbidden)
                else ""
            )
            message = (
                f"{right}remove the annotation {RESOLVE} from the upstream object: it has resolved the conflicts, and "
                f"would resolve later ones too, but the upstream refuses its removal: {error}"
            )
            return Problem("UpstreamForbidden" if right else "UpstreamRefused", message)
        except KubeError as error:
            raise moved(error) from error
        return None

    def _obstacle(self, source: Upstream, object_id: str, digest: str, paths: tuple[str, ...]) -> Problem | None:
        names = shown_paths(paths)
        if source.manifest.get("immutable") is True:
            return Problem("UpstreamImmutable", f"{names} changed in the copy, but the upstream object is immutable")
        earlier = self._loops.paused_by(object_id, digest, time.monotonic())
        if earlier is None:
            return None
        message = (
            f"written {earlier.count} times to the upstream object in a short while and changed back each time; "
            f"writes are spaced out: let one of the two sides decide {names}"
        )
        return Problem("WriteLoop", message)

    async def _refusal(self, source: Upstream, paths: tuple[str, ...], error: ApiError) -> Problem:
        names = shown_paths(paths)
        if isinstance(error, Forbidden):
            message = (
                f"grant the right to {error.verb} {error.resource} upstream, or undo the change of {names} in the "
                f"copy, which cannot reach the upstream object: {error}"
            )
            return Problem("UpstreamForbidden", message)
        # A patch that no longer fits the object is invalid too.
        if await self._side.has_moved(source):
            raise PairMoved from error
        message = f"undo the change of {names} in the copy, since the upstream object cannot take it: {error}"
        return Problem("UpstreamRefused", message)


def moved(error: KubeError) -> Exception:
    """Return `PairMoved` if an error only means that an object has changed since it was read; else the error."""
    is_stale = isinstance(error, AlreadyExists | Conflict | NotFound)
    return PairMoved() if is_stale or (isinstance(error, Unreachable) and error.ambiguous) else error
