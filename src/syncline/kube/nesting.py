"""JSON that is too deeply nested to be parsed: fields that are too deep are left out, and the rest can be parsed.

The API server stores thousands of levels if a schema allows any content, and parsers accept fewer. One object of one
tenant must not make the objects of others in the same answer unreadable.
"""

import re

MOST_LEVELS = 500
TOO_DEEP = b'"nested too deeply to be read"'
"""Replaces a field that is left out. It is not a struct, so it cannot look like the content of an author."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_METADATA = b'"metadata":'
# metadata.managedFields[].fieldsV1 repeats every level; the rest of the metadata is needed.
_IN_METADATA = 4


def shallow(text: bytes, level: int) -> bytes:
    """Return JSON without the fields of objects that are nested too deeply; `level` is that of the objects in it.

    Of an object, a whole field goes (such as `spec`), of its metadata no more than what is too deep. Raises
    `ValueError` for what is no JSON.
    """
    parts: list[bytes] = []
    opened: list[int] = []
    copied = deepest = 0
    cut = level + 1
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            opened.append(token.start())
            depth = len(opened)
            if depth == level + 1:
                cut = level + (_IN_METADATA if text.endswith(_METADATA, 0, token.start()) else 1)
            deepest = depth if depth <= cut else max(deepest, depth)
        elif token[0] in (b"}", b"]"):
            if not opened:
                raise ValueError("more is closed than was opened")
            start = opened.pop()
            if len(opened) + 1 == cut and deepest > MOST_LEVELS:
                parts += [text[copied:start], TOO_DEEP]
                copied, deepest = token.end(), 0
    return b"".join([*parts, text[copied:]])
