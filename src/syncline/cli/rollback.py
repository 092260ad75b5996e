"""`syncline rollback` and `promote`: which commit a ConfigSync, or one of its environments, is at."""

import argparse
import asyncio
import re
from collections.abc import Collection, Iterable
from typing import Any

from syncline.api.configsync import PREVIOUS, ConfigSync, ConfigSyncStatus, Environment, Track
from syncline.api.kinds import CONFIG_SYNC
from syncline.cli.subject import Subject, add_arguments, subject
from syncline.cli.words import UsageError, shown_revision

_SHORTEST = 7
_HEX = re.compile(r"[0-9a-f]{7,64}")
_WHOLE = (40, 64)
_ROLLBACK = "/spec/rollback"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    rollback = commands.add_parser(
        "rollback",
        help="have a ConfigSync go back to a commit and stay there",
        description="Has a ConfigSync, or one of its environments, go back to a commit and stay there, whatever is "
        "pushed, until --clear.",
    )
    add_arguments(rollback, CONFIG_SYNC)
    rollback.add_argument("--env", metavar="E", help="the environment, of a ConfigSync that has some")
    what = rollback.add_mutually_exclusive_group()
    what.add_argument(
        "--to",
        default="previous",
        metavar="COMMIT",
        help="a commit of the history, in at least 7 digits, or previous: the one before (default: previous)",
    )
    what.add_argument("--clear", action="store_true", help="end the rollback: follow the revision of the spec again")
    rollback.add_argument(
        "--unlisted", action="store_true", help="take a commit that the history does not have, written in full"
    )
    rollback.set_defaults(func=lambda given: asyncio.run(_rollback(given)))

    promote = commands.add_parser(
        "promote",
        help="have an environment of a ConfigSync take the commit of another",
        description="Sets the revision of one environment of a ConfigSync to the commit that another one has applied "
        "and is ready with.",
    )
    add_arguments(promote, CONFIG_SYNC)
    promote.add_argument("--from", required=True, dest="origin", metavar="ENV", help="the environment that has it")
    promote.add_argument("--to", required=True, dest="goal", metavar="ENV", help="the environment that gets it")
    promote.add_argument(
        "--revision", metavar="COMMIT", help="a commit of the history of --from, instead of the one that it has now"
    )
    promote.set_defaults(func=lambda given: asyncio.run(_promote(given)))


async def _rollback(given: argparse.Namespace) -> int:
    to = PREVIOUS if given.to.lower() == PREVIOUS.lower() else given.to.lower()
    async with subject(given, CONFIG_SYNC) as sync:
        read = await sync.read(ConfigSync)
        track = f"{sync}, environment {given.env}," if given.env else str(sync)
        held, path, guard = _held(read, given.env, sync)
        to = to if given.clear else _meant(read, given.env, to, unlisted=given.unlisted)
        if given.clear:
            if held is None:
                raise UsageError(f"{track} is not rolled back")
            await sync.edit([*guard, {"op": "remove", "path": path}])
            print(f"{track} follows its revision again")
            return 0
        if held == to == PREVIOUS:
            raise UsageError(f"{track} is rolled back already: name a commit with --to, or end it with --clear first")
        await sync.edit([*guard, {"op": "add", "path": path, "value": {"to": to}}])
        where = "the commit before" if to == PREVIOUS else shown_revision(to)
        print(f"{track} goes back to {where} and stays there; --clear ends it")
        return 0


def _held(read: ConfigSync, env: str | None, sync: Subject) -> tuple[str | None, str, list[dict[str, Any]]]:
    """Return where the spec says that it is to stay, the path of that, and what must be so when it is changed."""
    environments = read.spec.environments
    if env is None:
        if environments:
            raise UsageError(f"{sync} has environments: say which with --env ({_names(environments)})")
        held, path, guard = read.spec.rollback, _ROLLBACK, []
    else:
        place, environment = _environment(environments, env, sync)
        held, path, guard = environment.rollback, f"{place}/rollback", [_is_still(place, env)]
    return (held.to if held is not None else None), path, guard


