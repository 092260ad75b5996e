"""One attempt to carry out a plan: assess, fetch, stage, check, publish, apply, verify."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, ParamSpec, TypeVar

import msgspec
import structlog
from msgspec import Struct

from syncline.agent.adapters import Adapter, ApplyError, ApplySession, Availability
from syncline.agent.depot_client import DepotClient, DepotError, PlanOutdatedError
from syncline.agent.folder_sync import CheckError, FolderSync
from syncline.agent.state import AgentState, load_state, store_state, timestamp
from syncline.agent.validation import ask_webhook
from syncline.core.gateway_plan import GatewayPlan, GatewayState, HeldDeletion, ReportedDiff, ReportedSync
from syncline.core.local_edits import HeldEdits
from syncline.core.plan_check import plan_problem
from syncline.core.publish_plan import PublishPlan
from syncline.files.errors import FilesError
from syncline.files.publish import Publication
from syncline.files.stage import BlobDamagedError, BlobWriter

log = structlog.get_logger(__name__)

Retry = Literal["never", "probe", "soon", "rarely"]
"""When to repeat an attempt for the same plan: after a successful probe, after 5 s up to 60 s, or up to 10 minutes."""

_WRITE_SIZE = 1024 * 1024
_NAMED = 3
P = ParamSpec("P")
T = TypeVar("T")


class SyncOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of an attempt."""

    state: GatewayState
    reason: str
    message: str = ""
    retry: Retry = "never"
    changed: ReportedDiff | None = None
    """The number of files that a dry run would change."""
    drifted: tuple[str, ...] = ()
    left: frozenset[str] = frozenset()
    """The drifted files that were not repaired. All others have drifted again if they have."""
    deletion: HeldDeletion | None = None
    conflicts: tuple[str, ...] = ()
    """Files that changed on both sides, and need a decision of a person."""
    waiting: tuple[str, ...] = ()
    """Files that changed on both sides, and are replaced as soon as the edit is sent."""


