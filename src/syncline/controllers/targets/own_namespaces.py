"""Own namespaces: namespaces that a sync creates in its clusters, marks as its own, and removes when they are empty.

A namespace that the sync did not create is never marked, and so never removed.
"""

from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.digest import DigestKey
from syncline.core.objects import Body, Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import Ownership, object_id_of, ownership_of
from syncline.core.plan import Policy
from syncline.core.source_names import SourceName

NOT_OURS = "NamespaceNotOurs"
_OWN = (Ownership.OURS, Ownership.PREVIOUS, Ownership.RENEWABLE)
# Fixed, whatever the policy of the sync: a namespace of somebody else is never adopted.
_CREATE_ONLY = Policy()


def is_own_namespace(site: TargetCluster, name: str) -> bool:
    """Whether the sync has created a namespace, by the cache."""
    target = Target("", name, NAMESPACE)
    observed = site.cluster.managed_at(target)
    return observed is not None and ownership_of(observed, site.owner, object_id_of(site.cluster.uid, target)) in _OWN


class OwnNamespaces:
    """The namespaces that a sync has created, each looked up once for all its objects, during one reconcile."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    def has(self, site: TargetCluster, name: str) -> bool:
        """Whether the sync has created a namespace of a cluster, by the cache."""
        place = (site.cluster.name, name)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = is_own_namespace(site, name)
        return found


def own_namespace(site: TargetCluster, name: str, source: Target, key: DigestKey) -> DesiredAt:
    """Return the desired namespace for the objects of a source namespace."""
    body = Body("v1", NAMESPACE, {})
    desired = Desired(
        target=site.target("", name, NAMESPACE),
        body=body,
        digest=body.digest(key),
        key=key.id,
        source=str(SourceName(NAMESPACE, "", source.namespace, source.cluster)),
        revision="",
    )
    return DesiredAt(site, desired, policy=_CREATE_ONLY)


def foreign_namespace(target: Target) -> Outcome:
    """Return the outcome of an object in a namespace that the sync did not create."""
    message = (
        f"namespace {target.namespace!r} exists and was not created by this sync, so nothing is written to it: write"
        " namespaces.existing: Use, or map to other names with namespaces.mapping"
    )
    return Outcome(target=target, state="Conflict", reason=NOT_OURS, message=message)
