"""What users do to kinds: one comes and goes."""

from tests.churn.api import Json, Place, collection_of
from tests.churn.names import CUSTOM, SRC
from tests.churn.operations import sources
from tests.churn.operations.actor import Actor

_PLACE: Place = ("CustomResourceDefinition", "", CUSTOM)
_SOURCE: Place = ("Widget", SRC, "widget")


def make(actor: Actor) -> None:
    """Create the kind, and wait until it is served."""
    schema: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    while actor.admin.get(collection_of("Widget")) is None:
        if actor.admin.read(_PLACE) is None:  # an outage may have swallowed the request
            actor.create(_PLACE[0], "", {"metadata": {"name": CUSTOM}, "spec": spec})
        actor.rest(0.1)
    actor.history.tell("kind create", CUSTOM)


def replace(actor: Actor) -> None:
    """Delete the kind with all its objects, and create it again."""
    with actor.history.alone("kind"), actor.history.alone(str(_SOURCE)):
        if actor.chance(0.5):
            return
        actor.delete(_PLACE)
        actor.history.tell("kind delete", CUSTOM)
        while actor.admin.read(_PLACE) is not None:
            actor.rest(0.1)
        actor.history.kind_gone("Widget")
        actor.pause(0, 4)
        make(actor)
        sources.make(actor, _SOURCE)


OPERATIONS = ((1, replace),)
