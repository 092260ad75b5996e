"""Structured logs, one event a line: JSON for machines, or a console form for people.

Our own events carry the fields `kind`, `sync`, `target`, `cluster` and `revision` where they are about one.
Warnings, and what libraries log through the standard library, take the same way and the same redaction.
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

# Their chatter is of no use to who runs the operator, at any level.
_QUIET = ("aiohttp.access", "asyncio")


class _OurHandler(logging.StreamHandler[TextIO]):
    """Known by its class, so that configuring again replaces it."""


def configure(format: LogFormat = "json", level: LogLevel = "info") -> None:  # noqa: A002 - the flag's name
    """Send all logs of this process to standard error in this form, from this level on. May be called again."""
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
    """Escape what would move the cursor or start a line of its own; names and messages come from the cluster."""
    return {
        name: _escaped(value) if isinstance(value, str) and name != "exception" else value
        for name, value in event.items()
    }


def _escaped(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
