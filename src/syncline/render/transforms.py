"""The transforms of a sync: set, replace and template, in order, for the matching keys.

It is pure, but not safe: a template or a pattern can need too much memory or time, or overflow the stack of the
template engine. It runs in a worker (`syncline.render.workers.transform`), which can crash.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence

import minijinja
import re2

from syncline.api.content import Replace, Transform
from syncline.core.selectors import glob_matches, is_glob
from syncline.render.errors import TransformError
from syncline.render.workers.protocol import TEXT, TransformSource, TransformTarget

SIZE_LIMIT = 1024 * 1024
"""The maximum size of the values of one ConfigMap, in bytes, by the API server."""

FUEL = 10_000_000
"""The maximum steps of one template: about half a second."""

PATTERN_MEMORY = 2 * 1024 * 1024
"""The maximum size of one compiled pattern, in bytes."""

# Variables are strings: a dict would be a Python object in the template, whose methods can be called. The engine itself
# creates the mappings, on the first line, so that line numbers stay correct.
_SOURCE = (
    '{% set source = {"namespace": source_namespace, "name": source_name, "kind": source_kind} if source_kind '
    'else {"namespace": source_namespace, "name": source_name} %}'
)
_TARGET = '{% set target = {"namespace": target_namespace, "name": target_name, "cluster": target_cluster} %}'

_MENTIONS_TARGET = re2.compile(r"\btarget\b")
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)

# Kinds of template errors whose detail quotes only the template, never the values.
_QUOTES_TEMPLATE = frozenset({"SyntaxError", "UnknownFilter", "UnknownFunction", "UnknownMethod", "UnknownTest"})
_CAUSES = {
    "InvalidOperation": "an operation that its operands do not allow, such as text + number",
    "OutOfFuel": "takes too many steps; loop over less",
    "TemplateNotFound": "include, import and extends are not available",
}
_THERE_ARE = "an undefined value; there are {}source.namespace, source.name{}, target.namespace, target.name and {}"
_UNDEFINED = _THERE_ARE.format("value, key, ", "", "target.cluster")
_UNDEFINED_IN_TEXT = _THERE_ARE.format("", ", source.kind", "target.cluster")

_LONGEST_CAUSE = 120

Step = Callable[[str, str, "_Variables"], str]
"""Returns the new value for a key, its value and the variables. Raises `_WrongError`."""
_Variables = Mapping[str, str]


class _InvalidTransformError(Exception):
    """The cause of a failed step, before its transform and key are known."""

    def __init__(self, cause: str, line: int | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.line = line


def apply(
    transforms: Sequence[Transform],
    data: Mapping[str, str],
    binary: Mapping[str, str],
    source: TransformSource,
    target: TransformTarget | None,
) -> dict[str, str]:
    """Return `data` after the transforms; `binary` is not changed, but its keys and size count.

    `target` may be None if `uses_target` is false.
    """
    return Transformer(transforms).apply(data, binary, source, target)


def uses_target(transforms: Sequence[Transform]) -> bool:
    """Whether the result may differ between targets.

    It only searches the text, so it is safe for untrusted templates, and true in case of doubt. (The analysis of the
    engine misses `{% set target = target.name %}`.)
    """
    return any(
        transform.template is not None and _MENTIONS_TARGET.search(transform.template) for transform in transforms
    )


class Transformer:
    """Transforms, compiled once and applied for any number of targets."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._transforms = list(transforms)
        self._steps: list[Step] = []
        engine = new_engine()
        for index, transform in enumerate(transforms):
            try:
                self._steps.append(_compile(engine, str(index), transform))
            except _InvalidTransformError as error:
                raise TransformError(index, transform.key, error.cause, line=error.line) from None

    def apply(
        self,
        data: Mapping[str, str],
        binary: Mapping[str, str],
        source: TransformSource,
        target: TransformTarget | None,
    ) -> dict[str, str]:
        """Return the data for one target."""
        variables = _variables(source, target)
        result = dict(data)
        room = SIZE_LIMIT - sum(map(_size, data.values())) - sum(map(_decoded_size, binary.values()))
        for index, (transform, step) in enumerate(zip(self._transforms, self._steps, strict=True)):
            if transform.key in binary:
                raise TransformError(index, transform.key, "the key is in binaryData, which is not transformed")
            for key in self._keys(index, result):
                before = result.get(key, "")
                try:
                    after = step(key, before, variables)
                    room += _size(before) - _size(after)
                    if room < 0:
                        raise _too_large("the data of a ConfigMap")
                except _InvalidTransformError as error:
                    raise TransformError(index, key, error.cause, line=error.line) from None
                result[key] = after
        return result

    def _keys(self, index: int, data: Mapping[str, str]) -> list[str]:
        transform = self._transforms[index]
        if is_glob(transform.key):
            return [key for key in data if glob_matches(transform.key, key)]
        return [transform.key] if transform.key in data or transform.set is not None else []