class GatewaySync:
    """Makes the data folder of one gateway equal to a plan."""

    def __init__(self, data: str, depot: DepotClient, adapter_for: Callable[[GatewayPlan], Adapter]) -> None:
        self._data = data
        self._depot = depot
        self._adapter_for = adapter_for
        # One thread: calls use the folder one after another, and each call runs to its end.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="folder")
        self._waiting: tuple[Adapter, frozenset[str], tuple[str, ...]] | None = None
        self._seen_running = False
        self.folder: FolderSync | None = None
        self.state = AgentState()
        self.began: Callable[[], None] = lambda: None
        """Called when an attempt finds changes to make."""
        self.settled: Callable[[], Mapping[str, str]] = dict
        """Returns the hashes of local edits that were sent, or are never sent, by path."""

    async def open(self) -> FolderSync:
        """Open the folder, if it is not open. Raises `FilesError`."""
        if self.folder is None:
            self.folder = await self._run(FolderSync, self._data)
            self.state = await self._run(load_state, self.folder.folder)
        return self.folder

    async def close(self) -> None:
        """Finish the call in progress, and close the folder."""
        folder = self.folder
        self.folder = None
        if folder is not None:
            await self._run(folder.close)
        self._thread.shutdown()

    @property
    def has_good_copy(self) -> bool:
        """Whether a plan was ever published completely."""
        return self.folder is not None and bool(self.folder.manifest.commit)

    async def carry_out(self, plan: GatewayPlan) -> SyncOutcome:
        """Make the folder equal to a plan, and have the application reload it. Raises only a cancellation."""
        started = time.monotonic()
        self._waiting = None
        try:
            outcome = await self._attempt(plan, started)
        except CheckError as error:
            retry: Retry = "soon" if error.reason == "ValidationFailed" else "rarely"
            outcome = SyncOutcome(state="Error", reason=error.reason, message=str(error), retry=retry)
        except FilesError as error:
            if error.reason == "DiskFull":
                await self._make_room()
            outcome = SyncOutcome(state="Error", reason=error.reason, message=str(error), retry="soon")
        except (DepotError, BlobDamagedError) as error:
            outcome = SyncOutcome(state="Error", reason="FetchFailed", message=str(error), retry="soon")
        except PlanOutdatedError:
            outcome = SyncOutcome(state="Syncing", reason="Syncing", message="there is a newer plan", retry="soon")
        except ApplyError as error:
            state: GatewayState = "Pending" if error.waits else "Error"
            outcome = SyncOutcome(
                state=state, reason=error.reason, message=str(error), retry="probe" if self._waiting else "soon"
            )
        except Exception:
            log.exception("the attempt failed in an unexpected way")
            outcome = SyncOutcome(
                state="Error", reason="AgentFailed", message="the agent failed: see its log", retry="soon"
            )
        await self._record(plan, outcome, time.monotonic() - started)
        return outcome

    async def probe(self) -> bool:
        """Whether the condition that the last attempt waited for is met, as far as a probe can show it."""
        if self._waiting is None:
            return True
        adapter, steps, paths = self._waiting
        if not (await adapter.availability()).running:
            return False
        try:
            await adapter.check(steps, paths)
        except ApplyError as error:
            return not error.waits and error.reason != "DesignerSessionsOpen"
        return True

    async def drifted(self) -> tuple[str, ...]:
        """Return the managed files that somebody has changed. Raises `FilesError`."""
        return await self._run((await self.open()).drifted)

    async def run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a function in the thread of the folder, to its end."""
        return await self._run(function, *arguments, **options)

    async def _attempt(self, plan: GatewayPlan, started: float) -> SyncOutcome:
        if plan.action != "Publish":
            reason = "Paused" if plan.action == "Pause" else "Held"
            return SyncOutcome(state="Pending", reason=reason, message=plan.message)
        if problem := plan_problem(plan):
            return SyncOutcome(state="Error", reason="InvalidPlan", message=f"the plan is refused: {problem}")
        folder = await self.open()
        assessment = await self._run(folder.assess, plan, self.settled())
        if assessment.draft.changes or self.state.pending:
            self.began()
        await self._fetch(folder, plan, assessment.blobs)
        work = await self._run(folder.stage, plan, assessment)
        if work.plan.changes:
            await ask_webhook(plan, work)
        if plan.check.dry_run:
            await self._run(folder.clear_stage)
            return SyncOutcome(state="Synced", reason="DryRun", message=_described(work.plan), changed=work.plan.diff)
        await self._publish_and_apply(folder, plan, work)
        await self._finish(plan, work, started)
        outcome = _outcome(work.plan, assessment.held)
        return msgspec.structs.replace(outcome, left=frozenset({*work.plan.left, *work.plan.waiting}))

    async def _fetch(self, folder: FolderSync, plan: GatewayPlan, blobs: dict[str, int]) -> None:
        async def store(blob: str, size: int, content: AsyncIterator[bytes]) -> None:
            buffer = bytearray()
            writer: BlobWriter = await self._run(folder.blob_writer, blob, size)
            try:
                async for chunk in content:
                    buffer += chunk
                    if len(buffer) >= _WRITE_SIZE:
                        await self._run(writer.write, bytes(buffer))
                        buffer.clear()
                await self._run(writer.write, bytes(buffer))
            except BaseException as error:
                await self._run(writer.__exit__, type(error), error, None)
                raise
            await self._run(writer.__exit__, None, None, None)

        if blobs:
            log.info("fetching files", files=len(blobs), bytes=sum(blobs.values()), commit=plan.commit)
            await self._depot.blobs(plan.id, blobs, store)

    async def _publish_and_apply(self, folder: FolderSync, plan: GatewayPlan, work: Publication) -> None:
        adapter, first = self._adapter_for(plan), not self.has_good_copy
        steps, touched = adapter.steps(work.plan.touched), work.plan.touched
        available = Availability(running=False)
        async with adapter.session() as session:
            if steps and not first:
                available = await adapter.availability()
                if available.running:
                    await self._acquire(session, adapter, steps, touched)
            await self._publish(folder, plan, work, steps)
            pending = frozenset(self.state.pending)
            if not pending:
                return
            if not available.running:
                available = await adapter.availability()
            if not available.running:
                self._waiting = adapter, pending, ()
                raise self._not_running(available)
            self._seen_running = True
            await self._apply(session, adapter, pending, plan)

    async def _acquire(
        self, session: ApplySession, adapter: Adapter, steps: frozenset[str], touched: tuple[str, ...]
    ) -> None:
        try:
            await session.acquire(steps, touched)
        except ApplyError as error:
            if error.waits or error.reason == "DesignerSessionsOpen":
                self._waiting = adapter, steps, touched
            raise

    async def _apply(self, session: ApplySession, adapter: Adapter, pending: frozenset[str], plan: GatewayPlan) -> None:
        try:
            scan = await session.apply(pending, plan)
        except ApplyError as error:
            if error.waits:
                self._waiting = adapter, pending, ()
            raise
        await self._remember(msgspec.structs.replace(self.state, pending=(), scan=scan))
        log.info("the application has taken up the files", scan=scan, commit=plan.commit)

    async def _publish(self, folder: FolderSync, plan: GatewayPlan, work: Publication, steps: frozenset[str]) -> None:
        if work.plan.changes:
            # Stored before the first file changes, so that the steps are still carried out after a crash.
            pending = tuple(sorted({*self.state.pending, *steps}))
            await self._remember(msgspec.structs.replace(self.state, pending=pending))
        snapshot = await self._run(folder.publish, work)
        if snapshot is not None:
            await self._remember(
                msgspec.structs.replace(
                    self.state, snapshot=snapshot.name, snapshot_bytes=snapshot.size, snapshot_at=timestamp()
                )
            )
        if work.plan.changes:
            log.info("published", commit=plan.commit, **msgspec.structs.asdict(work.plan.diff))
        if work.plan.drifted:
            log.warning(
                "somebody has changed managed files",
                files=len(work.plan.drifted),
                some=work.plan.drifted[:_NAMED],
                restored=not work.plan.left,
            )

    def _not_running(self, available: Availability) -> ApplyError:
        if self._seen_running:
            return ApplyError("GatewayUnavailable", f"files are published, and not taken up: {available.message}")
        return ApplyError(
            "GatewayStarting",
            f"files are published; they are scanned when the gateway runs: {available.message}",
            waits=True,
        )

    async def _finish(self, plan: GatewayPlan, work: Publication, started: float) -> None:
        changed = work.plan.diff if work.plan.changes else self.state.changed
        if self.state.synced_plan == plan.id and not work.plan.changes:
            return
        await self._remember(
            msgspec.structs.replace(
                self.state,
                synced_plan=plan.id,
                synced_at=timestamp(),
                seconds=round(time.monotonic() - started, 3),
                changed=changed,
            )
        )

    async def _record(self, plan: GatewayPlan, outcome: SyncOutcome, seconds: float) -> None:
        """Add the result to the history."""
        if self.folder is None or plan.action != "Publish" or outcome.state not in ("Synced", "Error"):
            return
        entry = ReportedSync(timestamp(), plan.commit, outcome.state, round(seconds, 3))
        try:
            await self._remember(self.state.with_result(entry))
        except FilesError as error:
            log.warning("the history could not be stored", error=str(error))

    async def _remember(self, state: AgentState) -> None:
        if self.folder is not None and state != self.state:
            await self._run(store_state, self.folder.folder, state)
            self.state = state

    async def _make_room(self) -> None:
        if self.folder is not None:
            try:
                await self._run(self.folder.clear_stage)
            except FilesError as error:
                log.warning("staged files could not be removed", error=str(error))

    async def _run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run in the thread. A cancellation waits for the end of the call, so that writes to the disk are completed."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, lambda: function(*arguments, **options))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise


def _outcome(plan: PublishPlan, held: HeldEdits) -> SyncOutcome:
    drifted = plan.drifted
    if plan.deletion is not None:
        guarded = plan.deletion
        return SyncOutcome(
            state="Pending",
            reason="DeletionHeld",
            message=f"{guarded.files} of {guarded.of} managed files would be deleted; none of these was. To confirm,"
            f" annotate the sync with syncline.dev/confirm-deletion={guarded.digest}",
            drifted=drifted,
            deletion=guarded,
        )
    if plan.left and held.left.issuperset(plan.left):
        return _edited(plan, held)
    if plan.left:
        shown = ", ".join(sorted(plan.left)[:_NAMED])
        return SyncOutcome(
            state="Synced", reason="Drifted", message=f"somebody has changed {shown}; the files stay", drifted=drifted
        )
    return SyncOutcome(state="Synced", reason="Synced", drifted=drifted)


def _edited(plan: PublishPlan, held: HeldEdits) -> SyncOutcome:
    """Return the outcome of a folder with local edits that stay."""
    if held.conflicts:
        shown = ", ".join(held.conflicts[:_NAMED])
        message = f"Git and the gateway have both changed {shown}: the files stay until both sides have the same"
        return SyncOutcome(
            state="Synced", reason="EditConflict", message=message, drifted=plan.drifted, conflicts=held.conflicts
        )
    shown = ", ".join(sorted(plan.left)[:_NAMED])
    return SyncOutcome(
        state="Synced",
        reason="EditsLeft",
        message=f"{shown} was edited on the gateway and stays, until Git has the same",
        drifted=plan.drifted,
        waiting=held.waiting,
    )


def _described(plan: PublishPlan) -> str:
    diff = plan.diff
    return f"a dry run: {diff.added} files would be added, {diff.modified} modified, {diff.deleted} deleted"
