"""`syncline rollback` and `promote`: change the commit of a sync that follows Git, or of one of its environments."""

import argparse
import asyncio
import re
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct, field

from syncline.api.common import HistoryEntry
from syncline.api.configsync import PREVIOUS, ConfigSync, Environment, EnvironmentStatus, Rollback
from syncline.api.kinds import CONFIG_SYNC, IGNITION_SYNC
from syncline.cli.arguments import UsageError, shown_revision
from syncline.cli.sync_ref import SyncRef, add_arguments, sync_ref
from syncline.core.history import applied

_SHORTEST = 7
_HEX = re.compile(r"[0-9a-f]{7,64}")
_WHOLE = (40, 64)
_ROLLBACK = "/spec/rollback"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    rollback = commands.add_parser(
        "rollback",
        help="roll back a ConfigSync or IgnitionSync to a commit",
        description="Roll back a ConfigSync, one of its environments, or the gateways of an IgnitionSync to a commit."
        " It stays at the commit until --clear, regardless of pushes.",
    )
    add_arguments(rollback, CONFIG_SYNC, IGNITION_SYNC)
    rollback.add_argument("--env", metavar="E", help="the environment, if the ConfigSync has environments")
    what = rollback.add_mutually_exclusive_group()
    what.add_argument(
        "--to",
        default="previous",
        metavar="COMMIT",
        help="a commit in the history, with at least 7 digits, or previous for the commit before the current one"
        " (default: previous)",
    )
    what.add_argument("--clear", action="store_true", help="end the rollback, and apply the revision of the spec again")
    rollback.add_argument("--unlisted", action="store_true", help="accept a full commit that is not in the history")
    rollback.set_defaults(func=lambda given: asyncio.run(_rollback(given)))

    promote = commands.add_parser(
        "promote",
        help="set an environment of a ConfigSync to the commit of another environment",
        description="Set the revision of one environment of a ConfigSync to the commit at which another environment"
        " is ready.",
    )
    add_arguments(promote, CONFIG_SYNC)
    promote.add_argument("--from", required=True, dest="origin", metavar="ENV", help="the environment with the commit")
    promote.add_argument("--to", required=True, dest="goal", metavar="ENV", help="the environment to change")
    promote.add_argument(
        "--revision", metavar="COMMIT", help="a commit in the history of --from, instead of its current commit"
    )
    promote.set_defaults(func=lambda given: asyncio.run(_promote(given)))


class _PinnedSpec(Struct, rename="camel"):
    environments: list[Environment] = field(default_factory=list)
    rollback: Rollback | None = None


class _PinnedStatus(Struct, rename="camel"):
    environments: list[EnvironmentStatus] = field(default_factory=list)
    source_revision: str | None = None
    last_healthy_revision: str | None = None
    history: list[HistoryEntry] = field(default_factory=list)


class _PinnedSync(Struct):
    """The fields of a sync that a rollback reads."""

    spec: _PinnedSpec
    status: _PinnedStatus = field(default_factory=_PinnedStatus)


async def _rollback(given: argparse.Namespace) -> int:
    to = PREVIOUS if given.to.lower() == PREVIOUS.lower() else given.to.lower()
    async with sync_ref(given, CONFIG_SYNC, IGNITION_SYNC) as sync:
        read = await sync.read(_PinnedSync)
        track = f"{sync}, environment {given.env}," if given.env else str(sync)
        held, path, guard = _held(read, given.env, sync)
        to = to if given.clear else _meant(read, given.env, to, unlisted=given.unlisted)
        if given.clear:
            if held is None:
                raise UsageError(f"{track} is not rolled back")
            await sync.json_patch([*guard, {"op": "remove", "path": path}])
            print(f"{track} applies the revision of its spec again")
            return 0
        if held == to == PREVIOUS:
            raise UsageError(
                f"{track} is already rolled back: write a commit with --to, or end the rollback with --clear first"
            )
        await sync.json_patch([*guard, {"op": "add", "path": path, "value": {"to": to}}])
        where = "the previous commit" if to == PREVIOUS else shown_revision(to)
        print(f"{track} is rolled back to {where}; --clear ends the rollback")
        return 0


def _held(read: _PinnedSync, env: str | None, sync: SyncRef) -> tuple[str | None, str, list[dict[str, Any]]]:
    """Return the rollback in the spec, its JSON path, and the tests for a change."""
    environments = read.spec.environments
    if env is None:
        if environments:
            raise UsageError(f"{sync} has environments: choose one with --env ({_names(environments)})")
        held, path, guard = read.spec.rollback, _ROLLBACK, []
    else:
        place, environment = _environment(environments, env, sync)
        held, path, guard = environment.rollback, f"{place}/rollback", [_is_still(place, env)]
    return (held.to if held is not None else None), path, guard


