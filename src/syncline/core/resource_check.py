"""Checks files before they are published: valid JSON, and complete resources."""

import codecs
from collections.abc import Callable
from typing import Any

import msgspec

from syncline.core.publish_plan import RESOURCE_FILE

_LONGEST_SHOWN = 80
_CHUNK = 256 * 1024
_SPACE = b" \t\r\n"


class _AnyObject(msgspec.Struct):
    """Skips all members."""


def json_problem(path: str, content: bytes) -> str:
    """Return why a file that should be JSON is not, or an empty text. No value is kept, so large files cost little."""
    if not _is_utf8(content):
        return f"{path} is not UTF-8"
    body = content.removeprefix(codecs.BOM_UTF8).strip(_SPACE)
    if not body:
        return f"{path} is empty, and not JSON"
    try:
        msgspec.json.decode(body if body.startswith(b"{") else b'{"":' + body + b"}", type=_AnyObject)
    except RecursionError:
        return f"{path}: the JSON is nested too deeply"
    except ValueError as error:  # msgspec names the position, and no value
        return f"{path} is not JSON: {error}"
    return ""


def _is_utf8(content: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _CHUNK):
            decoder.decode(content[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def is_json(path: str) -> bool:
    """Whether a file is checked as JSON."""
    return path.endswith(".json")


def resource_problems(path: str, content: Any, exists: Callable[[str], bool]) -> list[str]:
    """Return the files that a `resource.json` lists and that will be missing. Other content is not checked."""
    listed = content.get("files") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        return []
    folder = path.removesuffix(RESOURCE_FILE)
    missing = [
        str(name)[:_LONGEST_SHOWN]
        for name in listed
        if not isinstance(name, str) or not name or ".." in name.split("/") or not exists(folder + name)
    ]
    return [f"{path} lists {name}, which is not there: add the file, or remove it from the list" for name in missing]
