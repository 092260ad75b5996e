"""What is counted for quotas: by namespace, in order of age, and tried again once when there is room."""

import asyncio

import msgspec
import pytest

from syncline.api.configmapsync import KIND, ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.api.tenantpolicy import TenantPolicySpec
from syncline.controllers.errors import QuotaError
from syncline.controllers.lowered import AnySync
from syncline.controllers.quotas import Quotas, SyncName
from syncline.core.tenancy import PolicyRules, TenantLimits
from syncline.engine.sync_object import RawSync, read_sync
from syncline.kube.cache import Key


def quotas(**limits: int) -> Quotas:
    """Return quotas that hold in every namespace."""
    spec = msgspec.convert({"namespaceSelector": {"matchLabels": {"a": "b"}}, "quotas": limits}, TenantPolicySpec)
    rules = PolicyRules(name="policy", spec=spec)
    return Quotas(lambda namespace: TenantLimits(namespace=namespace, policies=(rules,)))


def sync_of(name: str, second: int = 0, namespace: str = "team") -> AnySync:
    """Return a sync that was created in this second."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
    }
    spec = {"sourceNamespace": "a", "configMapName": "b", "destinationNamespace": "c"}
    wire = msgspec.convert({"metadata": metadata}, RawSync, strict=False)
    wire = msgspec.structs.replace(wire, spec=msgspec.Raw(msgspec.json.encode(spec)))
    return read_sync(KIND, ConfigMapSyncSpec, ConfigMapSyncStatus, wire)


def put(counted: Quotas, *syncs: AnySync) -> None:
    for sync in syncs:
        counted.sync_changed(KIND, key(sync), sync)


def key(sync: AnySync) -> Key:
    return Key(sync.metadata.namespace, sync.metadata.name)


async def test_a_crowd_that_goes_at_once_has_those_that_wait_tried_again_once_the_oldest_first() -> None:
    counted, tried, begun = quotas(syncs=0), list[SyncName](), asyncio.Event()

    def look_again(name: SyncName) -> None:
        tried.append(name)
        begun.set()

    counted.connect(lambda _: 0, look_again)
    waiting = [sync_of(f"waits-{second}", second) for second in (3, 1, 2)]
    crowd = [sync_of(f"crowd-{number}", number) for number in range(4, 54)]
    put(counted, *waiting, *crowd)
    for sync in waiting:
        with pytest.raises(QuotaError):
            counted.admit(KIND, sync)
    for sync in crowd:
        counted.sync_changed(KIND, key(sync), None)
    await begun.wait()
    assert [name.name for _, name in tried] == ["waits-1", "waits-2", "waits-3"]


def test_of_two_syncs_of_one_second_the_uid_decides_whichever_was_there_first() -> None:
    counted, tried = quotas(syncs=1), list[SyncName]()
    counted.connect(lambda _: 0, tried.append)
    second, first = sync_of("b"), sync_of("a")
    put(counted, second)
    counted.admit(KIND, second)
    put(counted, first)
    assert tried == [(KIND, key(second))]
    counted.admit(KIND, first)
    with pytest.raises(QuotaError):
        counted.admit(KIND, second)


def test_a_sync_that_was_never_counted_has_what_its_status_says() -> None:
    counted = quotas(targets=10)
    old, new = sync_of("old", 1), sync_of("new", 2)
    counted.connect(lambda name: 8 if name[1].name == "old" else 0, lambda _: None)
    put(counted, old, new)
    with pytest.raises(QuotaError, match="its other syncs have 8"):
        counted.take_targets(KIND, new, 3)
    counted.take_targets(KIND, new, 2)
    with pytest.raises(QuotaError):
        counted.take_targets(KIND, old, 9)
    counted.take_targets(KIND, old, 8)


async def test_a_sync_of_the_same_name_begins_anew() -> None:
    counted = quotas(targets=10)
    first, second = sync_of("same", 1), sync_of("same", 1)
    second = msgspec.structs.replace(second, metadata=msgspec.structs.replace(second.metadata, uid="another"))
    other = sync_of("other", 2)
    put(counted, first, other)
    counted.take_targets(KIND, first, 10)
    with pytest.raises(QuotaError):
        counted.take_targets(KIND, other, 10)
    put(counted, second)
    counted.take_targets(KIND, other, 10)


def test_a_namespace_pays_for_no_other() -> None:
    counted = quotas(syncs=1, targets=5, buildSecondsPerHour=60)
    theirs, mine = sync_of("theirs", 1, "crowd"), sync_of("mine", 2, "team")
    put(counted, theirs, mine)
    counted.take_targets(KIND, theirs, 5)
    counted.built("crowd", 1000)
    counted.admit(KIND, mine)
    counted.take_targets(KIND, mine, 5)
    counted.admit_build("team")
    with pytest.raises(QuotaError, match="wait for the next try at "):
        counted.admit_build("crowd")


def test_deleting_all_syncs_gives_no_new_hour_of_builds() -> None:
    counted, sync = quotas(buildSecondsPerHour=60), sync_of("sync")
    put(counted, sync)
    counted.built("team", 60)
    counted.sync_changed(KIND, key(sync), None)
    put(counted, sync)
    with pytest.raises(QuotaError) as refused:
        counted.admit_build("team")
    assert refused.value.requeue.after is not None
    assert not refused.value.stalled
