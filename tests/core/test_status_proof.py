"""Proofs of statuses: what we wrote is known as ours, for the sync that we wrote it for."""

import msgspec
import pytest
from msgspec import structs
from tests.core.server import KEYS

from syncline.api.common import Condition
from syncline.api.configsync import ConfigSyncStatus
from syncline.api.connection import ClusterConnection, WrittenCluster
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.api.status import SyncStatus
from syncline.core.marks import MarkKeys
from syncline.core.status_proof import is_status_proven, sign_status, without_orders

READY = Condition(
    type="Ready",
    status="True",
    reason="Synced",
    message="all is well",
    observed_generation=2,
    last_transition_time="2026-01-01T00:00:00Z",
)
CLUSTER = WrittenCluster(name="prod", connection=ClusterConnection(type="SyncTarget"))
STATUS = ManifestSyncStatus(
    observed_generation=2, conditions=[READY], written=["Secret"], scope="{}", kept=["a"], clusters=[CLUSTER]
)


def proven(status: SyncStatus, kind: str = "ManifestSync", uid: str = "u", keys: MarkKeys = KEYS) -> bool:
    return is_status_proven(status, kind, uid, keys)


SIGNED = sign_status(STATUS, "ManifestSync", "u", KEYS)


def test_what_we_wrote_is_proven_also_after_it_was_stored() -> None:
    assert proven(SIGNED)
    assert proven(msgspec.json.decode(msgspec.json.encode(SIGNED), type=ManifestSyncStatus))


def test_it_is_proven_for_its_own_sync_alone() -> None:
    assert not proven(SIGNED, uid="another")
    assert not proven(SIGNED, kind="ConfigSync")


@pytest.mark.parametrize(
    "change",
    [
        {"clusters": []},
        {"written": []},
        {"scope": None},
        {"kept": []},
        {"conditions": []},
        {"observed_generation": 0},
        {"source_revision": "9"},
        {"proof": None},
        {"proof": ""},
        {"proof": "x.y"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_changed_of_it_it_is_not_proven(change: dict[str, object]) -> None:
    assert not proven(structs.replace(SIGNED, **change))


def test_a_former_key_goes_on_to_prove_and_a_dropped_one_does_not() -> None:
    newer = b"n" * 32
    assert proven(SIGNED, keys=MarkKeys([newer, b"k" * 32]))
    assert not proven(SIGNED, keys=MarkKeys([newer]))


def test_signing_twice_is_signing_once() -> None:
    assert sign_status(SIGNED, "ManifestSync", "u", KEYS) == SIGNED


def test_nothing_is_proven_where_there_is_no_key() -> None:
    assert sign_status(STATUS, "ManifestSync", "u", MarkKeys()).proof is None
    assert not proven(STATUS, keys=MarkKeys())


def test_a_status_that_nobody_can_check_names_no_cluster_to_call() -> None:
    assert without_orders(SIGNED).clusters == []
    assert without_orders(SIGNED).kept == SIGNED.kept
    assert without_orders(ConfigSyncStatus(clusters=[CLUSTER])).clusters == []
