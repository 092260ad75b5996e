"""Templates with variables and nothing else: `fill("{{ workspace.name }}-{{ namespace }}", variables)`.

There are no filters, loops or calls, so a template costs no more than its length. A quoted text is itself:
`{{ "{{" }}` writes two braces.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

_OPEN, _CLOSE = "{{", "}}"
_QUOTES = ("'", '"')
_LONGEST_SHOWN = 60
_spaces = re.compile(r"\s*").match


class TemplateError(Exception):
    """A template uses an unknown variable or another expression; the message lists the variables."""


def path_of(expression: str) -> str:
    """Return the path of the variable that an expression names."""
    before, found, quoted = expression.partition("[")
    if found and quoted.endswith("]") and quoted[:1] in _QUOTES and quoted[:1] == quoted[-2:-1]:
        return f"{before}.{quoted[1:-2]}"
    return expression


def fill(
    template: str,
    variables: Mapping[str, str],
    *,
    name_of: Callable[[str], str] = path_of,
    limit: int | None = None,
) -> str:
    """Return the template with the values of its variables. Raises `TemplateError`, also above `limit` characters.

    A variable is named by its path, such as `target.labels.zone`. The last part of a path can be quoted in brackets:
    `target.labels["topology.kubernetes.io/zone"]`. `name_of` returns the path that an expression means. The time is
    proportional to the length of the template and of the result.
    """
    written: list[str] = []
    size = position = 0
    while (start := template.find(_OPEN, position)) >= 0:
        value, after = _expression(template, start + len(_OPEN), variables, name_of)
        written += (template[position:start], value)
        size += start - position + len(value)
        position = after
        if limit is not None and size > limit:
            break
    if limit is not None and size + len(template) - position > limit:
        raise TemplateError(f"the result has more than {limit} characters: use fewer or shorter variables")
    return "".join([*written, template[position:]])


def fill_texts(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a JSON value with all texts in it filled; keys of maps stay as they are. Raises `TemplateError`."""
    if isinstance(value, str):
        return fill(value, variables)
    if isinstance(value, Mapping):
        return {name: fill_texts(inside, variables) for name, inside in value.items()}
    if isinstance(value, list):
        return [fill_texts(inside, variables) for inside in value]
    return value


def _expression(
    template: str, start: int, variables: Mapping[str, str], name_of: Callable[[str], str]
) -> tuple[str, int]:
    """Return the value of the expression that begins at a position, and the position after it."""
    begin = _end_of_spaces(template, start)
    if template[begin : begin + 1] in _QUOTES:
        end = template.find(template[begin], begin + 1)
        after = _end_of_spaces(template, end + 1)
        if end > 0 and template.startswith(_CLOSE, after):
            return template[begin + 1 : end], after + len(_CLOSE)
        raise TemplateError(f"a quoted text after {_OPEN} needs its closing quote and then {_CLOSE}")
    end = template.find(_CLOSE, start)
    if end < 0:
        raise TemplateError(f"{_OPEN} is not closed: write {_CLOSE} after the variable")
    expression = template[start:end].strip()
    name = name_of(expression)
    if name not in variables:
        raise TemplateError(_unknown(expression, variables))
    return variables[name], end + len(_CLOSE)


def _end_of_spaces(template: str, start: int) -> int:
    found = _spaces(template, start)
    return start if found is None else found.end()


def _unknown(expression: str, variables: Mapping[str, str]) -> str:
    shown = expression if len(expression) <= _LONGEST_SHOWN else expression[:_LONGEST_SHOWN] + "..."
    known = ", ".join(sorted(variables)) or "none"
    return f"{_OPEN} {shown} {_CLOSE} is no variable here: the variables are {known}"
