"""An APIExport has an address for each shard of kcp: all are followed, and each counts for itself.

One kcp has one shard here. A second APIExport of the same name, in the same kcp, has another address with workspaces of
its own: listed in the slice of the first, it is what a second shard is. It is the address of another APIExport, so a
TenantPolicy has to list it.
"""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Json, edit_at, until
from tests.fleet.world import Remote
from tests.tenancy.policies import Policy
from tests.workspacesync.test_api_export import SLICES, Exported, bound

from syncline.api.common import CONFIRM_DELETION
from syncline.sandbox import Sandbox
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.kcp import KcpExport, KcpWorkspace
from syncline.testing.operator import OperatorProcess


class TwoShards:
    """A workspace at each of two addresses of one APIExport."""

    def __init__(self, world: Exported, factory: WorkspaceFactory) -> None:
        self.world = world
        self.here, self.namespace = bound(world, factory, "red")
        self.second = KcpExport(factory())
        self.there: KcpWorkspace = factory()
        self.second.bind(self.there)
        world.fill(self.there, colour="blue")

    def allow_second(self) -> Policy:
        """Let the syncs use their clusters, and the second address."""
        world = self.world
        servers = [f"{one.sandbox.server}" for one in world.clusters.values()]
        kcp = self.second.url.partition("/services/")[0]
        servers += [f"{kcp}/clusters/*", f"{kcp}/services/apiexport/**"]
        return Policy(world, clusters={"syncTargets": ["{namespace}/*"], "servers": servers})

    def list_addresses(self, *urls: str) -> None:
        """Write the addresses of the APIExport; once more if kcp was faster."""
        provider, name = self.world.export.workspace, self.world.export.name

        def change(told: Json) -> None:
            told["status"]["endpoints"] = [{"url": url} for url in urls]

        edit_at(provider, f"{SLICES}/{name}", change, "/status")


@pytest.fixture
def shards(
    sandbox: Sandbox,
    operator: OperatorProcess,
    api_export: KcpExport,
    east: Remote,
    workspace_factory: WorkspaceFactory,
) -> Iterator[TwoShards]:
    """Two addresses, and nobody who follows them yet."""
    world = Exported(sandbox, api_export, east)
    shards = TwoShards(world, workspace_factory)
    policy = shards.allow_second()
    yield shards
    world.end()
    policy.delete()
    assert operator.returncode is None, operator.log()[-2000:]


def test_the_workspaces_of_all_shards_are_followed(shards: TwoShards) -> None:
    world, namespace = shards.world, shards.namespace
    shards.list_addresses(world.export.url, shards.second.url)
    sync = world.follow()
    world.copy(shards.here, namespace).shows("data", "colour", value="red")
    world.copy(shards.there, namespace).shows("data", "colour", value="blue")
    sync.is_ready()
    until(sync.read, lambda body: len(body["status"]["upstream"].get("shards", [])) == 2)
    assert sync.status["upstream"]["workspaces"] == 2
    world.source(shards.there, namespace).put("data", "colour", value="green")
    world.copy(shards.there, namespace).shows("data", "colour", value="green")
    world.source(shards.there, namespace).delete()
    world.copy(shards.there, namespace).gone()


def test_a_shard_that_cannot_be_followed_loses_no_copies_and_holds_up_no_other(shards: TwoShards) -> None:
    world, namespace = shards.world, shards.namespace
    first, second = world.export.url, shards.second.url
    shards.list_addresses(first, second)
    sync = world.follow()
    copies = {one: world.copy(one, namespace) for one in (shards.here, shards.there)}
    for copy in copies.values():
        copy.appears()
    uid = copies[shards.there].uid
    shards.list_addresses(first, second.replace("127.0.0.1", "localhost"))
    told = sync.has_trouble("EndpointNotAllowed", "localhost")
    assert CONFIRM_DELETION not in told["message"], "nobody is asked to have copies removed that nobody has looked for"
    world.source(shards.here, namespace).put("data", "colour", value="green")
    copies[shards.here].shows("data", "colour", value="green")
    world.source(shards.here, namespace).delete()
    copies[shards.here].gone()
    assert copies[shards.there].uid == uid
    world.source(shards.there, namespace).put("data", "colour", value="yellow")
    shards.list_addresses(first, second)
    copies[shards.there].shows("data", "colour", value="yellow")
    assert copies[shards.there].uid == uid
    sync.is_ready()
