"""Revision selector: chooses the revision of an environment, and builds it if an input has changed."""

from collections.abc import Sequence

from msgspec import structs

from syncline.api.configsync import SourceRevision
from syncline.controllers.errors import SyncError
from syncline.controllers.sources.build import BuildRequest, RevisionBuilder
from syncline.controllers.sources.environments import BuiltSync, is_reconcile_requested
from syncline.controllers.sources.git import GitSources
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.controllers.state import SyncState, UnitState
from syncline.core.digest import short_digest
from syncline.core.environments import EnvironmentSpec, choose_revision, state_of
from syncline.core.revisions import HeadRevision
from syncline.git import Commit


class RevisionSelector:
    """Prepares one environment after the other."""

    def __init__(self, origins: GitSources, builds: RevisionBuilder) -> None:
        self._origins = origins
        self._builds = builds

    async def prepare(
        self, request: BuildRequest, sync: BuiltSync, state: SyncState, unready: SyncError | None
    ) -> PreparedRevision:
        """Prepare the revision of an environment. If it cannot be read or built, the applied revision stays."""
        status = sync.status
        recorded = state_of(request.environment, status)
        known = state.unit(request.environment.name)
        prepared = PreparedRevision(
            environment=request.environment, recorded=recorded, revision=recorded.revision, artifact=known.artifact
        )
        try:
            prepared, commits = await self._choose(request, prepared, known, requested=is_reconcile_requested(sync))
            trouble = prepared.problem
            prepared = await self._build(request, prepared, commits, known, unready)
        except SyncError as problem:
            tried = prepared.decision.commit if prepared.decision is not None else None
            return structs.replace(prepared, problem=problem, certain=False, attempted=tried or "")
        return prepared if trouble is None else structs.replace(prepared, problem=trouble, certain=False)

    async def _choose(
        self, request: BuildRequest, prepared: PreparedRevision, known: UnitState, *, requested: bool
    ) -> tuple[PreparedRevision, dict[str, Commit]]:
        """Choose the commits to apply. Raises `SyncError` if there are none."""
        environment = request.environment
        if environment.git is None:
            heads = {
                one.folder: await self._origins.head(request.requester, one.git)
                for one in environment.sources
                if one.git
            }
            return prepared, heads
        trouble: SyncError | None = None
        head: Commit | None = None
        try:
            head = await self._origins.head(request.requester, environment.git)
        except SyncError as problem:
            trouble = problem
        news = HeadRevision(
            await self._effective_revision(request, prepared, known, head) if head else None, str(trouble or "")
        )
        decision = choose_revision(
            request.spec, environment, prepared.recorded, news, health=known.health, requested=requested
        )
        if decision.reason == "NotFound":
            trouble = SyncError("RollbackNotFound", decision.why, stalled=True)
        if decision.commit is None:
            raise trouble or SyncError("RevisionNotFound", decision.why)
        chosen = head if head is not None and decision.reason == "Head" else Commit(decision.commit)
        # A rollback does not need the newest commit of the source.
        trouble = trouble if decision.reason in ("HeadUnknown", "NotFound") else None
        return structs.replace(prepared, decision=decision, problem=trouble), {environment.sources[0].folder: chosen}

    async def _effective_revision(
        self, request: BuildRequest, prepared: PreparedRevision, known: UnitState, head: Commit
    ) -> str:
        """Return the effective revision of the head: a commit that changes no input of the environment is not new.

        Otherwise an unrelated push would retry a failed revision, or would prevent its rollback.
        """
        recorded = prepared.recorded
        if (
            request.spec.failure_policy != "Rollback"
            or request.environment.rollback is not None
            or recorded.revision is None
        ):
            return head.sha
        source_tree = await self._origins.source_tree(
            request.requester, request.environment, {request.environment.sources[0].folder: head}
        )
        artifact = await self._builds.make(request, source_tree, known.candidate, head.sha)
        known.candidate = artifact
        if artifact.inputs == recorded.inputs:
            return recorded.revision
        if artifact.inputs == known.failed and recorded.rollback is not None:
            return recorded.rollback.requested
        return head.sha

    async def _build(
        self,
        request: BuildRequest,
        prepared: PreparedRevision,
        commits: dict[str, Commit],
        known: UnitState,
        unready: SyncError | None,
    ) -> PreparedRevision:
        """Build the chosen revision, unless no input has changed."""
        requester, environment, recorded = request.requester, request.environment, prepared.recorded
        revisions = [
            await self._origins.revision(requester, one, commits.get(one.folder)) for one in environment.sources
        ]
        revision = revisions[0].revision if len(revisions) == 1 else short_digest(*(one.revision for one in revisions))
        held = prepared.decision is not None and prepared.decision.held
        before = known.chosen if held else known.candidate
        source_tree = await self._origins.source_tree(requester, environment, commits)
        artifact = await self._builds.make(request, source_tree, before or known.artifact, revision)
        if not held:
            known.candidate = artifact
        if unready is not None and artifact.inputs not in (
            known.artifact.inputs if known.artifact else "",
            recorded.inputs,
        ):
            return structs.replace(prepared, problem=unready)
        # While no input has changed, the status stays as it is: an unrelated push costs no write.
        changed = artifact.inputs != recorded.inputs or held or recorded.rollback is not None or request.force_report
        known.chosen = artifact
        return structs.replace(
            prepared,
            artifact=artifact,
            source_tree=source_tree,
            certain=True,
            revision=revision if changed or prepared.revision is None else prepared.revision,
            revisions=_if_many(revisions) if changed else tuple(_known_revisions(request.environment, prepared)),
        )


def _if_many(revisions: Sequence[SourceRevision]) -> tuple[SourceRevision, ...]:
    return tuple(revisions) if len(revisions) > 1 else ()


def _known_revisions(environment: EnvironmentSpec, prepared: PreparedRevision) -> Sequence[SourceRevision]:
    return prepared.recorded.revisions if len(environment.sources) > 1 else ()