def _meant(read: ConfigSync, env: str | None, given: str, *, unlisted: bool) -> str:
    """Return the whole commit that somebody means to go back to; one that is not known is refused."""
    if given == PREVIOUS or not _HEX.fullmatch(given):
        return given  # the server says what may be written
    reported = next((one for one in read.status.environments if one.name == env), None) if env else read.status
    known = _known(reported)
    found = [commit for commit in known if commit.startswith(given)]
    if len(found) > 1 and given not in found:
        raise UsageError(f"{given} may be {' or '.join(found)}: write more of it")
    if found:
        return given if given in found else found[0]
    if unlisted and len(given) in _WHOLE:
        return given
    listed = ", ".join(shown_revision(commit) for commit in known) or "none yet"
    more = "write the commit in full, which --unlisted needs" if unlisted else "for any other, add --unlisted"
    raise UsageError(f"the history has no commit {given}: write one that it has ({listed}); {more}")


async def _promote(given: argparse.Namespace) -> int:
    origin, goal = str(given.origin), str(given.goal)
    if origin == goal:
        raise UsageError("--from and --to are the same environment")
    async with subject(given, CONFIG_SYNC) as sync:
        read = await sync.read(ConfigSync)
        _environment(read.spec.environments, origin, sync)
        place, environment = _environment(read.spec.environments, goal, sync)
        if environment.rollback is not None:
            raise UsageError(f"{goal} is rolled back: end that first (syncline rollback NAME --env {goal} --clear)")
        track = next((one for one in read.status.environments if one.name == origin), None)
        if track is None:
            raise UsageError(f"nothing is reported of {origin} yet: is the operator running?")
        commit = _healthy(track) if given.revision is None else _past(track, str(given.revision).lower())
        if environment.revision == commit:
            print(f"{sync}: {goal} is at {shown_revision(commit)} already")
            return 0
        await sync.edit([_is_still(place, goal), {"op": "add", "path": f"{place}/revision", "value": commit}])
        print(f"{sync}: {goal} goes to {shown_revision(commit)}")
    return 0


def _healthy(track: Track) -> str:
    """Return the commit that an environment has applied and is ready with."""
    if track.ready == "True" and track.source_revision:
        return track.source_revision
    last = track.last_healthy_revision
    hint = f"; its last healthy commit is {shown_revision(last)} (--revision)" if last else ""
    raise UsageError(f"{track.name} is not ready{f': {track.message}' if track.message else ''}{hint}")


def _past(track: Track, given: str) -> str:
    """Return the whole commit that somebody means of those that an environment has been at."""
    known = _known(track, results=("Synced",))
    found = [commit for commit in known if commit.startswith(given) and len(given) >= _SHORTEST]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{given} may be {' or '.join(found)}: write more of it")
    told = ", ".join(shown_revision(commit) for commit in known) or "none"
    raise UsageError(f"{track.name} has not been at {given}: write a commit that it had ({told})")


def _known(reported: Track | ConfigSyncStatus | None, results: Collection[str] = ()) -> list[str]:
    """Return the commits that a status tells of; of the history, those with these results, or all."""
    if reported is None:
        return []
    past = [entry.revision for entry in reported.history if not results or entry.result in results]
    known = dict.fromkeys([reported.source_revision, reported.last_healthy_revision, *past])
    return [commit for commit in known if commit]


def _environment(environments: list[Environment], name: str, sync: Subject) -> tuple[str, Environment]:
    """Return an environment of the spec, and the path of it."""
    for number, environment in enumerate(environments):
        if environment.name == name:
            return f"/spec/environments/{number}", environment
    known = f"it has {_names(environments)}" if environments else "it has none"
    raise UsageError(f"{sync} has no environment {name}: {known}")


def _is_still(place: str, name: str) -> dict[str, Any]:
    """Return the test that a path still means the environment that it did."""
    return {"op": "test", "path": f"{place}/name", "value": name}


def _names(environments: Iterable[Environment]) -> str:
    return ", ".join(environment.name for environment in environments)
