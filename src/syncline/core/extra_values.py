"""Values of a ConfigMap or Secret that others added and that stay. The managed fields name their owners."""

from typing import Any

import msgspec
from msgspec import structs

from syncline.core.digest import combined_digest
from syncline.core.objects import Desired, Observed


def extras_unknown(desired: Desired, observed: Observed) -> bool:
    """Whether the owners of the values are unknown until the object is read live.

    They are known if it has exactly the desired or the last sent values: then nobody has added any.
    """
    marker = observed.marker
    as_sent = marker is not None and marker.digest == observed.digest
    return desired.body is None and observed.fields is None and observed.digest != desired.digest and not as_sent


def without_extras(desired: Desired, observed: Observed) -> Observed:
    """Return an object without the values that others added. A desired key never counts as such."""
    if observed.fields is None or observed.value_digests is None:
        return observed
    ours: dict[str, Any] = msgspec.json.decode(observed.fields)
    wanted = {path.partition("/")[2] for path in desired.digests_by_path()}
    kept = {
        path: digest
        for path, digest in observed.value_digests.items()
        if (name := path.partition("/")[2]) in wanted or _is_ours(ours, path.partition("/")[0], name)
    }
    if len(kept) == len(observed.value_digests):
        return observed
    return structs.replace(observed, value_digests=kept, digest=combined_digest(kept), has_extras=True)


def _is_ours(ours: dict[str, Any], part: str, name: str) -> bool:
    return (ours.get(f"f:{part}") or {}).get(f"f:{name}") is not None
