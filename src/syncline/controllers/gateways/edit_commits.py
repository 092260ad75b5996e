"""Commits the edits of gateways: checked, spooled to disk, committed to the target branch, and proposed for review.

Every replica serves the pods that call it. A request is checked before its content is read, and the content is on the
disk of the operator only until the commit is pushed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct

from syncline.api.common import ObjectMeta
from syncline.api.ignition_rollout import Bidirectional
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways import metrics
from syncline.controllers.gateways.plans import GatewaySync, Subject
from syncline.controllers.gateways.repositories import GatewayRepositories
from syncline.controllers.sources.references import Requester
from syncline.core.credential_scan import CredentialScanner
from syncline.core.gateway_edits import (
    AcceptedEdit,
    EditsRefused,
    accept_edits,
    author_of,
    commit_message,
    plain,
    target_branch,
)
from syncline.core.gateway_plan import ChangeAnswer, ChangeRequest, GatewayPlan
from syncline.depot.plans import DepotRefusal
from syncline.git import (
    Commit,
    FileChange,
    GitError,
    Mirrors,
    PullRequestWanted,
    PushedCommit,
    PushRejected,
    PushWanted,
    Refused,
    Remote,
)
from syncline.programs import in_thread

RETRY = 30.0
"""The seconds after which an agent retries."""
_HEADS = "refs/heads/"
_SHORT = 12
_OUTDATED = 409

log = structlog.get_logger(__name__)


class EditHost(Protocol):
    """The reconciler of IgnitionSyncs."""

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes. Raises `SyncError`."""

    async def emit_event(self, sync: ObjectMeta, reason: str, message: str, *, warning: bool = False) -> None:
        """Send an event about a sync."""


class EditCommits:
    """Implements `syncline.controllers.gateways.plans.GatewayChanges`."""

    def __init__(self, host: EditHost, repositories: GatewayRepositories, mirrors: Mirrors) -> None:
        self._host = host
        self._repositories = repositories
        self._mirrors = mirrors

    async def commit(
        self, subject: Subject, plan: GatewayPlan, base: Commit, request: ChangeRequest, content: AsyncIterator[bytes]
    ) -> ChangeAnswer:
        """Commit edits to the repository. Raises `DepotRefusal`, `SyncError` and `KubeError`."""
        try:
            target = await self._target(subject, plan)
            edits = await in_thread(accept_edits, plan, request)
            size = sum(edit.size for edit in edits)
            async with self._mirrors.pushes.spool(target.remote, base, size) as folder:
                changes = await _spooled(folder, edits, content)
                pushed = await self._push(subject, target, base, edits, changes)
        except EditsRefused as refused:
            raise await self._refused(subject, refused) from None
        except GitError as error:
            raise await self._failed(subject, error) from None
        answer = ChangeAnswer(branch=target.branch, commit=pushed.commit)
        return await self._propose(subject, target, answer) if target.back.create_pr else answer

    async def _target(self, subject: Subject, plan: GatewayPlan) -> "_Target":
        """Return the repository and branch for the edits of a pod. Raises `EditsRefused` and `SyncError`."""
        spec = subject.sync.spec
        if spec is None or spec.bidirectional is None:
            raise EditsRefused(403, "the IgnitionSync takes no edits: bidirectional is not enabled")
        back = spec.bidirectional
        branch = target_branch(back.target_branch or "", plan.rules.values, (spec.git.ref, plan.ref))
        remote = await self._repositories.remote(self._host.requester(subject.sync), spec.git)
        if remote.credential is None:
            raise EditsRefused(422, "the IgnitionSync has no credential that can push: write git.auth")
        return _Target(back, plan, remote, branch)

    async def _push(
        self,
        subject: Subject,
        target: "_Target",
        base: Commit,
        edits: Sequence[AcceptedEdit],
        changes: Sequence[FileChange],
    ) -> PushedCommit:
        facts, branch = subject.pod.facts, target.branch
        wanted = PushWanted(
            base=base,
            branch=branch,
            changes=changes,
            author=author_of(target.plan, facts.namespace),
            message=commit_message(target.plan, facts.namespace, facts.pod, edits),
        )
        pushed = await self._mirrors.pushes.push(target.remote, wanted)
        metrics.commits.labels("pushed" if pushed.is_new else "unchanged").inc()
        if pushed.is_new:
            message = f"{len(edits)} files were committed to {branch} ({pushed.commit[:_SHORT]})"
            log.info("edits committed", sync="/".join(subject.pod.sync), pod=facts.pod, branch=branch, files=len(edits))
            await self._host.emit_event(subject.sync.metadata, "EditsCommitted", _of_gateway(subject, message))
        return pushed

    async def _refused(self, subject: Subject, refused: EditsRefused) -> DepotRefusal:
        """Send an event about edits that are never committed; return the answer for the pod."""
        metrics.commits.labels("refused").inc()
        if refused.status == _OUTDATED:
            return DepotRefusal(refused.status, str(refused))
        await self._host.emit_event(
            subject.sync.metadata, "EditsRefused", _of_gateway(subject, str(refused)), warning=True
        )
        return DepotRefusal(refused.status, str(refused), retry_after=RETRY)

    async def _failed(self, subject: Subject, error: GitError) -> DepotRefusal:
        """Send an event about a failed commit; return the answer for the pod, which has only the reason."""
        metrics.commits.labels("failed").inc()
        log.warning("edits cannot be committed", sync="/".join(subject.pod.sync), reason=error.reason, error=str(error))
        message = _of_gateway(subject, f"{error.reason}: {error}")
        await self._host.emit_event(subject.sync.metadata, "EditsNotCommitted", message, warning=True)
        status = 422 if isinstance(error, PushRejected | Refused) else 503
        said = f"the edits cannot be committed ({error.reason}): see the events of the IgnitionSync"
        return DepotRefusal(status, said, retry_after=RETRY)

    async def _propose(self, subject: Subject, target: "_Target", answer: ChangeAnswer) -> ChangeAnswer:
        """Make sure that the branch has an open pull request."""
        plan, remote, back = target.plan, target.remote, target.back
        wanted = PullRequestWanted(
            branch=answer.branch,
            base=await self._base_branch(remote, plan.ref),
            title=f"Edits on gateway {plain(plan.gateway)}",
            body=f"Files that were edited on the gateway {plain(plan.gateway)} of the IgnitionSync"
            f" {subject.pod.facts.namespace}/{plain(plan.sync)}. Review them like those of an unknown author.",
            labels=back.pr_labels,
            provider=None if back.provider == "Auto" else back.provider,
        )
        try:
            opened = await self._mirrors.pull_requests.ensure(remote, wanted)
        except GitError as error:
            log.warning("no pull request", sync="/".join(subject.pod.sync), reason=error.reason, error=str(error))
            message = _of_gateway(subject, f"{answer.branch} has no pull request: {error.reason}: {error}")
            await self._host.emit_event(subject.sync.metadata, "PullRequestFailed", message, warning=True)
            said = f"the branch has no pull request ({error.reason}): see the events of the IgnitionSync"
            return ChangeAnswer(branch=answer.branch, commit=answer.commit, problem=said)
        if opened.is_new:
            metrics.pull_requests.inc()
            await self._host.emit_event(
                subject.sync.metadata,
                "PullRequestOpened",
                _of_gateway(subject, f"{opened.url} proposes {answer.branch}"),
            )
        if opened.problem:
            await self._host.emit_event(
                subject.sync.metadata, "PullRequestFailed", _of_gateway(subject, opened.problem), warning=True
            )
        return ChangeAnswer(branch=answer.branch, commit=answer.commit, pull_request=opened.url)

    async def _base_branch(self, remote: Remote, ref: str) -> str:
        """Return the branch that gateways follow; empty if they follow a tag or a commit."""
        try:
            found = (await self._mirrors.resolve(remote, ref)).ref
        except GitError:
            return ""
        return found.removeprefix(_HEADS) if found.startswith(_HEADS) else ""


