"""Splits a stream of chunks into lines, without the limits of a stream reader."""

from collections.abc import AsyncGenerator, AsyncIterator

from syncline.kube.errors import BadAnswer

MAX_LINE = 16 * 1024 * 1024


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield each complete line, without its end.

    A last line without an end is an incomplete event, and a line longer than MAX_LINE is not valid. Both raise
    `BadAnswer`, after the complete lines before them.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if parts:
                parts.append(line)
                line = b"".join(parts)  # noqa: PLW2901  # the line that began in an earlier chunk
                parts, size = [], 0
            if line:
                yield line
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > MAX_LINE:
                raise BadAnswer(f"a line of a watch is longer than {MAX_LINE >> 20} MiB")
    if parts:
        raise BadAnswer("the stream was cut in the middle of an event")
