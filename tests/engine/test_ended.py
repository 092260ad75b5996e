"""A sync that was deleted is remembered for a while, and then forgotten without anybody asking."""

from syncline.api.common import ObjectMeta
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.controllers.deleted_syncs import MOST, REMEMBERED_FOR, DeletedSync, DeletedSyncs
from syncline.controllers.state import SyncState
from syncline.engine.fanout import FanOut
from syncline.engine.sync_object import Sync
from syncline.kube.cache import Key


def ended(policy: str = "Delete") -> DeletedSync:
    spec = ConfigMapSyncSpec(source_namespace="a", config_map_name="b", deletion_policy=policy)  # type: ignore[arg-type]
    sync = Sync(kind="ConfigMapSync", metadata=ObjectMeta(), spec=spec, status=ConfigMapSyncStatus())
    return DeletedSync(sync, SyncState(FanOut(lambda: None)))


def test_a_sync_is_forgotten_when_its_time_is_over() -> None:
    syncs = DeletedSyncs()
    first, second = Key("team", "first"), Key("team", "second")
    syncs.put(first, ended(), 0.0)
    syncs.put(second, ended(), 5.0)
    assert syncs.next_expiry() == REMEMBERED_FOR
    assert syncs.expire(REMEMBERED_FOR - 1) == []
    assert syncs.expire(REMEMBERED_FOR) == [first]
    assert first not in syncs
    assert syncs.next_expiry() == REMEMBERED_FOR + 5
    assert syncs.expire(REMEMBERED_FOR + 5) == [second]
    assert syncs.next_expiry() is None


def test_a_sync_whose_copies_stay_is_not_remembered() -> None:
    syncs = DeletedSyncs()
    key = Key("team", "sync")
    syncs.put(key, ended(), 0.0)
    assert syncs.put(key, ended("Orphan"), 1.0) == [key]
    assert key not in syncs


def test_only_so_many_are_remembered() -> None:
    syncs = DeletedSyncs()
    keys = [Key("team", f"sync-{number}") for number in range(MOST + 1)]
    forgotten = [gone for key in keys for gone in syncs.put(key, ended(), 0.0)]
    assert forgotten == keys[:1]
    assert keys[0] not in syncs
    assert keys[-1] in syncs
