"""The operator's side of rendering: a few children, kept warm while there is work, killed when a job misbehaves.

Jobs take turns, fairly between the namespaces of their syncs, and a job of many targets gives its place up after each
turn. One child is always out of reach of a single namespace, so hostile jobs of one keep nobody else waiting. They are
killed after a deadline and not tried again for a while; and when they are, they may not take the last free child.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Self

import msgspec

from syncline.api.content import Transform
from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.render.child import Child, ChildCrashed
from syncline.render.confinement import MEMORY_LIMIT
from syncline.render.crew import Crew
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.jobs import (
    TEXT,
    Answer,
    AnyJob,
    Done,
    Job,
    Refused,
    Rendered,
    Repeated,
    Source,
    Target,
    TextJob,
)
from syncline.render.quarantine import Quarantine

WORKERS = 3
"""How many jobs run at once, one of them out of reach of a single namespace."""

TARGETS_PER_TURN = 250
"""How many targets are named to a child at once; it may do fewer."""

SECONDS_PER_TARGET = 0.05
"""What a job may take on average per target, on top of the deadline that each single target has."""

RESULT_LIMIT = 64 * 1024 * 1024
BYTES_PER_KEY = 64
"""What the results of one job may take of the operator's memory, all targets together; and what each key takes."""


Result = dict[str, str] | TransformError
"""What a target gets: its data, or why there is none."""


def is_template(text: str) -> bool:
    """Whether a text is anything but itself when it is rendered."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


class _StoppedError(Exception):
    """The job itself is to blame; the message says for what."""


class Renderer:
    """Transforms data for targets, in children that are started when there is work and end when there is none."""

    def __init__(self, *, workers: int = WORKERS, deadline: float = 5.0, unconfined: bool = False) -> None:
        self._deadline = deadline
        self._workers = workers
        self._turns = FairSemaphore(workers, share=max(1, workers - 1))
        self._turns_of_suspects = FairSemaphore(max(1, workers - 1))
        self._quarantine = Quarantine()
        self._crew = Crew(Child, unconfined=unconfined)

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
        source: Source,
        targets: Sequence[Target],
    ) -> list[Result]:
        """Return the data for each target, in their order; equal results are one shared dict, not to be changed.

        Where a transform is wrong for a target, its `TransformError` stands in place of the data: the others are served
        all the same. Raises it when it is wrong for all, and `RenderFailed` when the work took too much time or memory,
        now or a short while ago; both then with the same message.
        """
        if not transforms:
            return [dict(data)] * len(targets)
        return await self._perform(Job(list(transforms), dict(data), dict(binary), source, list(targets)))

    async def texts(self, template: str, source: Source, targets: Sequence[Target]) -> list[str | TransformError]:
        """Return a text, such as a patch or a name, for each target, in their order.

        A text that is no template is returned as it is, and no child is asked. Otherwise as `transform`.
        """
        if not is_template(template):
            return [template] * len(targets)
        results = await self._perform(TextJob(template, source, list(targets)))
        return [result if isinstance(result, TransformError) else result[TEXT] for result in results]

    async def _perform(self, job: AnyJob) -> list[Result]:
        digest = job.digest()
        now = asyncio.get_running_loop().time
        if held := self._quarantine.holds(digest, now()):
            raise RenderFailed(held.reason, retry_after=held.seconds)
        try:
            suspect = digest in self._quarantine
            async with (
                self._turns_of_suspects.slot(on_behalf_of.get() or job.source.namespace) if suspect else nullcontext()
            ):
                results = await self._render(job)
        except _StoppedError as stopped:
            held = self._quarantine.add(digest, str(stopped), now())
            raise RenderFailed(held.reason, retry_after=held.seconds) from None
        self._quarantine.release(digest)
        return results

    async def close(self) -> None:
        """End all children; jobs under way fail with `RenderFailed`."""
        await self._crew.close(self._turns, self._workers)

    async def _render(self, job: AnyJob) -> list[Result]:
        now = asyncio.get_running_loop().time
        results = _Results(job)
        budget = self._deadline + SECONDS_PER_TARGET * len(job.targets)
        # Whose sync it is counts, not whose object: what many read is nobody's to spoil for the others.
        tenant = on_behalf_of.get() or job.source.namespace
        while rest := job.targets[len(results.all) :]:
            async with self._turns.slot(tenant), self._crew.lend() as child:
                started = now()
                answers, done = await self._turn(child, msgspec.structs.replace(job, targets=rest[:TARGETS_PER_TURN]))
                budget -= now() - started
            results.add(answers, done)
            if budget < 0:
                raise _StoppedError(
                    f"{_subject(job)} took too long for {len(job.targets)} targets and were stopped; make them simpler"
                )
        return results.all

    async def _turn(self, child: Child, job: AnyJob) -> tuple[list[Answer], Done]:
        try:
            async with asyncio.timeout(self._deadline):
                return await child.perform(job)
        except TimeoutError:
            raise _StoppedError(
                f"{_subject(job)} took longer than {self._deadline:g} s and were stopped; make them simpler"
            ) from None
        except ChildCrashed:
            self._crew.refuse_when_closed()
            raise _StoppedError(
                f"{_subject(job)} took more than {MEMORY_LIMIT >> 20} MiB of memory or nest too deeply, "
                "and were stopped; make them simpler"
            ) from None


def _subject(job: AnyJob) -> str:
    return "the transforms" if isinstance(job, Job) else "the templates"


class _Results:
    """What has been rendered of a job so far."""

    def __init__(self, job: AnyJob) -> None:
        self._targets = job.targets
        self._data: dict[str, str] = job.data if isinstance(job, Job) else {}
        self._is_text = isinstance(job, TextJob)
        self._size = 0
        self.all: list[Result] = []

    def add(self, answers: Sequence[Answer], done: Done) -> None:
        """Take the answers of a turn; each is for the next target."""
        for answer in answers:
            match answer:
                case Rendered(changed) if not self._is_text or TEXT in changed:
                    self._size += sum(map(len, changed.values())) + BYTES_PER_KEY * (len(self._data) or 1)
                    if self._size > RESULT_LIMIT:
                        raise _StoppedError(
                            f"the results for {len(self._targets)} targets are larger than "
                            f"{RESULT_LIMIT >> 20} MiB in all; split the sync"
                        )
                    # Values that did not change stay the same objects, for all targets.
                    self.all.append(self._data | changed)
                case Repeated() if self.all:
                    self.all.append(self.all[-1])
                case Refused(index, key, cause, line):
                    if done.shared:
                        raise TransformError(index, key, cause, line=line)
                    target = str(self._targets[len(self.all)])
                    self.all.append(TransformError(index, key, cause, line=line, target=target))
                case _:
                    raise _StoppedError("the process for rendering broke its protocol")
        if done.shared:
            self.all *= len(self._targets)
