"""A cluster is known by one UID, wherever and with whatever rights it is reached."""

import pytest

from syncline.kube.errors import Forbidden, NotFound, ServerError
from syncline.kube.identity import DEFAULT, KUBE_SYSTEM, LOGICAL_CLUSTER, Landmark, identify

WORKSPACE = {LOGICAL_CLUSTER: "workspace", DEFAULT: "default"}
PLAIN = {KUBE_SYSTEM: "plain", DEFAULT: "default"}


class Server:
    """A cluster that has some of what it could be known by, and may refuse some."""

    def __init__(self, there: dict[Landmark, str], *refused: Landmark) -> None:
        self.there = there
        self.refused = refused
        self.asked: list[Landmark] = []

    async def ask(self, landmark: Landmark) -> str:
        self.asked.append(landmark)
        about = {"verb": "get", "resource": landmark.resource.plural, "name": landmark.name}
        if landmark in self.refused:
            raise Forbidden(403, "Forbidden", "no", **about)
        if landmark not in self.there:
            raise NotFound(404, "NotFound", "not found", **about)
        return self.there[landmark]


@pytest.mark.parametrize(
    ("server", "uid"),
    [
        (Server(PLAIN), "plain"),
        # RBAC comes first: a server refuses what it does not serve.
        (Server(PLAIN, LOGICAL_CLUSTER), "plain"),
        (Server(WORKSPACE), "workspace"),
        # A namespace of this name, which tenants of a workspace may make, changes nothing.
        (Server({**WORKSPACE, KUBE_SYSTEM: "made by a tenant"}), "workspace"),
        (Server({DEFAULT: "default"}), "default"),
    ],
)
async def test_it_is_known_by_its_workspace_or_kube_system_or_default(server: Server, uid: str) -> None:
    found, landmark = await identify(server.ask)
    assert found == uid == server.there[landmark]


async def test_where_the_workspace_may_not_be_read_it_is_not_known_by_another_name() -> None:
    with pytest.raises(Forbidden) as refused:
        await identify(Server(WORKSPACE, LOGICAL_CLUSTER).ask)
    assert refused.value.resource == "logicalclusters"


async def test_a_server_that_does_not_answer_is_not_known_by_another_name() -> None:
    async def ask(landmark: Landmark) -> str:
        if landmark is DEFAULT:
            return "default"
        raise ServerError(500, "InternalError", "etcd is away", verb="get", resource=landmark.resource.plural)

    with pytest.raises(ServerError):
        await identify(ask)


async def test_once_known_it_is_asked_for_that_alone_until_it_is_gone() -> None:
    server = Server(PLAIN)
    _, known = await identify(server.ask)
    server.asked.clear()
    assert await identify(server.ask, known) == ("plain", KUBE_SYSTEM)
    assert server.asked == [KUBE_SYSTEM]
    server.there = WORKSPACE
    assert await identify(server.ask, known) == ("workspace", LOGICAL_CLUSTER)
