"""Whether a copy holds what it must hold."""

from tests.churn.api import Json, Place
from tests.churn.history import Edit, History
from tests.churn.names import BOTH_KEY, NOTE, PREFIX
from tests.churn.oracle.wanted import Want, Wishes, clean, decoded

_STRICT_SOURCES = ("d", "e")
"""Two-way sources whose own edits nothing may undo."""


def differences(body: Json, want: Want, *, extras: bool) -> list[str]:
    """Say how an object differs from what is wanted; `extras` forbids labels and annotations of users."""
    kind = want.place[0]
    return [*_fields(clean(kind, body), want.fields), *metadata(body, want, extras=extras)]


def _fields(there: Json, wanted: Json) -> list[str]:
    found = []
    for part in sorted(there.keys() | wanted.keys()):
        if part == "immutable":
            # A mutable source may leave a copy immutable whose content is right.
            found += ["is not immutable"] if wanted.get(part) and not there.get(part) else []
        elif there.get(part) != wanted.get(part):
            found.append(f"{part} is {there.get(part)!r} and not {wanted.get(part)!r}")
    return found


def metadata(body: Json, want: Want, *, extras: bool) -> list[str]:
    """Say how labels and annotations differ."""
    found = []
    for part, wanted in (("labels", want.labels), ("annotations", want.annotations)):
        there = {key: text for key, text in body["metadata"].get(part, {}).items() if not key.startswith(PREFIX)}
        if not extras:
            there = {key: text for key, text in there.items() if key != NOTE}
        if there != dict(wanted):
            found.append(f"{part} are {there!r} and not {dict(wanted)!r}")
    return found


def merged_differences(body: Json, want: Want, history: History) -> list[str]:
    """Say how a copy under `Merge` differs from what must be: the source's keys, and users' own beside them."""
    place = want.place
    there, wanted = clean(place[0], body)["data"], want.fields["data"]
    edits = last_edits(history, place, body["metadata"]["uid"])
    found = metadata(body, want, extras=False)
    for key in sorted(there.keys() | wanted.keys() | edits.keys()):
        if key == BOTH_KEY:
            continue
        if key in wanted and there.get(key) != wanted[key]:
            found.append(f"{key} is {there.get(key)!r} and not the source's {wanted[key]!r}")
        elif key not in wanted and key.startswith("u-"):
            expected = edits[key].value if key in edits else None
            if there.get(key) != expected and place not in history.restored:
                found.append(f"{key} is {there.get(key)!r} and not {expected!r}, as a user left it")
        elif key not in wanted and key in there:
            found.append(f"{key} is {there[key]!r}, and the source does not have it")
    return found


def pair_differences(
    wishes: Wishes, body: Json, source: Json, want: Want, history: History
) -> tuple[list[str], set[str]]:
    """Say how the sides of a two-way sync differ from what must be, and in which states the target may be."""
    there, origin = clean("ConfigMap", body)["data"], clean("ConfigMap", source)["data"]
    found = metadata(body, want, extras=False)
    states = {"Synced"}
    for key in sorted(there.keys() | origin.keys()):
        if there.get(key) == origin.get(key):
            continue
        if wishes.conflict == "Merge" and key == BOTH_KEY:
            states = {"Conflict"}
        elif not (wishes.conflict == "SourceWins" and key not in origin and key.startswith("u-")):
            found.append(f"{key} is {there.get(key)!r} here and {origin.get(key)!r} in the source")
    if wishes.conflict == "Merge" and want.place not in history.restored:
        found += _lost(want, body, source, history)
    if want.source is not None and want.source[2] in _STRICT_SOURCES:
        found += lost_source_edits(want.source, source, history)
    return found, states


def _lost(want: Want, body: Json, source: Json, history: History) -> list[str]:
    """Say which accepted edits of the copy are not on both sides."""
    assert want.source is not None
    there, origin = clean("ConfigMap", body)["data"], clean("ConfigMap", source)["data"]
    uid, source_uid = body["metadata"]["uid"], source["metadata"]["uid"]
    born = min((edit.at for edit in history.edits[want.source] if edit.uid == source_uid), default=None)
    found = []
    for key, edit in last_edits(history, want.place, uid).items():
        if key == BOTH_KEY or born is None or edit.at < born:
            continue
        for side, values in (("here", there), ("in the source", origin)):
            if values.get(key) != edit.value:
                found.append(f"a user's {key}={edit.value!r} is {values.get(key)!r} {side}")
    return found


def lost_source_edits(place: Place, source: Json, history: History) -> list[str]:
    """Say which edits of a source somebody has undone."""
    values = decoded(place[0], source.get("data") or {})
    return [
        f"a user's {key}={edit.value!r} in the source is {values.get(key)!r}"
        for key, edit in last_edits(history, place, source["metadata"]["uid"]).items()
        if key != BOTH_KEY and values.get(key) != edit.value
    ]


def last_edits(history: History, place: Place, uid: str) -> dict[str, Edit]:
    """Return the last edit of each value of an object."""
    return {edit.key: edit for edit in history.edits[place] if edit.uid == uid}


def was_edited(history: History, place: Place, uid: str) -> bool:
    """Whether a user has edited an object."""
    return any(edit.uid == uid for edit in history.edits[place])