def _meant(read: _PinnedSync, env: str | None, given: str, *, unlisted: bool) -> str:
    """Return the full commit of a rollback. Raises `UsageError` for an unknown commit."""
    if given == PREVIOUS or not _HEX.fullmatch(given):
        return given  # the API server validates it
    reported = next((one for one in read.status.environments if one.name == env), None) if env else read.status
    known = _known(reported)
    found = [commit for commit in known if commit.startswith(given)]
    if len(found) > 1 and given not in found:
        raise UsageError(f"{given} is ambiguous ({' or '.join(found)}): write more digits")
    if found:
        return given if given in found else found[0]
    if unlisted and len(given) in _WHOLE:
        return given
    listed = ", ".join(shown_revision(commit) for commit in _applied(reported)) or "none yet"
    more = "--unlisted needs the full commit" if unlisted else "for other commits, add --unlisted"
    raise UsageError(f"the history has no commit {given}: write one of its commits ({listed}); {more}")


async def _promote(given: argparse.Namespace) -> int:
    origin, goal = str(given.origin), str(given.goal)
    if origin == goal:
        raise UsageError("--from and --to are the same environment")
    async with sync_ref(given, CONFIG_SYNC) as sync:
        read = await sync.read(ConfigSync)
        _environment(read.spec.environments, origin, sync)
        place, environment = _environment(read.spec.environments, goal, sync)
        if environment.rollback is not None:
            raise UsageError(
                f"{goal} is rolled back: end the rollback first (syncline rollback NAME --env {goal} --clear)"
            )
        track = next((one for one in read.status.environments if one.name == origin), None)
        if track is None:
            raise UsageError(f"{origin} has no status yet: check that the operator runs")
        commit = _healthy(track) if given.revision is None else _past(track, str(given.revision).lower())
        if environment.revision == commit:
            print(f"{sync}: {goal} is already at {shown_revision(commit)}")
            return 0
        await sync.json_patch([_is_still(place, goal), {"op": "add", "path": f"{place}/revision", "value": commit}])
        print(f"{sync}: {goal} is set to {shown_revision(commit)}")
    return 0


def _healthy(track: EnvironmentStatus) -> str:
    """Return the commit at which an environment is ready."""
    if track.ready == "True" and track.source_revision:
        return track.source_revision
    last = track.last_healthy_revision
    hint = f"; its last healthy commit is {shown_revision(last)} (--revision)" if last else ""
    raise UsageError(f"{track.name} is not ready{f': {track.message}' if track.message else ''}{hint}")


def _past(track: EnvironmentStatus, given: str) -> str:
    """Return the full commit from the history of an environment."""
    known = _known(track, results=("Synced",))
    found = [commit for commit in known if commit.startswith(given) and len(given) >= _SHORTEST]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{given} is ambiguous ({' or '.join(found)}): write more digits")
    commits = ", ".join(shown_revision(commit) for commit in known) or "none"
    raise UsageError(f"{track.name} has no commit {given} in its history: write one of its commits ({commits})")


def _known(reported: EnvironmentStatus | _PinnedStatus | None, results: Collection[str] = ()) -> list[str]:
    """Return the commits in a status. From the history: the commits with these results, or all."""
    if reported is None:
        return []
    return _commits(reported, [entry for entry in reported.history if not results or entry.result in results])


def _applied(reported: EnvironmentStatus | _PinnedStatus | None) -> list[str]:
    """Return the commits in a status that were applied, whole or in part."""
    return _commits(reported, applied(reported.history)) if reported is not None else []


def _commits(reported: EnvironmentStatus | _PinnedStatus, history: Iterable[HistoryEntry]) -> list[str]:
    past = [entry.revision for entry in history]
    known = dict.fromkeys([reported.source_revision, reported.last_healthy_revision, *past])
    return [commit for commit in known if commit]


def _environment(environments: list[Environment], name: str, sync: SyncRef) -> tuple[str, Environment]:
    """Return an environment of the spec, and its JSON path."""
    for number, environment in enumerate(environments):
        if environment.name == name:
            return f"/spec/environments/{number}", environment
    known = f"it has {_names(environments)}" if environments else "it has none"
    raise UsageError(f"{sync} has no environment {name}: {known}")


def _is_still(place: str, name: str) -> dict[str, Any]:
    """Return the JSON patch test that a path still refers to the same environment."""
    return {"op": "test", "path": f"{place}/name", "value": name}


def _names(environments: Iterable[Environment]) -> str:
    return ", ".join(environment.name for environment in environments)
