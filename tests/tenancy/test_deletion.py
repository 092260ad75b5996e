"""A sync that is deleted removes its copies with its account's rights or not at all, and is never trapped."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account

from syncline.api.common import ABANDON
from syncline.controllers.reconciler import RIGHTS_INTERVAL, next_resync
from syncline.controllers.state import SyncState
from syncline.controllers.targets import prune as removal
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.prune import FINALIZE_PATIENCE, Pruner
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.fanout import FanOut


def test_the_operators_rights_do_not_stand_in_when_the_sync_is_deleted(world: Manifests, account: Account) -> None:
    source, target = world.secret(), world.namespace("a")
    account.may(world.home, "secrets", "get")
    account.may(target, "secrets", *ALL)
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    account.may(target, "secrets", "get")
    mark = world.mark()
    sync.delete()
    ready = sync.becomes("CleanupFailed")
    assert f"cannot delete secrets 'app' in namespace '{target}': 403 Forbidden" in ready["message"]
    assert world.find("Secret", target).values == {"password": "red"}
    tried = [entry for entry in world.requests(mark) if entry.verb == "delete" and entry.resource == "secrets"]
    assert {entry.impersonated for entry in tried} == {account.user}
    sync.annotate({ABANDON: "true"})
    sync.gone()
    assert world.find("Secret", target).values == {"password": "red"}
    assert "abandoned on request" in sync.tells("CopiesLeft")["note"]


def test_an_account_that_is_gone_holds_up_the_deletion_only_until_it_is_abandoned(
    world: Manifests, account: Account
) -> None:
    world.source()
    target = world.namespace("a")
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    account.may(target, "configmaps")
    sync.delete()
    sync.becomes("CleanupFailed")
    sync.annotate({ABANDON: "true"})
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}


async def test_after_five_minutes_the_copies_are_left_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(removal, "time", SimpleNamespace(monotonic=lambda: now))
    stays = Outcome(target=Target("a", "app", "Secret"), state="Failed", reason="Forbidden", message="may not")
    going = Outcome(target=Target("a", "on-its-way", "Secret"), state="Pending", reason="Terminating", message="goes")
    connected = ConnectedClusters(outcomes=(going, stays))
    nothing = cast("Any", SimpleNamespace())
    sync = cast("Any", SimpleNamespace(metadata=SimpleNamespace(annotations={}, namespace="home", name="sync")))
    lowered = cast("Any", SimpleNamespace(suspended=False, deletion_policy="Delete", staged=False))
    pruner, state = Pruner(nothing), SyncState(FanOut(lambda: None))
    assert FINALIZE_PATIENCE == 300.0
    first = await pruner.finalize(sync, lowered, state, connected)
    assert first.problem is not None
    assert first.problem.reason == "CleanupFailed"
    now += FINALIZE_PATIENCE - 1
    waiting = await pruner.finalize(sync, lowered, state, connected)
    assert waiting.problem is not None
    assert waiting.problem.requeue.after == pytest.approx(
        1.0
    )  # not at the next retry after that, which may be minutes later
    now += 2
    last = await pruner.finalize(sync, lowered, state, connected)
    assert last.problem is None
    assert "2 copies could not be removed and were left: Secret a/app: may not" in last.warning


def test_the_rights_of_an_account_are_looked_at_again_every_five_minutes() -> None:
    def after(user: str | None, interval: float | None) -> float | None:
        return next_resync(cast("Any", SimpleNamespace(user=user, interval=interval)))

    assert RIGHTS_INTERVAL == 300.0
    assert after("system:serviceaccount:a:robot", None) == RIGHTS_INTERVAL
    assert after("system:serviceaccount:a:robot", 60.0) == 60.0
    assert after(None, None) is None
