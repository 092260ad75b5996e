"""Templates of gateways: `{{ gateway.name }}`, or in the notation of Go templates, `{{.GatewayName}}`.

| Variable | In Go templates | Value |
|---|---|---|
| `gateway.name` | `.GatewayName` | the name of the gateway |
| `gateway.pod` | `.PodName` | the name of its pod |
| `gateway.ordinal` | `.PodOrdinal` | its index in a StatefulSet, else the number at the end of its name, else 0 |
| `gateway.servicePath` | `.ServicePath` | the annotation `service-path` of the pod; empty without it |
| `namespace` | `.Namespace` | the namespace of the pod |
| `sync.name` | `.CRName` | the name of the sync |
| `ref`, `commit` | `.Ref`, `.Commit` | the ref and the commit of the files |
| `vars.KEY` | `.Vars.KEY` | a variable of the spec |
| `labels.KEY` | `.Labels.KEY` | a label of the pod; also `labels["KEY"]` and `index .Labels "KEY"` |

There are no functions, filters or conditions. A name without a value is an error.
"""

import re
from collections.abc import Mapping

from syncline.core.placeholders import TemplateError, fill, path_of

__all__ = ["MAX_RENDERED", "TemplateError", "is_template", "render"]

MAX_RENDERED = 64 * 1024 * 1024
"""The maximum length of a rendered text."""

_GO_NAMES = {
    "GatewayName": "gateway.name",
    "PodName": "gateway.pod",
    "PodOrdinal": "gateway.ordinal",
    "ServicePath": "gateway.servicePath",
    "Namespace": "namespace",
    "CRName": "sync.name",
    "Ref": "ref",
    "Commit": "commit",
    "SiteNumber": "vars.siteNumber",
}
_GO_MAPS = {"Vars": "vars", "Labels": "labels"}
_INDEX = re.compile(r'index\s+\.(Vars|Labels)\s+"([^"]*)"').fullmatch


def render(text: str, values: Mapping[str, str]) -> str:
    """Return a template with its values, by their names in the table above. Raises `TemplateError`. Pure.

    A value is never read as a template. The time is proportional to the length of the text and of the result.
    """
    return fill(text, values, name_of=_name_of, limit=MAX_RENDERED)


def is_template(text: str) -> bool:
    """Whether a text has an expression."""
    return "{{" in text


def _name_of(expression: str) -> str:
    if found := _INDEX(expression):
        return f"{_GO_MAPS[found[1]]}.{found[2]}"
    if not expression.startswith("."):
        return path_of(expression)
    word, _, key = expression[1:].partition(".")
    if key and word in _GO_MAPS:
        return f"{_GO_MAPS[word]}.{key}"
    return _GO_NAMES.get(expression[1:], expression)
