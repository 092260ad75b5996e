"""Keeps the value of a Secret out of what a sync says.

A patch from a Secret reaches objects of other kinds, and an API server quotes the values that it refuses.
"""

import re
from collections.abc import Sequence

from msgspec import Struct, structs

from syncline.api.manifestsync import ManifestSyncSpec, Patch
from syncline.core.outcome import Outcome

_REFUSAL = re.compile(r"(cannot \w+ .{0,600}?: \d{3} \w+): (.*)", re.DOTALL)
# How the server begins to say what is wrong with a field; the path before it is no value.
_FIELD = re.compile(
    r"(?<![\w.\"'])([a-z][\w.\[\]-]{0,200}): "
    r"(?:Invalid value|Unsupported value|Required value|Duplicate value|Forbidden|Too long|Too many|Not found)\b"
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAMED = 5
UNSAID = "what the server says is not repeated, since it may quote the Secret that patchContentRef names"


def discreet(spec: Struct | None, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """Return outcomes that may be shown: of what the server said, no more than names of fields where it may quote."""
    if not _is_patched_from_secret(spec):
        return outcomes
    return [structs.replace(outcome, message=reduced(outcome.message)) for outcome in outcomes]


def reduced(message: str) -> str:
    """Cut the server's own words from a message, but for the fields that they name."""
    refusal = _REFUSAL.search(message)
    if refusal is None:
        return message
    fields = list(dict.fromkeys(_FIELD.findall(_QUOTED.sub('""', refusal[2]))))[:_NAMED]
    see = f", see {', '.join(fields)}" if fields else ""
    return f"{message[: refusal.start()]}{refusal[1]}{see} ({UNSAID})"


def _is_patched_from_secret(spec: Struct | None) -> bool:
    if not isinstance(spec, ManifestSyncSpec):
        return False
    inside = spec.targets.in_cluster
    patches: list[Patch | None] = [spec.patch, inside.patch if inside is not None else None]
    patches += [remote.patch for remote in spec.targets.remote_clusters]
    refs = (patch.patch_content_ref for patch in patches if patch is not None)
    return any(ref is not None and ref.kind == "Secret" for ref in refs)
