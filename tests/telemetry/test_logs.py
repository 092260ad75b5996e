"""One event a line, for machines or for people, whoever logs it."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from syncline.telemetry import configure

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Return what was logged as JSON since the last call."""
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_json_is_one_object_a_line(lines: Lines) -> None:
    configure("json", "info")
    structlog.get_logger("syncline.engine").info("synced", sync="team/settings", target="other/settings", revision="42")
    (line,) = lines()
    assert list(line) == ["timestamp", "level", "logger", "event", "sync", "target", "revision"]
    assert line["timestamp"].endswith("Z")
    assert {**line, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "logger": "syncline.engine",
        "event": "synced",
        "sync": "team/settings",
        "target": "other/settings",
        "revision": "42",
    }


def test_what_libraries_log_looks_the_same(lines: Lines) -> None:
    configure("json", "info")
    logging.getLogger("some.library").warning("retrying %s", "https://user:pass@example.test")
    (line,) = lines()
    assert line["logger"] == "some.library"
    assert line["level"] == "warning"
    assert line["event"] == "retrying https://[redacted]@example.test"


def test_warnings_are_logged(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure("json", "info")
        warnings.warn("this will go away", stacklevel=1)
        logging.captureWarnings(capture=False)
    (line,) = lines()
    assert line["logger"] == "py.warnings"
    assert "this will go away" in line["event"]


def test_an_exception_is_one_field(lines: Lines) -> None:
    configure("json", "info")

    def fail(password: str) -> None:
        raise ValueError(f"refused by https://user:{password}@example.test")

    try:
        fail("canary")
    except ValueError:
        structlog.get_logger().exception("failed")
        logging.getLogger("some.library").exception("failed")
    for line in lines():
        (exception,) = line["exception"]
        assert exception["exc_type"] == "ValueError"
        assert exception["exc_value"] == "refused by https://[redacted]@example.test"
        assert [frame["name"] for frame in exception["frames"]][-1] == "fail"
        assert "canary" not in json.dumps(line)


def test_secrets_do_not_get_through(lines: Lines) -> None:
    configure("json", "info")
    structlog.get_logger().info(
        "read", data={"a": "canary"}, nested={"token": "canary"}, error=ValueError("token=canary")
    )
    (line,) = lines()
    assert "canary" not in json.dumps(line)


def test_context_is_part_of_each_line(lines: Lines) -> None:
    configure("json", "info")
    with structlog.contextvars.bound_contextvars(sync="team/settings"):
        structlog.get_logger().info("first")
        logging.getLogger("some.library").warning("second")
    structlog.get_logger().info("third")
    assert [line.get("sync") for line in lines()] == ["team/settings", "team/settings", None]


def test_lines_below_the_level_are_dropped(lines: Lines) -> None:
    configure("json", "warning")
    structlog.get_logger().info("no")
    logging.getLogger("some.library").info("no")
    structlog.get_logger().warning("yes")
    assert [line["event"] for line in lines()] == ["yes"]


def test_configuring_again_replaces_what_was(lines: Lines) -> None:
    log = structlog.get_logger()
    configure("console", "error")
    configure("json", "debug")
    log.debug("once")
    assert [line["event"] for line in lines()] == ["once"]


def test_anything_can_be_logged(lines: Lines) -> None:
    configure("json", "info")
    structlog.get_logger().info("odd \ud800 text", number=float("inf"), thing=object, bytes=b"\xff")
    (line,) = lines()
    assert line["number"] == "inf"


def test_the_console_form_is_for_reading_and_has_no_colours_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", "info")
    structlog.get_logger("syncline").info("synced", sync="team/settings", token="canary")
    text = capsys.readouterr().err
    assert "synced" in text
    assert "sync=team/settings" in text
    assert "\x1b" not in text
    assert "canary" not in text


def test_text_from_the_cluster_cannot_forge_a_line_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", "info")
    structlog.get_logger().info("bad\nname", message="\x1b[2Jx\r\ny")
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_an_exception_on_the_console_is_redacted_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", "info")
    try:
        raise ValueError("https://user:canary@example.test")  # noqa: TRY301 - it is about the trace
    except ValueError:
        structlog.get_logger().exception("failed")
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "ValueError: https://[redacted]@example.test" in text
