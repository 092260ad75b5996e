"""The worker process for transforms: `python -I -m syncline.render.workers.transform`.

It confines itself, then serves jobs until its input ends. It holds nothing of one job while it works on the next. When
a job takes too much memory, the worker dies; its parent says so.
"""

import time
from collections.abc import Callable, Iterator

from syncline.api.content import Replace, Transform
from syncline.render.errors import TransformError
from syncline.render.transforms import TextTemplate, Transformer, uses_target
from syncline.render.workers.confinement import TRANSFORM_MEMORY, confine
from syncline.render.workers.loop import serve
from syncline.render.workers.protocol import (
    TEXT,
    Done,
    JobRefused,
    Ready,
    Rendered,
    Repeated,
    TargetAnswer,
    TargetsJob,
    TextJob,
    TransformJob,
    TransformSource,
    TransformTarget,
    decode_transform_job,
)

TURN_SECONDS = 0.25
TURN_BYTES = 4 * 1024 * 1024
"""A batch ends with the target that exceeds one of these limits, so that other jobs do not wait for large jobs."""


def work(job: TargetsJob) -> Iterator[TargetAnswer | Done]:
    """Yield the answers to a job, target by target, up to the last target or the end of the batch."""
    started = time.monotonic()
    sent = 0
    last: dict[str, str] | None = None
    try:
        render, shared = _renderer(job)
    except TransformError as error:
        yield _refused(error)
        yield Done(shared=True)
        return
    for target in job.targets:
        try:
            changed = render(None if shared else target)
            yield Repeated() if changed == last else Rendered(changed)
            last = changed
            sent += sum(map(len, changed.values()))
        except TransformError as error:
            yield _refused(error)
            last = None
        if shared or sent > TURN_BYTES or time.monotonic() - started > TURN_SECONDS:
            break
    yield Done(shared)


def _renderer(job: TargetsJob) -> tuple[Callable[[TransformTarget | None], dict[str, str]], bool]:
    """Compile a job: return the function for the values of a target, and whether all targets share the result."""
    if isinstance(job, TextJob):
        text = TextTemplate(job.template)
        return lambda target: {TEXT: text.render(job.source, target)}, not text.uses_target
    recipe = Transformer(job.transforms)

    def changed(target: TransformTarget | None) -> dict[str, str]:
        result = recipe.apply(job.data, job.binary, job.source, target)
        return {key: value for key, value in result.items() if job.data.get(key) != value}

    return changed, not uses_target(job.transforms)


def _refused(error: TransformError) -> JobRefused:
    return JobRefused(error.index, error.key, error.cause, error.line)


def main() -> None:
    """Confine this process, then serve jobs."""
    _rehearse()
    seccomp = confine(TRANSFORM_MEMORY)
    _rehearse()
    serve(Ready(seccomp), decode_transform_job, work)


def _rehearse() -> None:
    """Run each kind of job once: before the confinement, to load all modules; afterwards, to check that they work."""
    steps = [
        Transform(key="*", replace=Replace(pattern="(a+)", with_=r"\1b")),
        Transform(key="*", template="{{ value|upper }}{{ target.name }}"),
        Transform(key="*", template="{{ missing }}"),
    ]
    targets = [TransformTarget("namespace", "name")]
    for transforms in (steps[:2], steps):
        list(work(TransformJob(transforms, {"key": "aa"}, {}, TransformSource("namespace", "name"), targets)))
    for template in ("{{ source.kind }}{{ target.cluster }}", "{{ missing }}"):
        list(work(TextJob(template, TransformSource("namespace", "name", "kind"), targets)))


if __name__ == "__main__":
    main()
