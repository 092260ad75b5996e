"""The identity of a cluster at all its addresses: the UID of an object that exists as long as the cluster.

1. The LogicalCluster `cluster`, in kcp: a workspace is a cluster there, and often has no namespace kube-system.
2. The namespace kube-system, which is what everybody uses.
3. The namespace default, where there is neither.

Rights do not change the name of a cluster: where the first may not be read and the second is not there, it has none.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import NAMESPACES, Resource

LOGICAL_CLUSTERS = Resource("core.kcp.io", "v1alpha1", "logicalclusters", "LogicalCluster", namespaced=False)


class Landmark(NamedTuple):
    """An object that a cluster can be known by."""

    resource: Resource
    name: str


LOGICAL_CLUSTER = Landmark(LOGICAL_CLUSTERS, "cluster")
KUBE_SYSTEM = Landmark(NAMESPACES, "kube-system")
DEFAULT = Landmark(NAMESPACES, "default")

Ask = Callable[[Landmark], Awaitable[str]]
"""Reads an object and returns its UID; raises `NotFound`, `Forbidden`, and what any read raises."""


async def identify(ask: Ask, known: Landmark | None = None) -> tuple[str, Landmark]:
    """Return the UID that names a cluster, and what it is the UID of.

    `known` is what the cluster was known by before: while that is there, nothing else is asked for. Raises what `ask`
    raises where no answer can be had, so that a cluster is never known by another name because it is slow.
    """
    if known is not None:
        try:
            return await ask(known), known
        except NotFound:
            pass
    refusal: Forbidden | None = None
    try:
        return await ask(LOGICAL_CLUSTER), LOGICAL_CLUSTER
    except NotFound:
        pass
    except Forbidden as error:  # a server refuses what it does not serve, too
        refusal = error
    try:
        return await ask(KUBE_SYSTEM), KUBE_SYSTEM
    except NotFound:
        if refusal is not None:
            raise refusal from None
    return await ask(DEFAULT), DEFAULT
