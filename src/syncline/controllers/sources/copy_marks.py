"""Copy marks: whether a source object is a copy that a sync has written. A copy is never a source.

Any user who can edit an object can write marks on it. Such marks only hide the object from syncs.
"""

from syncline.core.objects import Target
from syncline.core.ownership import Marks, may_be_copy, object_id_of
from syncline.engine.cluster import Cluster

UNVERIFIED = "a sync whose mark cannot be verified"


def is_copy(hub: Cluster, cluster: Cluster, target: Target, marks: Marks, *, own: str = "") -> bool:
    """Whether marks name this object of a cluster, and are ours or may be.

    `own`: a sync whose marks count although they name another cluster.
    """
    found = marks.marker or marks.claim
    if found is None:
        return False
    if found.object_id != object_id_of(cluster.uid, target) and (not own or found.sync != own):
        return False
    return marks.marker is not None or may_be_copy(found, hub.uid, hub.marks.keys, in_hub=cluster is hub)
