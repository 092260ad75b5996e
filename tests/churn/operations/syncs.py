"""What users do to syncs."""

import re
import time

from tests.acting import account_of_tests, acting
from tests.churn.api import SYNCS, Json, Place, collection_of
from tests.churn.history import left_by
from tests.churn.names import ABANDON, CONFIRM, HOME, REQUESTED, SRC, TARGETS, WIDE
from tests.churn.operations.actor import Actor
from tests.churn.slots import Slot


def create(actor: Actor) -> None:
    """Create a sync that is not there."""
    slot = actor.rng.choice(actor.stage.slots)
    with actor.history.alone(slot.ref):
        make(actor, slot)


def make(actor: Actor, slot: Slot) -> Json | None:
    """Create the sync of a slot, unless it is there."""
    made = actor.create(slot.kind, slot.namespace, {"metadata": {"name": slot.name}, "spec": _drawn(actor, slot)})
    if made is not None:
        actor.history.born(slot.ref, made)
    actor.history.tell("sync create", slot.ref, "ok" if made else "refused", spec=(made or {}).get("spec"))
    return made


def edit(actor: Actor) -> None:
    """Give a sync another spec, as a whole."""
    slot = actor.rng.choice(actor.stage.slots)
    with actor.history.alone(slot.ref):
        _edit(actor, slot)


def _edit(actor: Actor, slot: Slot) -> None:
    known = actor.admin.read(slot.place)
    if known is None:
        return
    spec = _drawn(actor, slot)
    gone = {key: None for key in known["spec"] if key not in spec}
    # A merge patch does not replace maps, so what the old spec says inside is said to be gone as well.
    done = actor.patch(slot.place, {"spec": {**gone, **_replacing(known["spec"], spec)}})
    if done is not None:
        actor.history.born(slot.ref, done)
    actor.history.tell("sync edit", slot.ref, "ok" if done else "refused", spec=(done or {}).get("spec"))


def _drawn(actor: Actor, slot: Slot) -> Json:
    """Draw a spec. It names the account of tests where the operator writes nothing with its own rights."""
    return acting(account_of_tests(), slot.draw(actor.rng))


def _replacing(old: Json, new: Json) -> Json:
    """Return a merge patch that leaves nothing of the old maps."""
    patch: Json = {}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = {**{name: None for name in before if name not in value}, **_replacing(before, value)}
        else:
            patch[key] = value
    return patch


def suspend(actor: Actor) -> None:
    """Suspend a sync for a while, or resume one."""
    slot = actor.rng.choice(actor.stage.slots)
    with actor.history.alone(slot.ref):
        known = actor.admin.read(slot.place)
        if known is None:
            return
        value = not known["spec"].get("suspend", False)
        done = actor.patch(slot.place, {"spec": {"suspend": value}})
        if done is not None:
            actor.history.born(slot.ref, done)
        actor.history.tell("sync suspend" if value else "sync resume", slot.ref, "ok" if done else "refused")
        if value and actor.chance(0.6):
            actor.pause(0, 3)
            done = actor.patch(slot.place, {"spec": {"suspend": False}})
            if done is not None:
                actor.history.born(slot.ref, done)
            actor.history.tell("sync resume", slot.ref, "ok" if done else "refused")


def request(actor: Actor) -> None:
    """Ask for a sync now, once or in a storm, and edit it meanwhile."""
    slot = actor.rng.choice(actor.stage.slots)
    with actor.history.alone(slot.ref):
        for _ in range(actor.rng.choice((1, 1, 12))):
            done = actor.patch(slot.place, {"metadata": {"annotations": {REQUESTED: actor.text()}}})
            actor.history.tell("sync request", slot.ref, "ok" if done else "not there")
            if done is None or actor.stage.quiet.is_set():
                return
            if actor.chance(0.15):
                _edit(actor, slot)
            actor.pause(0, 0.12)


def delete(actor: Actor) -> None:
    """Delete a sync, and mostly create it again."""
    slot = actor.rng.choice([slot for slot in actor.stage.slots if not slot.lasting])
    with actor.history.alone(slot.ref):
        if not _end(actor, slot.ref, slot.place):
            return
        if actor.chance(0.6):
            actor.pause(*actor.rng.choice(((0, 0.05), (0, 1), (1, 3))))
            make(actor, slot)


def _end(actor: Actor, ref: str, place: Place) -> bool:
    known = actor.admin.read(place)
    if known is None or "deletionTimestamp" in known["metadata"]:
        return False
    abandoned = actor.chance(0.05)
    if abandoned:
        known = actor.patch(place, {"metadata": {"annotations": {ABANDON: "true"}}}) or known
    actor.history.died(ref, left_by(known["spec"], abandoned=abandoned))
    done = actor.delete(place)
    actor.history.tell("sync delete", ref, "ok" if done else "not there", spec=known["spec"], abandoned=abandoned)
    return done


def flash(actor: Actor) -> None:
    """Create a sync and delete it within the blink of an eye."""
    name = f"flash-{actor.rng.randrange(40)}"
    namespaces = [*actor.rng.sample(TARGETS, 6), *actor.rng.sample(WIDE, 6)]
    if actor.chance(0.7):
        kind = "ConfigMapSync"
        spec: Json = {
            "sourceNamespace": SRC,
            "configMapName": actor.rng.choice("abcd"),
            "destinationNamespaces": namespaces,
            "destinationName": name,
        }
    else:
        kind = "ManifestSync"
        ref = {"apiVersion": "v1", "kind": "Secret", "name": "s-a", "namespace": SRC}
        spec = {"sourceRef": ref, "targets": {"inCluster": {"namespaces": namespaces}}, "targetName": name}
    ref_name, place = f"{kind}/{HOME}/{name}", (kind, HOME, name)
    with actor.history.alone(ref_name):
        made = actor.create(kind, HOME, {"metadata": {"name": name}, "spec": spec})
        if made is None:
            return
        actor.history.born(ref_name, made)
        actor.history.tell("flash", ref_name)
        actor.pause(0, actor.rng.choice((0.01, 0.15, 0.15, 1.0)))
        actor.history.died(ref_name, "")
        actor.delete(place)
        actor.history.tell("flash over", ref_name)


def confirm(actor: Actor) -> None:
    """Confirm removals that are held."""
    for kind in SYNCS:
        for body in actor.admin.items(collection_of(kind)):
            conditions = (body.get("status") or {}).get("conditions", [])
            ready = next((one for one in conditions if one["type"] == "Ready"), {})
            found = re.search(rf"{re.escape(CONFIRM)}[=:] ?\"?([0-9a-f]+)", ready.get("message", ""))
            if ready.get("reason") != "DeletionHeld" or found is None or not actor.chance(0.4):
                continue
            place = (kind, body["metadata"]["namespace"], body["metadata"]["name"])
            ref = "/".join(place)
            with actor.history.alone(ref):
                actor.history.confirmed[ref].append(time.time())
                done = actor.patch(place, {"metadata": {"annotations": {CONFIRM: found[1]}}})
                actor.history.tell("confirm", ref, "ok" if done else "not there", digest=found[1])


OPERATIONS = (
    (6, create),
    (4, edit),
    (3, suspend),
    (3, request),
    (3, delete),
    (4, flash),
    (1, confirm),
)