class TextTemplate:
    """A separate text, such as a patch or a name, compiled once and rendered for any number of targets."""

    def __init__(self, template: str) -> None:
        self.uses_target = bool(_MENTIONS_TARGET.search(template))
        try:
            self._render = _template(new_engine(), TEXT, template, _UNDEFINED_IN_TEXT)
        except _InvalidTransformError as error:
            raise _wrong_text(error) from None

    def render(self, source: TransformSource, target: TransformTarget | None) -> str:
        """Return the text for one target; None is enough if the text does not use it."""
        try:
            return self._render(_variables(source, target))
        except _InvalidTransformError as error:
            raise _wrong_text(error) from None


def _wrong_text(error: _InvalidTransformError) -> TransformError:
    return TransformError(None, TEXT, error.cause, line=error.line)


def _variables(source: TransformSource, target: TransformTarget | None) -> dict[str, str]:
    variables = {"source_namespace": source.namespace, "source_name": source.name, "source_kind": source.kind}
    if target is not None:
        variables |= {
            "target_namespace": target.namespace,
            "target_name": target.name,
            "target_cluster": target.cluster,
        }
    return variables


def _compile(engine: minijinja.Environment, name: str, transform: Transform) -> Step:
    match transform.set, transform.replace, transform.template:
        case str() as value, None, None:
            return lambda _key, _value, _variables: value
        case None, Replace() as replace, None:
            return _replace(replace)
        case None, None, str() as template:
            render = _template(engine, name, template, _UNDEFINED)
            return lambda key, value, variables: render({**variables, "key": key, "value": value})
        case _:
            raise _InvalidTransformError("needs exactly one of set, replace and template")


def new_engine(*, names: bool = False) -> minijinja.Environment:
    """Return a strict engine with a limit of steps and no introspection; `names`: errors name undefined variables."""
    engine = minijinja.Environment(
        fuel=FUEL,
        undefined_behavior="strict",
        auto_escape_callback=lambda _name: False,
        keep_trailing_newline=True,
        debug=names,
    )
    # It would show all variables, and so the target, to templates that do not name the target.
    engine.remove_global("debug")
    return engine


def _template(engine: minijinja.Environment, name: str, template: str, undefined: str) -> Callable[[_Variables], str]:
    prelude = _SOURCE + (_TARGET if _MENTIONS_TARGET.search(template) else "")
    try:
        engine.add_template(name, prelude + template)
    except minijinja.TemplateError as error:
        raise _wrong_template(error, undefined) from None

    def render(variables: _Variables) -> str:
        try:
            result = engine.render_template(name, **variables)
        except minijinja.TemplateError as error:
            raise _wrong_template(error, undefined) from None
        return _checked(result)

    return render


def _wrong_template(error: minijinja.TemplateError, undefined: str) -> _InvalidTransformError:
    return _InvalidTransformError(undefined if error.kind == "UndefinedError" else template_cause(error), error.line)


def template_cause(error: minijinja.TemplateError) -> str:
    """Return why a template failed, without values."""
    if error.kind in _QUOTES_TEMPLATE and error.detail:
        return _short(error.detail)
    return _CAUSES.get(error.kind, f"the template failed ({error.kind})")


def _replace(replace: Replace) -> Step:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    try:
        pattern = re2.compile(replace.pattern, options)
    except re2.error as error:
        raise _InvalidTransformError(f"the pattern is not RE2: {_text(error)}") from None
    pieces = _replacement(replace.with_, pattern.groups)

    def step(_key: str, value: str, _variables: _Variables) -> str:
        result = io.StringIO()
        end = 0
        for found in pattern.finditer(value):
            start, after = found.span()
            result.write(value[end:start])
            for piece in pieces:
                result.write(piece if isinstance(piece, str) else found[piece] or "")
            end = after
            if result.tell() > SIZE_LIMIT:
                raise _too_large("a value")
        result.write(value[end:])
        return _checked(result.getvalue())

    return step


def _replacement(text: str, groups: int) -> list[str | int]:
    r"""Split a replacement into text and group numbers; \1 to \9, \0 is the whole match, \\ is a backslash."""
    pieces: list[str | int] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        pieces.append(text[end : found.start()])
        end = found.end()
        match found[1]:
            case "\\":
                pieces.append("\\")
            case digit if digit.isascii() and digit.isdigit():
                if int(digit) > groups:
                    raise _InvalidTransformError(f"the replacement names group \\{digit}; the pattern has {groups}")
                pieces.append(int(digit))
            case _:
                raise _InvalidTransformError(
                    r"a backslash in the replacement starts a group such as \1; write \\ for itself"
                )
    pieces.append(text[end:])
    return [piece for piece in pieces if piece != ""]


def _size(value: str) -> int:
    return len(value.encode())


def _decoded_size(base64: str) -> int:
    return len(base64) // 4 * 3 - base64[-2:].count("=")


def _checked(value: str) -> str:
    if _size(value) > SIZE_LIMIT:
        raise _too_large("a value")
    return value


def _too_large(what: str) -> _InvalidTransformError:
    return _InvalidTransformError(f"the result is larger than 1 MiB, the limit for {what}")


def _text(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    return _short(detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CAUSE else text[:_LONGEST_CAUSE] + "..."
