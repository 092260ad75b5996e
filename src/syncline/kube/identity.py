"""The identity of a cluster at all its addresses: the UID of an object that exists as long as the cluster.

1. The LogicalCluster `cluster`, in kcp: a workspace is a cluster there, and often has no namespace kube-system.
2. The namespace kube-system, which other tools use too.
3. The namespace default, if there is neither.

The identity does not depend on rights: if the first cannot be read and the second does not exist, there is none.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import NAMESPACES, Resource

LOGICAL_CLUSTERS = Resource("core.kcp.io", "v1alpha1", "logicalclusters", "LogicalCluster", namespaced=False)


class Landmark(NamedTuple):
    """An object that identifies a cluster."""

    resource: Resource
    name: str


LOGICAL_CLUSTER = Landmark(LOGICAL_CLUSTERS, "cluster")
KUBE_SYSTEM = Landmark(NAMESPACES, "kube-system")
DEFAULT = Landmark(NAMESPACES, "default")

Ask = Callable[[Landmark], Awaitable[str]]
"""Reads an object and returns its UID. Raises `NotFound`, `Forbidden`, and the errors of any read."""


async def identify(ask: Ask, known: Landmark | None = None) -> tuple[str, Landmark]:
    """Return the UID that identifies a cluster, and the object with this UID.

    `known` is the object that identified the cluster before: while it exists, no other is read. Raises the errors of
    `ask` if there is no answer, so that a slow cluster never gets another identity.
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
    except Forbidden as error:  # a server may also refuse a kind that it does not serve
        refusal = error
    try:
        return await ask(KUBE_SYSTEM), KUBE_SYSTEM
    except NotFound:
        if refusal is not None:
            raise refusal from None
    return await ask(DEFAULT), DEFAULT
