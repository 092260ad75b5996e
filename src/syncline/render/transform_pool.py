"""Transforms data and renders texts for targets, in workers (`workers/`): patches, names and the values of keys.

A job of many targets releases its slot after each batch, so that other jobs do not wait for it.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import msgspec

from syncline.api.content import Transform
from syncline.fairness import on_behalf_of
from syncline.render.errors import TransformError
from syncline.render.workers.pool import WorkerPool, WorkerStopped
from syncline.render.workers.process import TRANSFORM
from syncline.render.workers.protocol import (
    TEXT,
    Answer,
    Done,
    JobRefused,
    Rendered,
    Repeated,
    TargetsJob,
    TextJob,
    TransformJob,
    TransformSource,
    TransformTarget,
)

WORKERS = 3
"""The number of concurrent jobs; a single namespace gets all but one."""

TARGETS_PER_TURN = 250
"""The maximum number of targets in a batch; a worker may do fewer."""

SECONDS_PER_TARGET = 0.05
"""The average time for each target of a job; each single target has its own deadline."""

RESULT_LIMIT = 64 * 1024 * 1024
BYTES_PER_KEY = 64
"""The maximum memory for the results of one job, for all targets; and the memory for each key."""


_BREACH = "broke the protocol of their worker"

Result = dict[str, str] | TransformError
"""The result for a target: its data, or an error."""


def is_template(text: str) -> bool:
    """Whether a text contains marks of templates."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


class TransformPool:
    """Transforms data for targets, in workers that are started for work and end without work."""

    def __init__(self, *, workers: int = WORKERS, deadline: float = 5.0, unconfined: bool = False) -> None:
        self._deadline = deadline
        self._pool = WorkerPool(TRANSFORM, workers=workers, deadline=deadline, unconfined=unconfined)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def transform(
        self,
        transforms: Sequence[Transform],
        data: Mapping[str, str],
        binary: Mapping[str, str],
        source: TransformSource,
        targets: Sequence[TransformTarget],
    ) -> list[Result]:
        """Return the data for each target, in their order; equal results are one shared dict, not to be changed.

        If a transform fails for a target, the result is its `TransformError`, and the other targets get their data.
        Raises it if it fails for all targets, and `RenderFailed` if the work takes too much time or memory, or did so
        recently, with the same message.
        """
        if not transforms:
            return [dict(data)] * len(targets)
        return await self._perform(TransformJob(list(transforms), dict(data), dict(binary), source, list(targets)))

    async def texts(
        self, template: str, source: TransformSource, targets: Sequence[TransformTarget]
    ) -> list[str | TransformError]:
        """Return a text, such as a patch or a name, for each target, in their order.

        A text that is not a template is returned unchanged, without a worker. Otherwise as `transform`.
        """
        if not is_template(template):
            return [template] * len(targets)
        results = await self._perform(TextJob(template, source, list(targets)))
        return [result if isinstance(result, TransformError) else result[TEXT] for result in results]

    async def close(self) -> None:
        """End all workers. Current jobs fail with `RenderFailed`."""
        await self._pool.close()

    async def _perform(self, job: TargetsJob) -> list[Result]:
        # It counts for the tenant of the sync, not of the source: syncs of several tenants can read one source.
        tenant = on_behalf_of.get() or job.source.namespace
        subject = "the transforms" if isinstance(job, TransformJob) else "the templates"

        def reason(cause: str) -> str:
            return f"{subject} {cause} and were stopped; make them simpler, or split the sync"

        async with self._pool.supervised(job.digest(), tenant, reason):
            return await self._render(job, tenant)

    async def _render(self, job: TargetsJob, tenant: str) -> list[Result]:
        results = _Results(job)
        budget = self._deadline + SECONDS_PER_TARGET * len(job.targets)
        while rest := job.targets[len(results.all) :]:
            async with self._pool.slot(tenant), self._pool.borrow() as process:
                used = process.used_seconds()
                turn = msgspec.structs.replace(job, targets=rest[:TARGETS_PER_TURN])
                answers = await self._pool.ask(process, turn)
                budget -= process.used_seconds() - used
            results.add(answers)
            if budget < 0:
                raise WorkerStopped(f"took too much processor time for {len(job.targets)} targets")
        return results.all


class _Results:
    """The results of a job so far."""

    def __init__(self, job: TargetsJob) -> None:
        self._targets = job.targets
        self._data: dict[str, str] = job.data if isinstance(job, TransformJob) else {}
        self._is_text = isinstance(job, TextJob)
        self._size = 0
        self.all: list[Result] = []

    def add(self, answers: Sequence[Answer]) -> None:
        """Add the answers of a batch: one for each target, in order, and the last is the end of the batch."""
        *answers, done = answers
        if not isinstance(done, Done) or not 0 < len(answers) <= len(self._targets) - len(self.all):
            raise WorkerStopped(_BREACH)
        for answer in answers:
            match answer:
                case Rendered(changed) if not self._is_text or TEXT in changed:
                    self._size += sum(map(len, changed.values())) + BYTES_PER_KEY * (len(self._data) or 1)
                    if self._size > RESULT_LIMIT:
                        raise WorkerStopped(f"gave more than {RESULT_LIMIT >> 20} MiB for {len(self._targets)} targets")
                    # Unchanged values are shared between all targets.
                    self.all.append(self._data | changed)
                case Repeated() if self.all:
                    self.all.append(self.all[-1])
                case JobRefused(index, key, cause, line):
                    if done.shared:
                        raise TransformError(index, key, cause, line=line)
                    target = str(self._targets[len(self.all)])
                    self.all.append(TransformError(index, key, cause, line=line, target=target))
                case _:
                    raise WorkerStopped(_BREACH)
        if done.shared:
            self.all *= len(self._targets)
