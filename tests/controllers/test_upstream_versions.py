"""An upstream that went back to an earlier state, or one shard of it: nothing is written until a person confirms."""

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncline.api.common import CONFIRM_DELETION, ObjectMeta
from syncline.api.workspace_status import UpstreamStatus
from syncline.api.workspacesync import WorkspaceResource
from syncline.controllers.errors import SyncError
from syncline.controllers.sources.held_objects import HeldObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.sources.upstream_parts import UpstreamPart, UpstreamSet
from syncline.controllers.sources.upstream_reader import UpstreamResource
from syncline.controllers.sources.upstream_versions import WENT_BACK, shard_id, with_shard_versions, with_version
from syncline.core.namespace_mapping import Workspace
from syncline.kube.errors import Unreachable
from syncline.kube.resources import CONFIGMAPS

HERE, THERE = (
    "https://here.example.com/services/apiexport/c/apps",
    "https://there.example.com/services/apiexport/c/apps",
)


class Server:
    """A server whose watch has told one version, and whose lists tell another."""

    def __init__(self, watched: str, live: str = "") -> None:
        self.watched = watched
        self.live = live or watched
        self.asked = 0
        self.broken = False

    async def pages(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.broken:
            raise Unreachable("it is gone")
        yield SimpleNamespace(version=self.live, items=[])


def part(server: Server, workspace: str = "", shard: str = "") -> UpstreamPart:
    informer = cast("Any", SimpleNamespace(kind="ConfigMap", unmanaged=SimpleNamespace(version=server.watched)))
    resource = UpstreamResource(spec=WorkspaceResource(resource="configmaps"), resource=CONFIGMAPS, informer=informer)
    return UpstreamPart(
        at=SourceCluster(cast("Any", None), cast("Any", server), workspace),
        identity=UpstreamIdentity(uid="uid", workspace=Workspace(cluster=workspace)),
        resources=(resource,),
        held=HeldObjects(),
        bound=cast("Any", SimpleNamespace(shard=shard)) if shard else None,
    )


def sync(**annotations: str) -> Any:
    return SimpleNamespace(metadata=ObjectMeta(name="team", annotations=annotations))


def upstreams(*parts: UpstreamPart) -> UpstreamSet:
    return UpstreamSet(identity=UpstreamIdentity(uid="uid"), parts=parts, is_export=len(parts) > 1)


async def test_the_highest_version_is_noted() -> None:
    found = await with_version(
        sync(), UpstreamStatus(identity="uid", resource_version="90"), upstreams(part(Server("100")))
    )
    assert found.identity.version == "100"


async def test_another_upstream_with_an_earlier_version_is_told_as_another_one() -> None:
    replaced = UpstreamIdentity(uid="uid", trusted=False, problem=SyncError("UpstreamReplaced", "it was replaced"))
    one = UpstreamSet(identity=replaced, parts=(part(Server("100")),))
    with pytest.raises(SyncError) as caught:
        await with_version(sync(), UpstreamStatus(identity="uid", resource_version="200"), one)
    assert caught.value.reason == WENT_BACK
    assert "the upstream is another one than before" in caught.value.message
    assert "if spec.upstream was changed, or the present state is right" in caught.value.message


async def test_an_upstream_with_an_earlier_version_is_refused_until_a_person_confirms_it() -> None:
    recorded, one = UpstreamStatus(identity="uid", resource_version="200"), upstreams(part(Server("100")))
    with pytest.raises(SyncError) as caught:
        await with_version(sync(), recorded, one)
    assert caught.value.reason == WENT_BACK
    found = re.search(f"{CONFIRM_DELETION}=(\\S+)", caught.value.message)
    assert found is not None
    confirmed = await with_version(sync(**{CONFIRM_DELETION: found[1]}), recorded, one)
    assert confirmed.identity.version == "100"


async def test_a_watch_that_lags_behind_is_no_reason() -> None:
    server = Server("100", live="210")
    found = await with_version(sync(), UpstreamStatus(resource_version="200"), upstreams(part(server)))
    assert (found.identity.version, server.asked) == ("210", 1)


async def test_versions_that_are_no_numbers_are_not_compared() -> None:
    found = await with_version(sync(), UpstreamStatus(resource_version="200"), upstreams(part(Server("9" * 1000))))
    assert found.identity.version == ""


async def test_a_shard_that_went_back_loses_its_own_workspaces_only() -> None:
    recorded = UpstreamStatus(identity="uid", shards=[f"{shard_id(HERE)}=200", f"{shard_id(THERE)}=50"])
    parts = part(Server("100"), "a", HERE), part(Server("60"), "b", THERE), part(Server("61"), "c", THERE)
    found = await with_shard_versions(sync(), recorded, upstreams(*parts))
    assert [one.at.workspace for one in found.parts] == ["b", "c"]
    assert found.lost["a"].reason == WENT_BACK
    assert found.problem is found.lost["a"]
    assert found.shards == {shard_id(HERE): "200", shard_id(THERE): "61"}
    digest = re.search(f"{CONFIRM_DELETION}=(\\S+)", found.lost["a"].message)
    assert digest is not None
    confirmed = await with_shard_versions(sync(**{CONFIRM_DELETION: digest[1]}), recorded, upstreams(*parts))
    assert len(confirmed.parts) == 3
    assert confirmed.shards[shard_id(HERE)] == "100"


async def test_a_shard_that_does_not_answer_holds_up_no_other() -> None:
    recorded = UpstreamStatus(identity="uid", shards=[f"{shard_id(HERE)}=200"])
    silent = Server("100")
    silent.broken = True
    found = await with_shard_versions(
        sync(), recorded, upstreams(part(silent, "a", HERE), part(Server("60"), "b", THERE))
    )
    assert [one.at.workspace for one in found.parts] == ["b"]
    assert found.lost["a"].reason == "UpstreamUnreadable"
    assert found.shards[shard_id(HERE)] == "200", "what was seen before is not forgotten"


async def test_a_shard_that_is_seen_for_the_first_time_is_noted() -> None:
    found = await with_shard_versions(
        sync(), None, upstreams(part(Server("7"), "a", HERE), part(Server("9"), "b", THERE))
    )
    assert found.shards == {shard_id(HERE): "7", shard_id(THERE): "9"}
