"""Sends local edits to the depot: found, debounced, checked, sent once, and recorded.

Sent edits are recorded in the folder, so that a restart does not send them again. A repeated edit changes nothing: the
branch already has it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

import msgspec
import structlog

from syncline.agent.depot_client import DepotClient, DepotError
from syncline.agent.edit_scan import EditChangedError, FoundEdits, content_problem, find_edits, read_edit
from syncline.agent.folder_sync import FolderSync
from syncline.agent.gateway_sync import GatewaySync
from syncline.agent.state import SentEdits, load_edits, store_edits
from syncline.core.edit_paths import EditRules
from syncline.core.gateway_plan import (
    MAX_REPORTED_EDITS,
    ChangedFile,
    ChangeRequest,
    GatewayPlan,
    ReportedEdits,
    ReportedRefusal,
)
from syncline.core.local_edits import Debounce, LocalEdit
from syncline.files.errors import FilesError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 10.0
"""The minimum time between two searches. With many files it is longer, to limit their cost."""
FILES_PER_SECOND = 100
LONGEST_LOOK = 600.0
SOONEST_LOOK = 0.5
FIRST_RETRY, LAST_RETRY = 5.0, 600.0
BATCH_LINE = 192 * 1024
BATCH_BYTES = 200 * 1024 * 1024
"""The maximum size of one request: of its first line, and of its files."""
_SHOWN = 300
_REFUSED = (400, 403, 413, 422)


class EditSender:
    """The local edits of one gateway."""

    def __init__(self, sync: GatewaySync, depot: DepotClient) -> None:
        self._sync = sync
        self._depot = depot
        self._plan: GatewayPlan | None = None
        self._news = asyncio.Event()
        self._sent: SentEdits | None = None
        self._refused: dict[str, tuple[str, str]] = {}
        self._found = FoundEdits()
        self._debounce = Debounce(0.0)
        self._retry_at = 0.0
        self._delay = FIRST_RETRY
        self._problem = ""
        self.conflicts: tuple[str, ...] = ()
        self.reported: Callable[[], None] = lambda: None
        """Called when the report has changed."""
        self.on_settled: Callable[[], None] = lambda: None
        """Called when edits were sent or refused, so that the files of Git can replace them."""
        self.settlements = 0
        """The number of these calls."""

    def follow(self, plan: GatewayPlan, conflicts: tuple[str, ...] = ()) -> None:
        """Watch for edits of a plan from now on. It is published, or is about to be."""
        if plan != self._plan or conflicts != self.conflicts:
            self._plan, self.conflicts = plan, conflicts
        self._news.set()

    def settled(self) -> Mapping[str, str]:
        """Return the hashes of edits that were sent, or are never sent, by path."""
        sent = self._sent.files if self._sent is not None else {}
        return {**sent, **{path: known for path, (known, _) in self._refused.items()}}

    @property
    def report(self) -> ReportedEdits | None:
        """Return the report about edits; None if the plan sends no edits back."""
        if self._plan is None or self._plan.send_back is None or self._sent is None:
            return None
        sent = self._sent
        shown = sorted(self._refused.items())[:MAX_REPORTED_EDITS]
        return ReportedEdits(
            branch=sent.branch[:_SHOWN],
            commit=sent.commit,
            pull_request=sent.pull_request[:_SHOWN],
            sent=len(sent.files),
            files=tuple(path[:_SHOWN] for path in sorted(sent.files)[:MAX_REPORTED_EDITS]),
            waiting=len(self._unsent()),
            refused=tuple(ReportedRefusal(path[:_SHOWN], why[:_SHOWN]) for path, (_, why) in shown),
            conflicts=tuple(path[:_SHOWN] for path in self.conflicts[:MAX_REPORTED_EDITS]),
            problem=(self._problem or self._found.problem)[:_SHOWN],
        )

    async def run(self) -> None:
        """Send edits until cancelled."""
        wait: float | None = None
        while True:
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            before = self.report
            try:
                wait = await self._look()
            except FilesError as error:
                log.warning("edits cannot be looked for", error=str(error))
                self._problem, wait = str(error), LAST_RETRY
            if self.report != before:
                self.reported()

    async def _look(self) -> float | None:
        """Find edits once, and send those that are due. Return the seconds until the next search."""
        plan, folder = self._plan, self._sync.folder
        usable = plan is not None and plan.action == "Publish" and not plan.check.dry_run
        if plan is None or plan.send_back is None or folder is None or not usable or not self._sync.has_good_copy:
            return None
        if self._debounce.seconds != plan.send_back.debounce_seconds:
            self._debounce = Debounce(plan.send_back.debounce_seconds)
        rules = EditRules(plan)
        self._found = await self._sync.run(find_edits, folder, rules)
        await self._tidy(folder, plan)
        now = time.monotonic()
        due = self._debounce.due({path: edit.hash for path, edit in self._unsent().items()}, now)
        if now >= self._retry_at and (due or self._is_unopened()):
            await self._send(folder, plan, due)
        return self._wait(folder)

    async def _tidy(self, folder: FolderSync, plan: GatewayPlan) -> None:
        """Forget sent files that are no longer edits: Git has them, or somebody has reverted them."""
        sent = self._sent if self._sent is not None else await self._sync.run(load_edits, folder.folder)
        branch = plan.send_back.branch if plan.send_back is not None else ""
        if sent.branch != branch:
            kept = SentEdits(branch=branch)
        else:
            files = {path: known for path, known in sent.files.items() if path in self._found.edits}
            kept = msgspec.structs.replace(sent, files=files, unopened=sent.unopened and bool(files))
        if kept != sent:
            await self._sync.run(store_edits, folder.folder, kept)
        self._sent = kept
        named = self._found.refused
        content = {
            path: (known, why)
            for path, (known, why) in self._refused.items()
            if path in self._found.edits and self._found.edits[path].hash == known
        }
        if named != {path: one for path, one in self._refused.items() if path in named}:
            for path, (_, why) in named.items():
                log.warning("an edit is not sent", file=path, cause=why)
            self._refused = {**content, **named}
            self._settle()
        self._refused = {**content, **named}

    def _unsent(self) -> dict[str, LocalEdit]:
        sent = self._sent.files if self._sent is not None else {}
        return {
            path: edit
            for path, edit in self._found.edits.items()
            if sent.get(path) != edit.hash and path not in self._refused
        }

    def _is_unopened(self) -> bool:
        return self._sent is not None and self._sent.unopened

    def _wait(self, folder: FolderSync) -> float:
        usual = min(max(LOOK_SECONDS, len(folder.manifest.files) / FILES_PER_SECOND), LONGEST_LOOK)
        now = time.monotonic()
        if self._retry_at > now and (self._unsent() or self._is_unopened()):
            return max(SOONEST_LOOK, min(usual, self._retry_at - now))
        rest = self._debounce.wait(now)
        return usual if rest is None else max(SOONEST_LOOK, min(usual, rest))

    async def _send(self, folder: FolderSync, plan: GatewayPlan, due: frozenset[str]) -> None:
        """Send edits that are due, and edits whose branch still lacks its pull request."""
        assert plan.send_back is not None  # noqa: S101 - the caller has looked
        if not plan.send_back.branch:
            self._fail("the operator has no branch for edits: see the condition BidirectionalReady", LAST_RETRY)
            return
        sent = self._sent.files if self._sent is not None else {}
        again = frozenset(path for path in sent if self._is_unopened() and path in self._found.edits)
        if len(sent.keys() | due) > plan.send_back.max_files:
            count = len(sent.keys() | due)
            message = f"{count} edits are more than guardrails.maxFilesPerPR ({plan.send_back.max_files}): none is sent"
            self._fail(message, LAST_RETRY)
            return
        edits = [self._found.edits[path] for path in sorted(due | again)]
        try:
            edits = [edit for edit in edits if not await self._is_refused(folder, edit)]
            for batch in _batches(edits):
                await self._send_batch(folder, plan, batch)
        except EditChangedError as changed:
            log.info("an edit goes on; it is sent later", file=str(changed))
        except DepotError as error:
            log.warning("edits could not be sent", error=str(error))
            self._fail(str(error), LAST_RETRY if error.status in _REFUSED else 0.0, error.retry_after)
        else:
            self._delay = FIRST_RETRY

    async def _is_refused(self, folder: FolderSync, edit: LocalEdit) -> bool:
        if edit.deleted:
            return False
        why = await self._sync.run(content_problem, folder, edit)
        if why:
            log.warning("an edit is not sent", file=edit.path, cause=why)
            self._refused[edit.path] = edit.hash, why
            self._settle()
        return bool(why)

    async def _send_batch(self, folder: FolderSync, plan: GatewayPlan, batch: Sequence[LocalEdit]) -> None:
        files = tuple(
            ChangedFile(edit.path, 0 if edit.deleted else edit.size, edit.deleted, edit.base) for edit in batch
        )
        request = ChangeRequest(plan.id, plan.commit, files)
        answer = await self._depot.changes(request, self._contents(folder, batch))
        log.info("edits sent", files=len(batch), branch=answer.branch, commit=answer.commit, pr=answer.pull_request)
        before = self._sent if self._sent is not None else SentEdits()
        self._sent = SentEdits(
            branch=answer.branch,
            commit=answer.commit,
            pull_request=answer.pull_request or before.pull_request,
            files={**before.files, **{edit.path: edit.hash for edit in batch}},
            unopened=bool(answer.problem),
        )
        await self._sync.run(store_edits, folder.folder, self._sent)
        self._debounce.sent(edit.path for edit in batch)
        self._problem = ""
        if answer.problem:
            self._fail(answer.problem, LAST_RETRY)
        self._settle()

    async def _contents(self, folder: FolderSync, batch: Sequence[LocalEdit]) -> AsyncIterator[bytes]:
        for edit in batch:
            if edit.deleted:
                continue
            chunks = read_edit(folder, edit)
            while chunk := await self._sync.run(next, chunks, b""):
                yield chunk

    def _settle(self) -> None:
        self.settlements += 1
        self.on_settled()

    def _fail(self, problem: str, delay: float = 0.0, retry_after: float = 0.0) -> None:
        self._problem = problem
        self._retry_at = time.monotonic() + max(delay or self._delay, retry_after)
        self._delay = min(self._delay * 2, LAST_RETRY)


def _batches(edits: Sequence[LocalEdit]) -> Iterator[list[LocalEdit]]:
    batch: list[LocalEdit] = []
    line = size = 0
    for edit in edits:
        cost = len(edit.path.encode()) * 2 + 200
        if batch and (line + cost > BATCH_LINE or size + edit.size > BATCH_BYTES):
            yield batch
            batch, line, size = [], 0, 0
        batch.append(edit)
        line, size = line + cost, size + edit.size
    if batch:
        yield batch