class _Target(Struct, frozen=True):
    """The repository and branch for the edits of a gateway."""

    back: Bidirectional
    plan: GatewayPlan
    remote: Remote
    branch: str


async def _spooled(folder: Path, edits: Sequence[AcceptedEdit], content: AsyncIterator[bytes]) -> list[FileChange]:
    """Write the content of edits to files. Raises `EditsRefused` and `DepotRefusal`.

    The depot guarantees that the stream has exactly the sum of their sizes.
    """
    changes: list[FileChange] = []
    rest = b""
    try:
        for number, edit in enumerate(edits):
            if edit.deleted:
                changes.append(FileChange(edit.place, None))
                continue
            place, scanner, left = folder / str(number), CredentialScanner(), edit.size
            with place.open("xb") as file:
                while left:
                    rest = rest or await anext(content)
                    chunk, rest = rest[:left], rest[left:]
                    left -= len(chunk)
                    await asyncio.to_thread(_take, file, scanner, chunk)
            if scanner.found:
                raise EditsRefused(422, f"{edit.path[:120]!r} is not committed: it looks like {scanner.found}")
            changes.append(FileChange(edit.place, place, edit.executable))
    except OSError as error:
        raise SyncError("CacheFailure", f"the edits cannot be stored: {error.strerror}", retry=True) from None
    async for _ in content:  # its end confirms that the body was complete
        raise DepotRefusal(400, "the body is longer than the sizes of its files")
    return changes


def _take(file: BufferedWriter, scanner: CredentialScanner, chunk: bytes) -> None:
    file.write(chunk)
    scanner.feed(chunk)


def _of_gateway(subject: Subject, message: str) -> str:
    return f"gateway {plain(subject.pod.facts.name)} (pod {subject.pod.facts.pod}): {message}"
