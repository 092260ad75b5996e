"""Finds out what a track is to apply: chooses the revision, and builds it unless nothing that goes in has changed."""

from collections.abc import Sequence

from msgspec import structs

from syncline.api.configsync import ConfigSyncStatus, SourceRevision
from syncline.controllers.building import Builds, Commission
from syncline.controllers.configsynckind import is_requested
from syncline.controllers.laps import Lap, SyncMemory, TrackMemory, choose
from syncline.controllers.origins import Origins
from syncline.controllers.reporting import AnySync, Problem
from syncline.controllers.tracks import Track, course_of
from syncline.core.digest import short_digest
from syncline.core.revisions import Head
from syncline.git import Commit


class Preparer:
    """Prepares one track after the other."""

    def __init__(self, origins: Origins, builds: Builds) -> None:
        self._origins = origins
        self._builds = builds

    async def prepare(self, asked: Commission, sync: AnySync, memory: SyncMemory, waits_for: Problem | None) -> Lap:
        """Find out what a track is to apply. What cannot be read or built leaves what was applied in place."""
        status = sync.status
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        course = course_of(asked.track, status)
        known = memory.track(asked.track.name)
        lap = Lap(track=asked.track, course=course, revision=course.revision, made=known.made)
        if not status.observed_generation:
            self._builds.warm()  # a new sync has everything built, once it is fetched
        try:
            lap, commits = await self._choose(asked, lap, known, requested=is_requested(sync))
            trouble = lap.problem
            lap = await self._build(asked, lap, commits, known, waits_for)
        except Problem as problem:
            tried = lap.decision.commit if lap.decision is not None else None
            return structs.replace(lap, problem=problem, certain=False, attempted=tried or "")
        return lap if trouble is None else structs.replace(lap, problem=trouble, certain=False)

    async def _choose(
        self, asked: Commission, lap: Lap, known: TrackMemory, *, requested: bool
    ) -> tuple[Lap, dict[str, Commit]]:
        """Choose the commits to apply. Raises `Problem` where there is none at all."""
        track = asked.track
        if track.git is None:
            heads = {one.folder: await self._origins.head(asked.asking, one.git) for one in track.strands if one.git}
            return lap, heads
        trouble: Problem | None = None
        head: Commit | None = None
        try:
            head = await self._origins.head(asked.asking, track.git)
        except Problem as problem:
            trouble = problem
        news = Head(await self._meaning(asked, lap, known, head) if head else None, str(trouble or ""))
        decision = choose(asked.spec, track, lap.course, news, health=known.health, requested=requested)
        if decision.reason == "NotFound":
            trouble = Problem("RollbackNotFound", decision.why, stalled=True)
        if decision.commit is None:
            raise trouble or Problem("RevisionNotFound", decision.why)
        chosen = head if head is not None and decision.reason == "Head" else Commit(decision.commit)
        # A rollback does not need to know what the source is at now.
        trouble = trouble if decision.reason in ("HeadUnknown", "NotFound") else None
        return structs.replace(lap, decision=decision, problem=trouble), {track.strands[0].folder: chosen}

    async def _meaning(self, asked: Commission, lap: Lap, known: TrackMemory, head: Commit) -> str:
        """Return the revision that the head comes to: one that changes nothing for this track is no new one.

        Otherwise an unrelated push would have a revision that failed tried again, or never be gone back from.
        """
        course = lap.course
        if asked.spec.failure_policy != "Rollback" or asked.track.rollback is not None or course.revision is None:
            return head.sha
        forest = await self._origins.forest(asked.asking, asked.track, {asked.track.strands[0].folder: head})
        made = await self._builds.make(asked, forest, known.candidate, head.sha)
        known.candidate = made
        if made.inputs == course.inputs:
            return course.revision
        if made.inputs == known.failed and course.rollback is not None:
            return course.rollback.requested
        return head.sha

    async def _build(
        self, asked: Commission, lap: Lap, commits: dict[str, Commit], known: TrackMemory, waits_for: Problem | None
    ) -> Lap:
        """Build what was chosen, unless nothing that goes into it has changed."""
        asking, track, course = asked.asking, asked.track, lap.course
        revisions = [await self._origins.revision(asking, one, commits.get(one.folder)) for one in track.strands]
        revision = revisions[0].revision if len(revisions) == 1 else short_digest(*(one.revision for one in revisions))
        held = lap.decision is not None and lap.decision.held
        before = known.chosen if held else known.candidate
        forest = await self._origins.forest(asking, track, commits)
        made = await self._builds.make(asked, forest, before or known.made, revision)
        if not held:
            known.candidate = made
        if waits_for is not None and made.inputs not in (known.made.inputs if known.made else "", course.inputs):
            return structs.replace(lap, problem=waits_for)
        # While nothing that goes in has changed, the status stays as it is: an unrelated push costs no write.
        changed = made.inputs != course.inputs or held or course.rollback is not None or asked.telling
        known.chosen = made
        return structs.replace(
            lap,
            made=made,
            forest=forest,
            certain=True,
            revision=revision if changed or lap.revision is None else lap.revision,
            revisions=_listed(revisions) if changed else tuple(_revisions(asked.track, lap)),
        )


def _listed(revisions: Sequence[SourceRevision]) -> tuple[SourceRevision, ...]:
    return tuple(revisions) if len(revisions) > 1 else ()


def _revisions(track: Track, lap: Lap) -> Sequence[SourceRevision]:
    return lap.course.revisions if len(track.strands) > 1 else ()
