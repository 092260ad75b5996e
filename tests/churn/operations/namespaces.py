"""What users do to namespaces."""

from tests.churn.api import Json
from tests.churn.history import left_by
from tests.churn.names import FAR_SPACES, GIT, GROUPS, IGNORE, LODGE, TARGETS, WIDE, WIDE_LABEL
from tests.churn.operations.actor import Actor

_GONE_WITHIN = 60.0


def first_body(name: str, group: str) -> Json:
    """Return a namespace as it is created."""
    labels = {"group": group, "pool": "targets"} if name in (*TARGETS, *FAR_SPACES) else {}
    labels |= {WIDE_LABEL: "yes"} if name in WIDE else {}
    return {"metadata": {"name": name, "labels": labels}, "apiVersion": "v1", "kind": "Namespace"}


def relabel(actor: Actor) -> None:
    """Move a namespace into another group, or out of all."""
    name = actor.rng.choice(TARGETS)
    group = actor.rng.choice((*GROUPS, *GROUPS, None))
    with actor.history.alone(f"namespace {name}"):
        done = actor.patch(("Namespace", "", name), {"metadata": {"labels": {"group": group}}})
        actor.history.tell("relabel", name, "ok" if done else "not there", group=group)


def ignore(actor: Actor) -> None:
    """Close a namespace to all syncs, or open it."""
    name = actor.rng.choice(TARGETS)
    with actor.history.alone(f"namespace {name}"):
        known = actor.admin.read(("Namespace", "", name))
        if known is None or "deletionTimestamp" in known["metadata"]:
            return
        closed = IGNORE in known["metadata"].get("labels", {})
        if not closed and actor.chance(0.6):
            return
        if not closed:
            actor.history.close_namespace(name)
        done = actor.patch(("Namespace", "", name), {"metadata": {"labels": {IGNORE: None if closed else "true"}}})
        if closed:
            actor.history.open_namespace(name)
        actor.history.tell("open" if closed else "ignore", name, "ok" if done else "not there")


def replace(actor: Actor) -> None:
    """Delete a namespace, or create one that is missing."""
    name = actor.rng.choice((*TARGETS, *TARGETS, *GIT, LODGE))
    with actor.history.alone(f"namespace {name}"):
        known = actor.admin.read(("Namespace", "", name))
        if known is None:
            _make(actor, name)
            return
        if "deletionTimestamp" in known["metadata"] or actor.chance(0.5):
            return
        slots = [slot for slot in actor.stage.slots if slot.namespace == name]
        with actor.history.alone(*(slot.ref for slot in slots)):
            for slot in slots:
                if (sync := actor.admin.read(slot.place)) is not None:
                    actor.history.died(slot.ref, left_by(sync["spec"]))
            actor.history.namespace_gone(name)
            done = actor.delete(("Namespace", "", name))
            actor.history.namespace_gone(name)
            actor.history.tell("namespace delete", name, "ok" if done else "not there")
        if actor.chance(0.7):
            _await_end(actor, name)
            _make(actor, name)


def _await_end(actor: Actor, name: str) -> None:
    waited = 0.0
    while actor.admin.read(("Namespace", "", name)) is not None and waited < _GONE_WITHIN:
        if actor.stage.quiet.is_set():
            return
        actor.pause(0.2, 0.2)
        waited += 0.2


def _make(actor: Actor, name: str) -> None:
    made = actor.create("Namespace", "", first_body(name, actor.rng.choice(GROUPS)))
    if made is not None:
        actor.history.namespace_back(name)
    actor.history.tell("namespace create", name, "ok" if made else "refused")


def shrink(actor: Actor) -> None:
    """Take the label off many namespaces at once, or put it back."""
    back = actor.chance(0.5)
    names = actor.rng.sample(WIDE, actor.rng.choice((2, 5, 12, 14, 16)))
    for name in names:
        with actor.history.alone(f"namespace {name}"):
            actor.patch(("Namespace", "", name), {"metadata": {"labels": {WIDE_LABEL: "yes" if back else None}}})
    actor.history.tell("widen" if back else "shrink", f"{len(names)} of {WIDE[0]}..", names=sorted(names))


OPERATIONS = (
    (4, relabel),
    (1, ignore),
    (3, replace),
    (1, shrink),
)
