"""What users do to a second cluster, and to the way that leads there."""

from tests.churn.api import FAR, Json
from tests.churn.names import CREDENTIAL, FAR_SPACES, GROUPS, HOME
from tests.churn.operations.actor import Actor
from tests.churn.operations.namespaces import first_body

_NAMESPACE = f"{FAR}/Namespace"


def relabel(actor: Actor) -> None:
    """Move a namespace there into another group."""
    if actor.stage.far is None:
        return
    name = actor.rng.choice(FAR_SPACES)
    group = actor.rng.choice((*GROUPS, None))
    with actor.history.alone(f"namespace {name}"):
        done = actor.patch((_NAMESPACE, "", name), {"metadata": {"labels": {"group": group}}})
        actor.history.tell("far relabel", name, "ok" if done else "not there", group=group)


def replace(actor: Actor) -> None:
    """Delete a namespace there, or create one that is missing."""
    if actor.stage.far is None:
        return
    name = actor.rng.choice(FAR_SPACES)
    with actor.history.alone(f"namespace {name}"):
        known = actor.read((_NAMESPACE, "", name))
        if known is None:
            actor.create(_NAMESPACE, "", first_body(name, actor.rng.choice(GROUPS)))
            actor.history.namespace_back(name)
            actor.history.tell("far namespace create", name)
        elif "deletionTimestamp" not in known["metadata"] and actor.chance(0.4):
            actor.history.namespace_gone(name)
            actor.delete((_NAMESPACE, "", name))
            actor.history.namespace_gone(name)
            actor.history.tell("far namespace delete", name)


def lose(actor: Actor) -> None:
    """Take the credential or the SyncTarget away for a moment."""
    if actor.stage.far is None:
        return
    with actor.history.alone("the way"):
        place = actor.rng.choice((("Secret", HOME, CREDENTIAL), ("SyncTarget", HOME, FAR)))
        actor.delete(place)
        actor.history.tell("lose", str(place))
        actor.pause(0, 4)
        mend(actor)


def mend(actor: Actor) -> None:
    """Have the way there whole again."""
    if actor.stage.far is None:
        return
    text = {"stringData": {"kubeconfig": actor.stage.credential}}
    _have(actor, "Secret", {"metadata": {"name": CREDENTIAL}, **text})
    connection: Json = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": CREDENTIAL}}
    labels = {"place": FAR}
    _have(actor, "SyncTarget", {"metadata": {"name": FAR, "labels": labels}, "spec": {"connection": connection}})
    actor.history.tell("mend", FAR)


def _have(actor: Actor, kind: str, body: Json) -> None:
    """Create an object at home until it is there: an outage may have swallowed the request."""
    while actor.read((kind, HOME, body["metadata"]["name"])) is None:
        actor.create(kind, HOME, body)


OPERATIONS = (
    (2, relabel),
    (1, replace),
    (1, lose),
)
