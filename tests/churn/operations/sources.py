"""What users do to sources."""

import base64
from random import Random

from tests.churn.api import Json, Place, bare
from tests.churn.names import BOTH_KEY, SOURCE_KEYS, SOURCE_LABELS
from tests.churn.operations.actor import Actor
from tests.churn.slots import IMMUTABLE, SOURCES, WIDE_SOURCE


def edit(actor: Actor) -> None:
    """Change values, add and remove keys."""
    place = actor.rng.choice((*SOURCES, *SOURCES, WIDE_SOURCE))
    with actor.history.alone(str(place)):
        if place[0] in ("ConfigMap", "Secret"):
            _edit_data(actor, place)
        else:
            done = actor.patch(place, {"spec": changed_spec(actor, place[0])})
            actor.history.tell("source edit", str(place), "ok" if done else "not there")


def edit_often(actor: Actor) -> None:
    """Change one source again and again, faster than it can be copied."""
    place = actor.rng.choice(SOURCES[:10])
    with actor.history.alone(str(place)):
        for _ in range(actor.rng.randint(3, 8)):
            _edit_data(actor, place)
            actor.pause(0, 0.15)


def label(actor: Actor) -> None:
    """Change labels or annotations of a source, and which bundle it is in."""
    place = actor.rng.choice(SOURCES)
    key = actor.rng.choice(SOURCE_LABELS)
    value = None if actor.chance(0.3) else actor.text()
    part = actor.rng.choice(("labels", "annotations"))
    change: Json = {part: {key: value}}
    if place[2].startswith("p-") and actor.chance(0.7):
        change = {"labels": {"bundle": actor.rng.choice(("one", "two", None))}}
    with actor.history.alone(str(place)):
        done = actor.patch(place, {"metadata": change})
        actor.history.tell("source label", str(place), "ok" if done else "not there", change=change)


def replace(actor: Actor) -> None:
    """Delete a source and create it again, now or in a while."""
    place = actor.rng.choice(SOURCES)
    with actor.history.alone(str(place)):
        if not actor.delete(place):
            make(actor, place)
            return
        actor.history.deleted(place)
        actor.history.tell("source delete", str(place))
        actor.pause(*actor.rng.choice(((0, 0.2), (1, 3), (2.5, 6))))
        if actor.chance(0.85):
            make(actor, place)


def restore(actor: Actor) -> None:
    """Create a source that is missing."""
    missing = [place for place in SOURCES if actor.admin.read(place) is None]
    if missing:
        place = actor.rng.choice(missing)
        with actor.history.alone(str(place)):
            make(actor, place)


def make(actor: Actor, place: Place) -> None:
    """Create a source, unless it is there."""
    body = first_body(place, actor.rng)
    made = actor.create(place[0], place[1], body)
    if made is not None and "data" in body:
        actor.history.edited(place, made["metadata"]["uid"], body["data"])
    actor.history.tell("source create", str(place), "ok" if made else "refused")


def _edit_data(actor: Actor, place: Place) -> None:
    keys = actor.rng.sample((*SOURCE_KEYS, BOTH_KEY), actor.rng.randint(1, 2))
    values = {key: None if actor.chance(0.15) else actor.text() for key in keys}
    change: Json = {"data": encoded(place, values)}
    if place in IMMUTABLE and actor.chance(0.1):
        change["immutable"] = True
    done = actor.patch(place, change)
    if done is not None:
        actor.history.edited(place, done["metadata"]["uid"], values)
    actor.history.tell("source edit", str(place), "ok" if done else "refused", values=values)


def encoded(place: Place, values: dict[str, str | None]) -> dict[str, str | None]:
    """Write values as the kind has them."""
    if bare(place[0]) != "Secret":
        return values
    return {key: None if value is None else base64.b64encode(value.encode()).decode() for key, value in values.items()}


def changed_spec(actor: Actor, kind: str) -> Json:
    """Draw a change of a field."""
    if kind == "Service":
        return {"ports": [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": actor.rng.randint(1000, 9000)}]}
    if kind == "Widget":
        return {"size": actor.rng.randint(1, 10**9)}
    return {"podSelector": {"matchLabels": {"app": actor.text()}}}


def first_body(place: Place, rng: Random) -> Json:
    """Return a source as it is created."""
    kind, _, name = place
    text = f"v{rng.getrandbits(48):012x}"
    meta: Json = {"name": name, "labels": {"team": text}}
    if name.startswith("p-"):
        meta["labels"]["bundle"] = rng.choice(("one", "two"))
    if kind == "Widget":
        return {"metadata": meta, "spec": {"size": rng.randint(1, 10**9), "parts": ["a", "b"]}}
    if kind == "NetworkPolicy":
        return {"metadata": meta, "spec": {"podSelector": {"matchLabels": {"app": text}}, "policyTypes": ["Ingress"]}}
    if kind == "Service":
        port = {"name": "web", "port": 80, "protocol": "TCP", "targetPort": rng.randint(1000, 9000)}
        return {"metadata": meta, "spec": {"selector": {"app": "web"}, "ports": [port]}}
    values: dict[str, str | None] = {key: f"v{rng.getrandbits(48):012x}" for key in (*SOURCE_KEYS[:2], BOTH_KEY)}
    body: Json = {"metadata": meta, "data": encoded(place, values)}
    if kind == "Secret" and rng.random() < 0.3:
        body["type"] = "example.com/other"
    return body


OPERATIONS = (
    (10, edit),
    (2, edit_often),
    (3, label),
    (3, replace),
    (1, restore),
)
