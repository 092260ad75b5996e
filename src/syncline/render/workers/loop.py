"""The loop of a worker: it reads jobs from standard input and writes results to standard output."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import BinaryIO, NoReturn, TypeVar

import msgspec
import re2

from syncline.render.workers.framing import LENGTH_BYTES, frame

J = TypeVar("J")


def serve(
    ready: msgspec.Struct, decode: Callable[[bytes], J], work: Callable[[J], Iterable[msgspec.Struct]]
) -> NoReturn:
    """Send `Ready`, then answer jobs. No data of a job stays in memory after the job."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _say(answers, ready)
    while (body := _read(requests)) is not None:
        job = decode(body)
        del body
        for answer in work(job):
            _say(answers, answer)
        del job
        re2.purge()
    # There is nothing to flush or close. A normal exit would need files and threads.
    os._exit(0)


def _read(stream: BinaryIO) -> bytes | None:
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    return stream.read(int.from_bytes(length, "big"))


def _say(stream: BinaryIO, answer: msgspec.Struct) -> None:
    stream.write(frame(answer))
    stream.flush()
