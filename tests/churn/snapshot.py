"""The whole stage as it is at one moment, read past the operator and its proxy."""

from dataclasses import dataclass, field

from tests.churn.api import COPIED, SYNCS, Admin, Json, Place, collection_of, place_of

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
    extra: dict[str, object] = field(default_factory=dict)


def take(admin: Admin) -> Snapshot:
    """Read everything."""
    namespaces = {body["metadata"]["name"]: body for body in admin.items("/api/v1/namespaces")}
    objects: dict[Place, Json] = {}
    for kind in COPIED:
        for body in admin.items(collection_of(kind)):
            place = place_of(kind, body)
            if not place[1].startswith(_NOT_OURS) and place[2] != "kube-root-ca.crt":
                objects[place] = body
    syncs = {"/".join(place_of(kind, body)): body for kind in SYNCS for body in admin.items(collection_of(kind))}
    cluster = namespaces["kube-system"]["metadata"]["uid"]
    return Snapshot(namespaces, objects, syncs, cluster)
