"""`syncline reconcile`, `suspend` and `resume`: request a reconcile, or suspend a sync."""

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime

from msgspec import Struct, field

from syncline.api.common import REQUESTED_AT, ObjectMeta
from syncline.api.status import SyncStatus
from syncline.cli.arguments import UsageError
from syncline.cli.run import duration
from syncline.cli.sync_ref import SyncRef, add_arguments, sync_ref
from syncline.cli.table import printable
from syncline.core.conditions import find
from syncline.core.history import RETRYING

_POLL = 0.2
# Reasons of a sync that waits for a person.
_FOR_A_PERSON = frozenset({"NamespaceNotFound"})


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    reconcile = commands.add_parser(
        "reconcile",
        help="reconcile a sync now",
        description="Request a reconcile of a sync. With --wait: wait for the result, with exit code 1 if the sync is"
        " not ready.",
    )
    add_arguments(reconcile)
    reconcile.add_argument("--wait", action="store_true", help="wait until the sync is ready, or has failed")
    reconcile.add_argument(
        "--timeout",
        type=duration,
        default="5m",
        metavar="D",
        help="the maximum time to wait, such as 90s (default: 5m)",
    )
    reconcile.set_defaults(func=lambda given: asyncio.run(_reconcile(given)))

    suspend = commands.add_parser("suspend", help="stop the reconciles of a sync until it is resumed")
    add_arguments(suspend)
    suspend.set_defaults(func=lambda given: asyncio.run(_suspend(given, suspended=True)))

    resume = commands.add_parser("resume", help="resume the reconciles of a suspended sync")
    add_arguments(resume)
    resume.set_defaults(func=lambda given: asyncio.run(_suspend(given, suspended=False)))


class _SuspendSpec(Struct):
    suspend: bool = False


class _Sync(Struct):
    """The fields of a sync that these commands read."""

    metadata: ObjectMeta
    spec: _SuspendSpec
    status: SyncStatus = field(default_factory=SyncStatus)

    @property
    def is_handled(self) -> bool:
        """Whether the last requested reconcile and the last change of the spec are finished."""
        return (
            self.status.last_handled_request == self.metadata.annotations.get(REQUESTED_AT)
            and self.status.observed_generation == self.metadata.generation
        )

    @property
    def is_finished(self) -> bool:
        """Whether the result is known: ready or failed. A failure that is retried is a failure too."""
        if not self.is_handled:
            return False
        ready, reconciling = (find(self.status.conditions, name) for name in ("Ready", "Reconciling"))
        if reconciling is None or find(self.status.conditions, "Stalled") is not None:
            return True
        if ready is None or ready.status != "False":
            return False
        return reconciling.reason == RETRYING or ready.reason in _FOR_A_PERSON


async def _suspend(given: argparse.Namespace, *, suspended: bool) -> int:
    async with sync_ref(given) as sync:
        await sync.merge_patch({"spec": {"suspend": suspended}})
        print(f"{sync} is {'suspended' if suspended else 'resumed'}")
    return 0


async def _reconcile(given: argparse.Namespace) -> int:
    async with sync_ref(given) as sync:
        if (await sync.read(_Sync)).spec.suspend:
            raise UsageError(f"{sync} is suspended: resume it first (syncline resume)")
        request = datetime.now(UTC).isoformat(timespec="microseconds")
        await sync.merge_patch({"metadata": {"annotations": {REQUESTED_AT: request}}})
        if not given.wait:
            print(f"{sync}: a reconcile is requested; --wait waits for the result")
            return 0
        return _print_outcome(sync, await _wait_finished(sync, given.timeout))


async def _wait_finished(sync: SyncRef, timeout: float) -> _Sync:
    """Wait until the result is known, or until the timeout."""
    deadline = time.monotonic() + timeout
    while True:
        seen = await sync.read(_Sync)
        if seen.is_finished or seen.spec.suspend or time.monotonic() >= deadline:
            return seen
        await asyncio.sleep(_POLL)


def _print_outcome(sync: SyncRef, seen: _Sync) -> int:
    ready = find(seen.status.conditions, "Ready")
    if seen.is_handled and ready is not None and ready.status == "True":
        print(printable(f"{sync} is ready: {ready.message}"))
        return 0
    if not seen.is_handled:
        why = "the operator has not reported a status: check that it runs, and that it watches this namespace"
    elif ready is None:
        why = "the sync has no status yet"
    else:
        why = f"{ready.reason}: {ready.message}"
    print(printable(f"syncline: {sync} is not ready: {why}"), file=sys.stderr)
    return 1
