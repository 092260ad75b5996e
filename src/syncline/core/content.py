"""Which keys are copied, and under which names."""

from collections.abc import Iterable, Mapping

from syncline.api.content import Keys
from syncline.core.selectors import glob_matches


class ContentError(Exception):
    """The spec cannot be carried out on this content; the message names the keys."""


def select_keys(
    keys: Keys | None, data: Mapping[str, str], binary_data: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Include, exclude and rename; two keys of one name are refused, since one of them would be lost."""
    if keys is None:
        return dict(data), dict(binary_data)
    chosen = [name for name in (*data, *binary_data) if _wanted(keys, name)]
    new_names = {name: keys.rename.get(name, name) for name in chosen}
    _refuse_clashes(new_names)
    return (
        {new_names[name]: data[name] for name in chosen if name in data},
        {new_names[name]: binary_data[name] for name in chosen if name in binary_data},
    )


def source_name(keys: Keys | None, name: str) -> str | None:
    """Return the key of the source that a key of a copy belongs to; None where it is none of the sync's business.

    The way back of `select_keys`.
    """
    if keys is None:
        return name
    back = {new: old for old, new in keys.rename.items()}
    if name not in back and name in keys.rename:
        return None  # the source's key of this name has another one here
    old = back.get(name, name)
    return old if _wanted(keys, old) else None


def _wanted(keys: Keys, name: str) -> bool:
    return (not keys.include or _any(keys.include, name)) and not _any(keys.exclude, name)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(glob_matches(pattern, name) for pattern in patterns)


def _refuse_clashes(new_names: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for old, new in new_names.items():
        if new in taken:
            raise ContentError(
                f"keys.rename gives {taken[new]!r} and {old!r} the same name {new!r}; rename or exclude one of them"
            )
        taken[new] = old
