"""A status can always be stored: whatever is in it, it is made to fit the schema of its kind."""

from functools import cache
from typing import Any

import msgspec
import msgspec.inspect as mi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.api.hostile import hostile, raw, violations
from tests.sampling import quick

from syncline.api.common import Condition, HistoryEntry, TargetStatus
from syncline.api.configmapsync import ConfigMapSyncStatus
from syncline.api.configsync import ConfigSyncStatus, EnvironmentStatus
from syncline.api.connection import ClusterConnection, WrittenCluster
from syncline.api.crd import schema
from syncline.api.fitting import (
    INVENTORY_BYTES,
    STATUS_BYTES,
    as_reason,
    essential,
    fit,
    overfull,
    repair,
    shorten,
    stored_size,
)
from syncline.api.kinds import ALL_KINDS, Kind
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.api.schema import Schema
from syncline.api.status import MAX_CLUSTERS, MAX_KEPT

ETCD = 3 * 512 * 1024
NOW = "2026-01-02T03:04:05Z"
every_kind = pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.kind)


@cache
def status_schema(kind: Kind) -> Schema:
    """Return the schema of the status of a kind."""
    found: Schema = schema(kind)["properties"]["status"]
    return found


def condition(type_: str, reason: str = "Synced", message: str = "") -> Condition:
    return Condition(type=type_, status="True", reason=reason, message=message, last_transition_time=NOW)


def target(status: Any, name: str = "app", **more: Any) -> TargetStatus:
    return TargetStatus(type="InCluster", namespace="team", name=name, status=status, **more)


@every_kind
@quick
@given(data=st.data())
def test_whatever_a_status_holds_it_is_made_to_satisfy_the_crd(kind: Kind, data: st.DataObject) -> None:
    status = data.draw(hostile(kind.status))
    fitted = fit(status)
    value = msgspec.to_builtins(fitted)
    assert list(violations(status_schema(kind), value)) == []
    assert stored_size(value) <= STATUS_BYTES or overfull(status)
    assert fit(fitted) == fitted
    ready = [one for one in status.conditions if one.type == "Ready"]
    assert bool(ready) == any(one.type == "Ready" for one in fitted.conditions)


@every_kind
@quick
@given(data=st.data())
def test_what_is_stored_already_makes_no_difference(kind: Kind, data: st.DataObject) -> None:
    stored = fit(data.draw(hostile(kind.status)))
    new = data.draw(hostile(kind.status))
    for name in data.draw(st.sets(st.sampled_from(kind.status.__struct_fields__))):
        kept = getattr(stored, name)
        if isinstance(kept, list) and isinstance(getattr(new, name), list):
            kept = [*kept, *getattr(new, name)]
        new = structs.replace(new, **{name: kept})
    assert fit(new, stored=stored) == fit(new)


@every_kind
@quick
@given(data=st.data())
def test_whatever_is_stored_is_read_as_far_as_it_goes(kind: Kind, data: st.DataObject) -> None:
    read = repair(kind.status, data.draw(raw(mi.type_info(kind.status))))
    assert list(violations(status_schema(kind), msgspec.to_builtins(read))) == []


@every_kind
@quick
@given(data=st.data())
def test_the_essential_of_any_status_satisfies_the_crd_too(kind: Kind, data: st.DataObject) -> None:
    status = data.draw(hostile(kind.status))
    least = essential(status, conditions=[condition("Ready", "StatusRefused")], observed_generation=3)
    assert list(violations(status_schema(kind), msgspec.to_builtins(least))) == []
    assert [one.reason for one in least.conditions] == ["StatusRefused"]


def test_a_status_that_fits_is_left_as_it_is() -> None:
    status = ManifestSyncStatus(
        observed_generation=4,
        conditions=[condition("Ready", message="2 targets agree with the source")],
        target_statuses=[target("Failed", reason="Forbidden", message="no"), target("Synced", "b")],
        written=["ConfigMap", "edge/Secret"],
        scope="a1b2",
    )
    assert fit(status) == status


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    message = "team-a/app: " + "the server says a lot; " * 100 + "set prune: false"
    (fitted,) = fit(ConfigMapSyncStatus(target_statuses=[target("Failed", message=message)])).target_statuses
    assert len(fitted.message) == 1024
    assert fitted.message.startswith("team-a/app: the server")
    assert fitted.message.endswith("set prune: false")


@given(st.text(max_size=80), st.integers(3, 70))
def test_a_text_is_cut_to_its_limit_and_no_further(text: str, limit: int) -> None:
    cut = shorten(text, limit)
    assert len(cut) == min(len(text), limit)
    assert cut == text or "…" in cut


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Forbidden", "Forbidden"),
        ("the disk is full", "TheDiskIsFull"),
        ("quota exceeded: 3 of 2 (see https://wiki)", "QuotaExceeded3Of2SeeHttpsWiki"),
        ("42", "Unknown"),
        ("…", "Unknown"),
        ("Wörter", "WRter"),
        ("x" * 99, "X" + "x" * 63),
        ("one " + "y" * 99, "One"),
    ],
)
def test_a_reason_is_one_word(text: str, reason: str) -> None:
    assert as_reason(text, 64) == reason


