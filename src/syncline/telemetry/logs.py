"""Structured logs, one event in each line: JSON for machines, or a console format for people.

Events of Syncline have the fields `kind`, `sync`, `target`, `cluster` and `revision`, if they refer to one. Warnings
and the log records of libraries have the same format and the same redaction.
"""

import json
import logging
import os
import sys
from typing import Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from syncline.telemetry.redaction import redact

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_FIRST = ("timestamp", "level", "logger", "event")
_FRAMES = 20

# Their log records do not help the users of the operator, at any level.
_QUIET = ("aiohttp.access", "asyncio")


class _OurHandler(logging.StreamHandler[TextIO]):
    """The handler has its own class, so that a second configuration replaces it."""


def configure(format: LogFormat = "json", level: LogLevel = "info") -> None:  # noqa: A002 - the flag's name
    """Send all logs of this process to standard error, in this format and from this level on. Can be repeated."""
    arrive: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *arrive,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = _OurHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=arrive,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_json() if format == "json" else _console(sys.stderr)),
            ],
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _OurHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def _json() -> list[Processor]:
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES, use_rich=False)
    return [structlog.processors.ExceptionRenderer(frames), _redacted, _ordered, _one_line_of_json]


def _console(stream: TextIO) -> list[Processor]:
    colours = stream.isatty() and "NO_COLOR" not in os.environ
    return [
        structlog.processors.format_exc_info,
        _redacted,
        _printable,
        structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback),
    ]


def _redacted(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return cast("EventDict", redact(event))


def _ordered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: event[name] for name in _FIRST if name in event} | dict(event)


def _one_line_of_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return json.dumps(event)


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters and newlines, because names and messages come from the cluster."""
    return {
        name: _escaped(value) if isinstance(value, str) and name != "exception" else value
        for name, value in event.items()
    }


def _escaped(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
