"""The self-check of cluster and machine, for the operator itself and for `syncline doctor`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from syncline.core.author_policies import Manifest, find_problem
from syncline.core.group_kind import GroupResource
from syncline.core.installation import INSTALL, find_crd_problem
from syncline.engine.author_policies import BINDINGS, POLICIES, PolicyWire, read_live
from syncline.kube.client import Client
from syncline.kube.errors import NotFound
from syncline.kube.resources import CRDS

AT_ONCE = 4


class Right(Struct, frozen=True):
    """One right that the shipped roles give the operator; without a namespace: everywhere."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> dict[str, str]:
        """Return the request of an access review."""
        resource, _, subresource = self.resource.partition("/")
        return {
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "verb": self.verb,
            "namespace": self.namespace,
            "name": self.name,
        }

    @property
    def about(self) -> str:
        """The name in messages."""
        what = GroupResource(self.group, self.resource)
        named = f" {self.name}" if self.name else ""
        return f"{what}{named}" + (f" in {self.namespace}" if self.namespace else "")


class Shipped(Struct, frozen=True, kw_only=True):
    """The shipped objects that the operator needs in the cluster."""

    version: str
    policies: Sequence[Manifest]
    crds: Sequence[Manifest]
    rights: Sequence[Right]


async def check_policies(client: Client, shipped: Shipped) -> list[str]:
    """Return the problems of the admission policies; empty if all are in force. Raises `KubeError`."""
    resources = {POLICIES.kind: POLICIES, BINDINGS.kind: BINDINGS}
    problems: list[str] = []
    for manifest in shipped.policies:
        try:
            name = manifest["metadata"]["name"]
            live = read_live(await client.get(resources[manifest["kind"]], name, type=PolicyWire))
        except NotFound:
            live = None
        if problem := find_problem(manifest, live, shipped.version):
            problems.append(problem)
    return problems


async def check_crds(client: Client, shipped: Shipped) -> list[str]:
    """Return the problems of the CRDs of our kinds. Raises `KubeError`."""
    problems: list[str] = []
    for manifest in shipped.crds:
        try:
            live: dict[str, Any] | None = await client.get(CRDS, manifest["metadata"]["name"])
        except NotFound:
            live = None
        if problem := find_crd_problem(manifest, live):
            problems.append(problem)
    return problems


async def check_rights(rights: Iterable[Right], may: Callable[[Right], Awaitable[bool]]) -> list[str]:
    """Return the missing rights. Raises `KubeError`."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def ask(right: Right) -> bool:
        async with limit:
            return await may(right)

    asked = list(rights)
    tasks = [asyncio.ensure_future(ask(right)) for right in asked]
    try:
        answers = await asyncio.gather(*tasks)
    finally:  # after a failure the other requests end, or they would use the client after its close
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    verbs: dict[str, list[str]] = {}
    for right, allowed in zip(asked, answers, strict=True):
        if not allowed:
            verbs.setdefault(right.about, []).append(right.verb)
    missing = ", ".join(f"{'/'.join(several)} {about}" for about, several in verbs.items())
    return [f"{INSTALL}: the operator may not {missing}"] if missing else []
