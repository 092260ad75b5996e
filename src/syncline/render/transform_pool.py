"""Transforms data and renders texts for targets, in workers (`workers/`): patches, names and the values of keys.

A job of many targets gives its slot up after each turn, so that it keeps nobody else waiting.
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
"""How many jobs run at once, one of them out of reach of a single namespace."""

TARGETS_PER_TURN = 250
"""How many targets are named to a child at once; it may do fewer."""

SECONDS_PER_TARGET = 0.05
"""What a job may take on average per target, on top of the deadline that each single target has."""

RESULT_LIMIT = 64 * 1024 * 1024
BYTES_PER_KEY = 64
"""What the results of one job may take of the operator's memory, all targets together; and what each key takes."""


_BREACH = "broke the protocol of their worker"

Result = dict[str, str] | TransformError
"""What a target gets: its data, or why there is none."""


def is_template(text: str) -> bool:
    """Whether a text is anything but itself when it is rendered."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


class TransformPool:
    """Transforms data for targets, in workers that are started when there is work and end when there is none."""

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

        Where a transform is wrong for a target, its `TransformError` stands in place of the data: the others are served
        all the same. Raises it when it is wrong for all, and `RenderFailed` when the work took too much time or memory,
        now or a short while ago; both then with the same message.
        """
        if not transforms:
            return [dict(data)] * len(targets)
        return await self._perform(TransformJob(list(transforms), dict(data), dict(binary), source, list(targets)))

    async def texts(
        self, template: str, source: TransformSource, targets: Sequence[TransformTarget]
    ) -> list[str | TransformError]:
        """Return a text, such as a patch or a name, for each target, in their order.

        A text that is no template is returned as it is, and no child is asked. Otherwise as `transform`.
        """
        if not is_template(template):
            return [template] * len(targets)
        results = await self._perform(TextJob(template, source, list(targets)))
        return [result if isinstance(result, TransformError) else result[TEXT] for result in results]

    async def close(self) -> None:
        """End all workers; jobs under way fail with `RenderFailed`."""
        await self._pool.close()

    async def _perform(self, job: TargetsJob) -> list[Result]:
        # Whose sync it is counts, not whose object: what many read is nobody's to spoil for the others.
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
    """What has been rendered of a job so far."""

    def __init__(self, job: TargetsJob) -> None:
        self._targets = job.targets
        self._data: dict[str, str] = job.data if isinstance(job, TransformJob) else {}
        self._is_text = isinstance(job, TextJob)
        self._size = 0
        self.all: list[Result] = []

    def add(self, answers: Sequence[Answer]) -> None:
        """Take the answers of a turn; each is for the next target, and the last says how the turn ended."""
        *answers, done = answers
        if not isinstance(done, Done) or not 0 < len(answers) <= len(self._targets) - len(self.all):
            raise WorkerStopped(_BREACH)
        for answer in answers:
            match answer:
                case Rendered(changed) if not self._is_text or TEXT in changed:
                    self._size += sum(map(len, changed.values())) + BYTES_PER_KEY * (len(self._data) or 1)
                    if self._size > RESULT_LIMIT:
                        raise WorkerStopped(f"gave more than {RESULT_LIMIT >> 20} MiB for {len(self._targets)} targets")
                    # Values that did not change stay the same objects, for all targets.
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
