"""The whole stage as it is at one moment, read past the operator and its proxy."""

from dataclasses import dataclass

from tests.churn.api import COPIED, FAR, SYNCS, Admin, Json, Place, collection_of, is_far, place_of
from tests.churn.names import CUSTOM

_NOT_OURS = ("kube-", "syncline-system", "default")


@dataclass(frozen=True)
class Snapshot:
    """Everything that the oracle may look at."""

    namespaces: dict[str, Json]
    objects: dict[Place, Json]
    syncs: dict[str, Json]
    """By kind, namespace and name."""
    cluster: str = ""
    """The UID by which marks name the cluster."""
    far: str = ""
    """The same of the second cluster."""

    widgets: bool = True
    """Whether the kind that comes and goes is there."""

    def namespace_of(self, place: Place) -> Json | None:
        """Return the namespace of a place."""
        return self.namespaces.get(f"{FAR}/{place[1]}" if is_far(place[0]) else place[1])


def take(admin: Admin, far: Admin | None = None) -> Snapshot:
    """Read everything. What is in the second cluster has its name before the kind, or the namespace."""
    namespaces = {body["metadata"]["name"]: body for body in admin.items("/api/v1/namespaces")}
    objects: dict[Place, Json] = {}
    for kind in COPIED:
        for body in admin.items(collection_of(kind)):
            place = place_of(kind, body)
            if not place[1].startswith(_NOT_OURS) and place[2] != "kube-root-ca.crt":
                objects[place] = body
    syncs = {"/".join(place_of(kind, body)): body for kind in SYNCS for body in admin.items(collection_of(kind))}
    cluster = namespaces["kube-system"]["metadata"]["uid"]
    widgets = admin.read(("CustomResourceDefinition", "", CUSTOM)) is not None
    if far is None:
        return Snapshot(namespaces, objects, syncs, cluster, widgets=widgets)
    there = take(far)
    namespaces |= {f"{FAR}/{name}": body for name, body in there.namespaces.items()}
    objects |= {(f"{FAR}/{place[0]}", *place[1:]): body for place, body in there.objects.items()}
    return Snapshot(namespaces, objects, syncs, cluster, there.cluster, widgets)
