"""What users do to copies, and to the places where copies would go."""

import json

from tests.churn.api import FAR, PATCH, Json, Place, bare, collection_of, place_of
from tests.churn.names import BOTH_KEY, FAR_SPACES, GIT, MARKER, NOTE, OWNER, PRUNE, RECONCILE, TARGETS, WIDE
from tests.churn.operations.actor import Actor
from tests.churn.operations.sources import changed_spec, encoded
from tests.churn.slots import Slot

_STRICT = frozenset({"adopt", "overwrite"})


def _place(actor: Actor) -> tuple[Slot, Place]:
    """Choose where a copy may be."""
    slot = actor.rng.choice([slot for slot in actor.stage.slots if slot.copies])
    kind, name = actor.rng.choice(slot.copies)
    if slot.family == "far":
        return slot, (f"{FAR}/{kind}", actor.rng.choice(FAR_SPACES), name)
    if slot.family == "two":
        return slot, (kind, str(slot.draw(actor.rng)["destinationNamespace"]), name)
    spaces = {"wide": WIDE, "git": GIT}.get(slot.family, TARGETS)
    return slot, (kind, actor.rng.choice(spaces), name)


def _copy(actor: Actor) -> tuple[Slot, Place]:
    """Choose a copy that was there a moment ago, if that can be; pairs more often than others."""
    slots = {name: slot for slot in actor.stage.slots for _, name in slot.copies}
    pairs = [slot for slot in slots.values() if slot.family == "two"]
    if actor.chance(0.3):
        slot = actor.rng.choice(pairs)
        return slot, ("ConfigMap", str(slot.draw(actor.rng)["destinationNamespace"]), slot.copies[0][1])
    kind = actor.rng.choice(("ConfigMap", "ConfigMap", "ConfigMap", "Secret", "Service", "NetworkPolicy", "Widget"))
    spaces: tuple[str, ...] = (*TARGETS, *TARGETS, *WIDE[:4], *GIT)
    if actor.stage.far is not None and actor.chance(0.15):
        kind, spaces = f"{FAR}/{actor.rng.choice(('ConfigMap', 'Secret'))}", FAR_SPACES
    path = collection_of(kind, actor.rng.choice(spaces))
    found = [place_of(kind, body) for body in actor.reach(kind).items(f"{path}?labelSelector={OWNER}")]
    known = [place for place in found if place[2] in slots]
    if not known:
        return _place(actor)
    place = actor.rng.choice(known)
    return slots[place[2]], place


def edit(actor: Actor) -> None:
    """Edit the content of a copy."""
    slot, place = _copy(actor)
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body):
            return
        if not _keeps_edits(slot) and not actor.history.may_touch(place):
            return
        if bare(place[0]) not in ("ConfigMap", "Secret"):
            done = actor.patch(place, {"spec": changed_spec(actor, place[0])})
            actor.history.tell("copy edit", str(place), "ok" if done else "refused")
            return
        values: dict[str, str | None] = {key: actor.text() for key in _keys(actor, slot)}
        if actor.chance(0.2):
            values = dict.fromkeys(values)
        done = actor.patch(place, {"data": encoded(place, values)})
        if done is not None:
            actor.history.edited(place, done["metadata"]["uid"], values)
            _seen_after(actor, place, done)
        actor.history.tell("copy edit", str(place), "ok" if done else "refused", values=values)


def _keeps_edits(slot: Slot) -> bool:
    """Whether edits of this copy are not undone, so that they cannot look like a write loop."""
    return slot.family in ("merge", "skip") or (slot.family == "two" and slot.name != "two-2")


def _keys(actor: Actor, slot: Slot) -> list[str]:
    own = [f"u-{slot.name}-{number}" for number in range(3)]
    if slot.family in ("merge", "two", "skip"):
        return actor.rng.choice(([own[0]], own[1:], [own[0], BOTH_KEY], [BOTH_KEY]))
    return actor.rng.choice((["s0"], ["s0", "s1"], [own[0]]))


def note(actor: Actor) -> None:
    """Put a label or annotation of one's own on a copy."""
    _, place = _copy(actor)
    part = actor.rng.choice(("labels", "annotations"))
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body) or not actor.history.may_touch(place):
            return
        done = actor.patch(place, {"metadata": {part: {NOTE: actor.text()}}})
        if done is not None:
            _seen_after(actor, place, done)
        actor.history.tell("copy note", str(place), "ok" if done else "refused")


def delete(actor: Actor) -> None:
    """Delete a copy."""
    _, place = _copy(actor)
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body) or not actor.history.may_touch(place):
            return
        actor.history.deleted(place)
        done = actor.delete(place)
        actor.history.tell("copy delete", str(place), "ok" if done else "refused")


def put_back(actor: Actor) -> None:
    """Delete a copy and put it back from a backup, marks and all."""
    _, place = _copy(actor)
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body) or not actor.history.may_touch(place):
            return
        actor.history.deleted(place)
        if not actor.delete(place):
            return
        actor.pause(0, 0.3)
        actor.history.restored.add(place)
        made = actor.create(place[0], place[1], _bare(body))
        actor.history.tell("copy put back", str(place), "ok" if made else "refused")