def test_a_reason_that_is_a_sentence_goes_into_the_message() -> None:
    sentence = "no more than 3 replicas are allowed in this namespace until the audit of the year is over, sorry"
    (fitted,) = fit(
        ConfigMapSyncStatus(target_statuses=[target("Failed", reason=sentence, message="denied")])
    ).target_statuses
    assert fitted.reason == "NoMoreThan3ReplicasAreAllowedInThisNamespaceUntilTheAuditOfThe"
    assert fitted.message == f"{sentence}: denied"


def test_of_many_targets_the_failures_stay() -> None:
    targets = [target("Synced", f"s{n}") for n in range(120)] + [target("Failed", "bad"), target("Conflict", "taken")]
    fitted = fit(ConfigMapSyncStatus(target_statuses=targets)).target_statuses
    assert len(fitted) == 100
    assert [one.name for one in fitted[-2:]] == ["bad", "taken"]


def test_of_many_conditions_ready_stays() -> None:
    conditions = [condition(f"Other{n}") for n in range(30)]
    fitted = fit(ConfigMapSyncStatus(conditions=[*conditions, condition("Ready")])).conditions
    assert len(fitted) == 16
    assert fitted[-1].type == "Ready"


def test_a_status_that_is_too_large_gives_up_reports_and_no_inventory() -> None:
    status = ConfigSyncStatus(
        conditions=[condition(kind, message="<" * 30_000) for kind in ("Ready", "Synced", "Failed", "Healthy")],
        target_statuses=[target("Failed", f"t{n}", message="&" * 1000) for n in range(100)],
        kept=[f"{n:016x}" for n in range(MAX_KEPT)],
        environments=[
            EnvironmentStatus(name=f"e{n}", message=">" * 1024, history=[_past("<" * 256)] * 10, inputs="d" * 128)
            for n in range(40)
        ],
    )
    assert overfull(status) == ""
    fitted = fit(status)
    assert stored_size(msgspec.to_builtins(fitted)) <= STATUS_BYTES
    assert fitted.kept == status.kept
    assert [one.inputs for one in fitted.environments] == ["d" * 128] * 40
    assert fitted.conditions[0].type == "Ready"


def _past(changes: str) -> HistoryEntry:
    return HistoryEntry(time=NOW, revision="r", result="Synced", changes=changes)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (ManifestSyncStatus(written=["ConfigMap", "edge/Secret"]), ""),
        (ManifestSyncStatus(kept=["k"] * MAX_KEPT), ""),
        (ManifestSyncStatus(kept=["k"] * (MAX_KEPT + 1)), "kept"),
        (ManifestSyncStatus(kept=["k" * 399] * 3000), "kept"),
        (ManifestSyncStatus(written=["k"] * 1001), "written"),
        (ManifestSyncStatus(written=["k" * 131073]), "written"),
        (ManifestSyncStatus(written=["k" * 131072] * 8, scope="s"), "written"),
        (ManifestSyncStatus(scope="s" * 131073), "scope"),
        (
            ManifestSyncStatus(
                clusters=[WrittenCluster(name="a", connection=ClusterConnection(type="SyncTarget"))]
                * (MAX_CLUSTERS + 1)
            ),
            "clusters",
        ),
        (ConfigSyncStatus(environments=[EnvironmentStatus(name="e", message="m" * 2000)] * 40), ""),
        (ConfigSyncStatus(environments=[EnvironmentStatus(name="e")] * 41), "environments"),
    ],
)
def test_an_inventory_that_cannot_be_stored_is_told_before_anything_is_written(status: Any, field: str) -> None:
    assert overfull(status) == field


def test_the_essential_is_the_inventory_and_what_later_passes_look_back_at() -> None:
    track = EnvironmentStatus(
        name="prod", message="all is well", ready="True", source_revision="abc", history=[_past("1 created")]
    )
    status = ConfigSyncStatus(
        conditions=[condition("Ready"), condition("Healthy")],
        target_statuses=[target("Failed")],
        plan=["create ConfigMap a/b"],
        written=["ConfigMap"],
        scope="s",
        source_revision="abc",
        environments=[track],
    )
    ready = condition("Ready", "StatusRefused")
    assert essential(status, conditions=[ready]) == ConfigSyncStatus(
        conditions=[ready],
        written=["ConfigMap"],
        scope="s",
        source_revision="abc",
        environments=[EnvironmentStatus(name="prod", source_revision="abc", history=[_past("1 created")])],
    )


def test_what_cannot_be_read_of_a_status_does_not_take_the_inventory_along() -> None:
    read = repair(
        ManifestSyncStatus,
        {
            "written": ["ConfigMap", "edge/Secret"],
            "scope": "s",
            "targetStatuses": [{"type": "InCluster", "namespace": "a", "name": "b", "status": "Exploded"}, 7],
            "conditions": [{"type": "Ready", "status": "True", "reason": "it is so", "lastTransitionTime": NOW}],
            "history": "none",
        },
    )
    assert (read.written, read.scope) == (["ConfigMap", "edge/Secret"], "s")
    assert [one.status for one in read.target_statuses] == ["Unknown"]
    assert [(one.reason, one.message) for one in read.conditions] == [("ItIsSo", "it is so")]


def test_the_inventory_leaves_room_for_reports_and_the_status_for_a_spec() -> None:
    assert STATUS_BYTES - INVENTORY_BYTES >= 96 * 1024
    assert ETCD - STATUS_BYTES >= 448 * 1024
