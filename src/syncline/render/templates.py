"""Files that are Jinja templates. They are rendered as text before the build.

Values become literals before the template, not objects: a template cannot call methods of the operator, and has only
the written values. There is one pass: a value that looks like a template is not rendered. It runs in a worker, which
can crash.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import minijinja

from syncline.render.build_spec import has_marks
from syncline.render.errors import BuildError
from syncline.render.transforms import new_engine, template_cause

SIZE_LIMIT = 4 * 1024 * 1024
"""The maximum size of a rendered file in bytes."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TAKEN = frozenset(
    {
        *("values", "loop", "self", "super", "caller", "varargs", "kwargs"),
        *(
            "and",
            "or",
            "not",
            "in",
            "is",
            "if",
            "else",
            "elif",
            "for",
            "true",
            "false",
            "none",
            "True",
            "False",
            "None",
        ),
        *("range", "dict", "namespace", "lipsum", "cycler", "joiner", "debug", "set", "import", "from", "as", "with"),
    }
)
_UNDEFINED = "a name without a value"
_NAMED = re.compile(r"`[^`\n]{1,80}` is undefined\Z")
_DEEPEST = 50


class FileTemplates:
    """Renders files with the same values."""

    def __init__(self, values: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        known = {"values": values, **variables}
        for name, value in values.items():
            if _WORD.match(name) and name not in _TAKEN:
                known.setdefault(name, value)
        # One line, so that line numbers stay correct.
        self._prelude = "".join(f"{{% set {name} = {_literal(value)} %}}" for name, value in known.items())
        self._known = ", ".join(["values", *variables])

    def render(self, path: str, content: bytes) -> bytes:
        """Return the rendered file; a file without marks of templates, or that is not text, is unchanged."""
        if not has_marks(content):
            return content
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        engine = new_engine(names=True)
        try:
            engine.add_template(path, self._prelude + text)
            result = engine.render_template(path).encode()
        except minijinja.TemplateError as error:
            cause = self._undefined(error) if error.kind == "UndefinedError" else template_cause(error)
            raise BuildError(f"the template: {cause}", file=path, line=error.line or 0) from None
        if len(result) > SIZE_LIMIT:
            raise BuildError(f"the template gives more than {SIZE_LIMIT >> 20} MiB", file=path)
        return result

    def _undefined(self, error: minijinja.TemplateError) -> str:
        named = error.detail if error.detail and _NAMED.match(error.detail) else _UNDEFINED
        return f"{named}; there are {self._known} and the names in values"


def _literal(value: Any, depth: int = 0) -> str:
    """Return a value in the template language, where null is none."""
    if depth > _DEEPEST:
        raise BuildError(f"the values are nested more than {_DEEPEST} deep")
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case dict():
            inside = (f"{json.dumps(str(key))}: {_literal(each, depth + 1)}" for key, each in value.items())
            return "{" + ", ".join(inside) + "}"
        case list() | tuple():
            return "[" + ", ".join(_literal(each, depth + 1) for each in value) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)