def strip(actor: Actor) -> None:
    """Take the marks off a copy: it is a user's own from then on."""
    slot, place = _copy(actor)
    if slot.family in _STRICT:
        return
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body) or not actor.history.may_touch(place):
            return
        marks = [
            {"op": "test", "path": "/metadata/uid", "value": body["metadata"]["uid"]},
            {"op": "remove", "path": f"/metadata/labels/{_escaped(OWNER)}"},
            {"op": "remove", "path": f"/metadata/annotations/{_escaped(MARKER)}"},
        ]
        done = actor.patch(place, marks, PATCH)
        if done is not None:
            _seen_after(actor, place, done)
        actor.history.tell("copy strip", str(place), "ok" if done else "refused")


def clone(actor: Actor) -> None:
    """Copy a copy, marks and all, to a place where another one may be wanted."""
    _, place = _copy(actor)
    other, goal = _place(actor)
    if other.family in _STRICT or goal[0] != place[0] or goal == place:
        return
    with actor.history.alone(str(place), str(goal)):
        body = actor.read(place)
        if body is None or not is_copy(body):
            return
        clone = _bare(body)
        clone["metadata"]["name"] = goal[2]
        _plant(actor, goal, clone, "clone")


def plant(actor: Actor) -> None:
    """Put an object of one's own where a copy would go."""
    slot, place = _place(actor)
    body: Json = {"metadata": {"name": place[2], "labels": {NOTE: "mine"}}}
    if place[0] == "Service":
        body["spec"] = {"ports": [{"name": "own", "port": 81}]}
    elif place[0] == "Widget":
        body["spec"] = {"size": 1}
    elif place[0] == "NetworkPolicy":
        body["spec"] = {"podSelector": {}}
    else:
        body["data"] = encoded(place, {"mine": actor.text()})
    with actor.history.alone(str(place)):
        if slot.family not in _STRICT and actor.chance(0.5) and actor.history.may_touch(place):
            # Where a copy is, it must make room.
            actor.history.deleted(place)
            actor.delete(place)
        _plant(actor, place, body, "plant")


def _plant(actor: Actor, place: Place, body: Json, what: str) -> None:
    made = actor.create(place[0], place[1], body)
    if made is not None:
        _seen_after(actor, place, made)
    actor.history.tell(what, str(place), "ok" if made else "refused")


def _seen_after(actor: Actor, place: Place, body: Json) -> None:
    """Note an object that is a user's own after a user's write."""
    if not is_copy(body):
        actor.history.own(place, body)


def uproot(actor: Actor) -> None:
    """Edit or delete an object of one's own."""
    known = list(actor.history.foreign)
    if not known:
        return
    place = actor.rng.choice(known)
    with actor.history.alone(str(place)):
        found = actor.history.foreign.get(place)
        if found is None:
            return
        if actor.chance(0.3):
            done = actor.patch(place, {"metadata": {"annotations": {NOTE: actor.text()}}})
            if done is not None and not is_copy(done):
                actor.history.own(place, done)
        else:
            actor.history.deleted(place)
            actor.delete(place, uid=found[0])
        actor.history.tell("uproot", str(place))


def exempt(actor: Actor) -> None:
    """Have a copy left alone, or take that back."""
    slot, place = _copy(actor)
    if slot.family == "two":
        return
    key = actor.rng.choice((PRUNE, RECONCILE))
    with actor.history.alone(str(place)):
        body = actor.read(place)
        if body is None or not is_copy(body) or not actor.history.may_touch(place):
            return
        there = key in body["metadata"].get("annotations", {})
        actor.history.exempted.add(place)
        value = None if there else "Disabled"
        done = actor.patch(place, {"metadata": {"annotations": {key: value}}})
        actor.history.tell("copy exempt", str(place), "ok" if done else "refused", annotation=key, value=value)


def unexempt(actor: Actor) -> None:
    """Take an exemption back."""
    for kind in ("ConfigMap", "Secret"):
        for namespace in actor.rng.sample(TARGETS, 2):
            for body in actor.admin.items(f"/api/v1/namespaces/{namespace}/{kind.lower()}s"):
                annotations = body["metadata"].get("annotations", {})
                exempted = {key: None for key in (PRUNE, RECONCILE) if key in annotations}
                place = (kind, namespace, body["metadata"]["name"])
                if exempted and place not in actor.history.foreign:
                    with actor.history.alone(str(place)):
                        actor.patch(place, {"metadata": {"annotations": exempted}})
                        actor.history.tell("copy unexempt", str(place))


def is_copy(body: Json) -> bool:
    """Whether an object carries marks that name this very object."""
    meta = body["metadata"]
    if OWNER not in meta.get("labels", {}):
        return False
    try:
        marker = json.loads(meta.get("annotations", {}).get(MARKER, ""))
    except ValueError:
        return False
    place = str(marker.get("at", "")).split("/")
    return place[-2:] == [meta.get("namespace", ""), meta["name"]]


def _bare(body: Json) -> Json:
    meta = {key: value for key, value in body["metadata"].items() if key in ("name", "labels", "annotations")}
    fields = {key: value for key, value in body.items() if key in ("data", "binaryData", "type", "immutable", "spec")}
    if "spec" in fields:
        fields["spec"] = {
            key: value for key, value in fields["spec"].items() if not key.startswith(("clusterIP", "ipFam"))
        }
    return {"metadata": meta, **fields}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


OPERATIONS = (
    (8, edit),
    (2, note),
    (3, delete),
    (1, put_back),
    (2, strip),
    (1, clone),
    (3, plant),
    (4, uproot),
    (1, exempt),
    (1, unexempt),
)
