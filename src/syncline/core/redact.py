"""Redaction: keeps the values of Secrets out of what a sync reports.

A patch, a template or a chart can write values of a Secret to objects of other kinds, and an API server quotes the
values that it refuses.
"""

import re
from collections.abc import Sequence

from msgspec import Struct, structs

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.manifestsync import ManifestSyncSpec, Patch
from syncline.core.outcome import Outcome

_REFUSAL = re.compile(r"(cannot \w+ .{0,600}?: \d{3} \w+): (.*)", re.DOTALL)
# The words of the server before the error of a field. The path before them is not a value.
_FIELD = re.compile(
    r"(?<![\w.\"'])([a-z][\w.\[\]-]{0,200}): "
    r"(?:Invalid value|Unsupported value|Required value|Duplicate value|Forbidden|Too long|Too many|Not found)\b"
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAMED = 5
REDACTED = "what the server says is not repeated, since it may quote a Secret that this sync reads"


def redact_outcomes(spec: Struct | None, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """Return outcomes that may be shown: a message of the server that may quote values keeps only names of fields."""
    if not may_contain_secrets(spec):
        return outcomes
    return [structs.replace(outcome, message=strip_server_text(outcome.message)) for outcome in outcomes]


def strip_server_text(message: str) -> str:
    """Remove the message of the server from a text, except the names of fields."""
    refusal = _REFUSAL.search(message)
    if refusal is None:
        return message
    fields = list(dict.fromkeys(_FIELD.findall(_QUOTED.sub('""', refusal[2]))))[:_NAMED]
    see = f", see {', '.join(fields)}" if fields else ""
    return f"{message[: refusal.start()]}{refusal[1]}{see} ({REDACTED})"


def may_contain_secrets(spec: Struct | None) -> bool:
    """Whether the objects of a sync that are not Secrets may contain the value of a Secret."""
    if isinstance(spec, ManifestSyncSpec):
        return _is_patched_from_secret(spec)
    return isinstance(spec, ConfigSyncSpec) and _is_built_from_secret(spec)


def _is_patched_from_secret(spec: ManifestSyncSpec) -> bool:
    inside = spec.targets.in_cluster
    patches: list[Patch | None] = [spec.patch, inside.patch if inside is not None else None]
    patches += [remote.patch for remote in spec.targets.remote_clusters]
    refs = (patch.patch_content_ref for patch in patches if patch is not None)
    return any(ref is not None and ref.kind == "Secret" for ref in refs)


def _is_built_from_secret(spec: ConfigSyncSpec) -> bool:
    sources = [spec.source] if spec.source is not None else spec.sources
    values = [*spec.template.values_from, *(spec.build.helm.values_from if spec.build.helm is not None else ())]
    return (
        spec.decryption is not None
        or any(source.secret_ref is not None for source in sources)
        or any(ref.kind == "Secret" for ref in values)
    )
