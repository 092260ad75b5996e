"""Renders the content of a file for a gateway: templates, patches and normalization.

All bytes outside the changed values stay as they are. Files without any of these are not read.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from syncline.core.gateway_plan import FieldValue, GatewayPlan, JsonPatch, PlannedFile
from syncline.core.gateway_templates import TemplateError, render
from syncline.core.json_edit import JsonEditError, has_value, parse_path, set_value, value_at
from syncline.core.path_globs import PathPatterns

MAX_RENDERED_BYTES = 16 * 1024 * 1024
"""The maximum size of a file that is rendered or patched."""

SYSTEM_PROPERTIES = "ignition/system-properties/config.json"
_SYSTEM_NAME = ("systemName",)


class FileContentError(Exception):
    """A file cannot be rendered. The message names the file, and no value."""


class ContentRules(Struct, frozen=True, omit_defaults=True):
    """The templates, patches and values of one file."""

    template: bool = False
    patches: tuple[JsonPatch, ...] = ()
    fields: tuple[FieldValue, ...] = ()
    system_name: str | None = None

    @property
    def any(self) -> bool:
        """Whether the file is changed at all."""
        return self.template or bool(self.patches or self.fields) or self.system_name is not None

    def recipe(self, values: Mapping[str, str], used: tuple[str, ...]) -> str:
        """Return a digest of the rules and of the used values; empty if the file is not changed."""
        if not self.any:
            return ""
        named = [(name, values.get(name)) for name in used]
        return sha256(msgspec.json.encode([self, named], order="deterministic")).hexdigest()


def rules_for(file: PlannedFile, plan: GatewayPlan) -> ContentRules:
    """Return the rules for a file of a plan."""
    mapping = plan.mappings[file.mapping]
    is_json = file.path.endswith(".json")
    named = f"/{file.path}".endswith(f"/{SYSTEM_PROPERTIES}")
    return ContentRules(
        template=mapping.template,
        patches=tuple(patch for patch in mapping.patches if _applies(patch, mapping.destination, file.path)),
        fields=plan.rules.fields if is_json else (),
        system_name=plan.rules.system_name if named else None,
    )


def render_content(
    path: str, content: bytes, rules: ContentRules, values: Mapping[str, str]
) -> tuple[bytes, tuple[str, ...]]:
    """Return the rendered content, and the names of the used values. Raises `FileContentError`."""
    used = _UsedValues(values)
    try:
        text = _text(content)
        if rules.template:
            text = render(text, used)
        for patch in rules.patches:
            for place, template in patch.set.items():
                text = set_value(text, parse_path(place), _typed(render(template, used)))
        text = _with_fields(text, rules)
    except (TemplateError, JsonEditError, UnicodeDecodeError, _BinaryError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise FileContentError(f"{path}: {why}") from None
    return text.encode(), tuple(sorted(used.names))


def _with_fields(text: str, rules: ContentRules) -> str:
    for field in rules.fields:
        place = parse_path(field.json_path)
        if has_value(text, place):
            # A field keeps its type: "7" stays a text if the field was a text.
            was_text = isinstance(value_at(text, place), str)
            text = set_value(text, place, field.value if was_text else _typed(field.value))
    if rules.system_name is not None:
        text = set_value(text, _SYSTEM_NAME, rules.system_name)
    return text


def _applies(patch: JsonPatch, destination: str, path: str) -> bool:
    if not patch.file:
        return path == destination
    below = path.removeprefix(f"{destination}/") if destination else path
    return PathPatterns((patch.file,)).matches(below if below != path or not destination else path.rpartition("/")[2])


def _typed(value: str) -> Any:
    """Parse a value as JSON; if that fails, it is a text."""
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value


def _text(content: bytes) -> str:
    if b"\0" in content:
        raise _BinaryError("it is a binary file, and templates and patches are for text: exclude it from the mapping")
    return content.decode()


class _BinaryError(Exception):
    """A file is not text."""


class _UsedValues(Mapping[str, str]):
    """Values that record which of them were used."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        value = self._values[name]
        self.names.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values
