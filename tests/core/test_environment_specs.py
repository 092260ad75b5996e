"""The environments of a ConfigSync, by its spec and its status."""

from typing import Any

import pytest
from msgspec import convert

from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.core.environments import (
    EnvironmentState,
    build_spec_digest,
    choose_revision,
    environments_of,
    removed_environments,
    state_of,
)
from syncline.core.revisions import HeadRevision

GIT = {"git": {"repo": "https://git.example.com/a.git", "path": "base"}}
HEAD = "b" * 40
OLD = "a" * 40


def spec(**more: Any) -> ConfigSyncSpec:
    return convert({"source": GIT, **more}, ConfigSyncSpec)


def status(**more: Any) -> ConfigSyncStatus:
    return convert(more, ConfigSyncStatus)


def test_a_sync_without_environments_has_one_unit_without_a_name() -> None:
    (only,) = environments_of(spec(), "team")
    assert (only.name, only.namespace, only.sources[0].path) == ("", None, "base")


def test_an_environment_changes_path_and_revision_of_the_source() -> None:
    given = [{"name": "dev", "path": "dev"}, {"name": "prod", "revision": "v1", "namespace": "live"}]
    dev, prod = environments_of(spec(environments=given), "team")
    assert dev.git is not None
    assert prod.git is not None
    assert (dev.git.path, dev.git.revision) == ("dev", "main")
    assert (prod.git.path, prod.git.revision) == ("base", "v1")
    assert prod.namespace == "live"
    assert build_spec_digest(spec(), dev) != build_spec_digest(spec(), prod)


@pytest.mark.parametrize(
    ("now", "known", "removed"),
    [
        ([], [], ()),
        ([], ["dev"], ("dev",)),
        (["dev"], ["dev"], ("",)),
        (["dev"], ["dev", "prod"], ("", "prod")),
    ],
)
def test_units_that_left_the_spec_may_still_own_objects(
    now: list[str], known: list[str], removed: tuple[str, ...]
) -> None:
    written = spec(environments=[{"name": name} for name in now])
    assert removed_environments(written, status(environments=[{"name": name} for name in known])) == removed


def test_the_state_of_an_environment_is_its_own() -> None:
    (dev,) = environments_of(spec(environments=[{"name": "dev"}]), "team")
    known = status(sourceRevision=OLD, environments=[{"name": "dev", "sourceRevision": HEAD}])
    assert state_of(dev, known).revision == HEAD
    assert state_of(dev, status()) == EnvironmentState()


@pytest.mark.parametrize(
    ("policy", "health", "reason"),
    [
        ("Hold", "Failed", "Head"),
        ("Rollback", "Healthy", "Head"),
        ("Rollback", "Failed", "RolledBackOnFailure"),
    ],
)
def test_a_failed_revision_is_rolled_back_only_by_policy(policy: str, health: Any, reason: str) -> None:
    written = spec(failurePolicy=policy, wait=True)
    (only,) = environments_of(written, "team")
    history = status(
        history=[{"revision": OLD, "time": "2026-01-01T00:00:00Z", "result": "Synced", "changes": "1 created"}]
    ).history
    recorded = EnvironmentState(revision=HEAD, healthy=OLD, history=tuple(history))
    decision = choose_revision(written, only, recorded, HeadRevision(HEAD, ""), health=health, requested=False)
    assert decision.reason == reason
    assert decision.commit == (OLD if reason == "RolledBackOnFailure" else HEAD)
