"""The commit that gateways are to have, by the spec: the head, or the one of a rollback; and how it reaches them."""

from typing import Any

from msgspec import structs

from syncline.api.common import HistoryEntry
from syncline.api.configsync import HeldRollback, Rollback
from syncline.api.ignition_agent import SharedVolume
from syncline.api.ignition_apply import IgnitionOptions
from syncline.api.ignition_files import SyncDefaults, SyncFiles, SyncMapping, SyncProfile
from syncline.api.ignition_git import IgnitionGit, RefWebhook
from syncline.api.ignition_rollout import AutoRollback, Bidirectional, Deployment, DeploymentStage
from syncline.api.ignition_status import IgnitionSyncStatus, RolloutStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_rollout import RolloutStage
from syncline.core.gateway_target import strategy_of, target_commit
from syncline.core.gateway_unsupported import unsupported_fields

A, B, C = (letter * 40 for letter in "abc")
NOW = "2026-01-01T00:00:00Z"


def spec(**fields: Any) -> IgnitionSyncSpec:
    return IgnitionSyncSpec(git=IgnitionGit(repo="https://git.example.com/plant.git", ref="main"), **fields)


def status(commit: str = B, **fields: Any) -> IgnitionSyncStatus:
    history = [HistoryEntry(time=NOW, revision=one, result="Synced", changes="") for one in (B, A)]
    return IgnitionSyncStatus(rollout=RolloutStatus(commit=commit, healthy_commit=B), history=history, **fields)


class TestTarget:
    def test_the_head_is_the_target(self) -> None:
        found = target_commit(spec(), status(), C, NOW)
        assert (found.commit, found.rollback, found.problem) == (C, None, "")

    def test_without_a_head_the_gateways_keep_what_they_have(self) -> None:
        assert target_commit(spec(), status(), "", NOW).commit == B
        assert target_commit(spec(), IgnitionSyncStatus(), "", NOW).commit == ""

    def test_previous_is_resolved_once(self) -> None:
        wanted = spec(rollback=Rollback(to="Previous"))
        found = target_commit(wanted, status(), C, NOW)
        assert found.commit == A
        assert found.rollback == HeldRollback(to=A, requested="Previous", since=NOW)
        again = target_commit(wanted, status(A, rollback=found.rollback), C, "2026-02-02T00:00:00Z")
        assert (again.commit, again.rollback) == (A, found.rollback)

    def test_a_commit_can_be_abbreviated(self) -> None:
        assert target_commit(spec(rollback=Rollback(to=A[:8])), status(), C, NOW).commit == A

    def test_a_commit_that_is_not_known_must_be_whole(self) -> None:
        assert target_commit(spec(rollback=Rollback(to=C)), status(), B, NOW).commit == C
        found = target_commit(spec(rollback=Rollback(to="dddddddd")), status(), C, NOW)
        assert (found.commit, "dddddddd" in found.problem) == (B, True)

    def test_the_end_of_a_rollback_follows_the_head_again(self) -> None:
        held = HeldRollback(to=A, requested="Previous", since=NOW)
        found = target_commit(spec(), status(A, rollback=held), C, NOW)
        assert (found.commit, found.rollback) == (C, None)


class TestStrategy:
    def test_without_a_deployment_all_gateways_get_a_commit_at_once(self) -> None:
        assert not strategy_of(spec()).is_staged
        assert strategy_of(spec()).triggers == frozenset()

    def test_stages_order_and_triggers_are_those_of_the_spec(self) -> None:
        deployment = Deployment(
            strategy="canary",
            stages=[DeploymentStage(name="canary", gateway_selector={"tier": "canary"})],
            auto_rollback=AutoRollback(enabled=True, triggers=["timeout"], timeout="90s"),
        )
        strategy = strategy_of(spec(deployment=deployment))
        assert strategy.stages == (RolloutStage("canary", {"tier": "canary"}),)
        assert (strategy.triggers, strategy.timeout) == ({"timeout"}, 90.0)
        ordered = strategy_of(spec(deployment=Deployment(sync_order=["b", "a"])))
        assert ordered.order == ("b", "a")

    def test_a_failed_scan_is_the_trigger_if_none_is_named(self) -> None:
        deployment = Deployment(auto_rollback=AutoRollback(enabled=True))
        assert strategy_of(spec(deployment=deployment)).triggers == {"scanFailure"}

    def test_a_rollback_reaches_all_at_once(self) -> None:
        deployment = Deployment(strategy="canary", stages=[DeploymentStage(name="canary")])
        assert not strategy_of(spec(deployment=deployment, rollback=Rollback(to=A))).is_staged


def periodic() -> SyncProfile:
    return SyncProfile(mappings=[SyncMapping(source="projects", destination="projects")], sync_period=30)


def test_fields_without_effect_are_named() -> None:
    assert unsupported_fields(spec()) == []
    assert unsupported_fields(spec(bidirectional=Bidirectional(enabled=True, watch_paths=["projects/**"]))) == []
    named = spec(
        storage=SharedVolume(), webhook=RefWebhook(port=9443), ignition=IgnitionOptions(redundancy_role="master")
    )
    assert [field.partition(" ")[0] for field in unsupported_fields(named)] == [
        "storage",
        "webhook.port",
        "ignition.redundancyRole",
    ]
    for sync in (SyncFiles(defaults=SyncDefaults(sync_period=30)), SyncFiles(profiles={"site": periodic()})):
        assert unsupported_fields(spec(sync=sync)) == ["sync.syncPeriod (agents learn of a change at once)"]
    assert (
        unsupported_fields(structs.replace(named, storage=None, webhook=RefWebhook(), ignition=IgnitionOptions())) == []
    )
