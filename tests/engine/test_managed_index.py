from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest

from syncline.core.objects import Observed, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DataWire, to_observed
from syncline.engine.managed_index import ManagedIndex
from syncline.kube.client import Client
from syncline.kube.resources import CONFIGMAPS

HERE = Target("team-a", "settings")


class Told:
    """Copies without a server, the versions that its listener was told of, and those that others brought about."""

    def __init__(self) -> None:
        self.versions: list[str | None] = []
        self.ours: list[str | None] = []
        self.copies = ManagedIndex(
            cast("Client", None),
            CONFIGMAPS,
            DataWire,
            to_observed,
            lambda _, new, by: (self.ours if by else self.versions).append(new.version if new else None),
        )

    def watch_tells(self, kind: str, version: int, uid: str = "one") -> None:
        line = msgspec.json.encode({"type": kind, "object": _config_map(version, uid)})
        self.copies.reflector._follow(self.copies.reflector._reader.line(line))

    def answer(self, version: int, uid: str = "one") -> None:
        self.copies.observe(msgspec.convert(_config_map(version, uid), DataWire), "us")

    def seen(self) -> Observed:
        observed = self.copies.at(HERE)
        assert observed is not None
        return observed


def _config_map(version: int, uid: str) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": HERE.namespace,
            "name": HERE.name,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {OWNER_LABEL: "owner"},
        },
        "data": {"version": str(version)},
    }


@pytest.fixture
async def told() -> Told:
    return Told()


async def test_a_change_is_told(told: Told) -> None:
    told.watch_tells("ADDED", 1)
    assert told.versions == ["1"]


async def test_our_own_write_is_told_as_ours_when_the_watch_is_slower_than_the_answer(told: Told) -> None:
    with told.copies.suppress_events(HERE):
        told.answer(1)
    told.watch_tells("ADDED", 1)
    assert (told.ours, told.versions) == (["1"], [])


async def test_our_own_write_is_told_as_ours_when_the_watch_is_faster_than_the_answer(told: Told) -> None:
    with told.copies.suppress_events(HERE):
        told.watch_tells("ADDED", 1)
        told.answer(1)
    assert (told.ours, told.versions) == (["1"], [])
    assert told.seen().version == "1"


async def test_an_edit_by_somebody_else_while_we_write_is_told(told: Told) -> None:
    with told.copies.suppress_events(HERE):
        told.watch_tells("ADDED", 1)
        told.watch_tells("MODIFIED", 2)
        told.answer(1)
        assert told.versions == []
    assert told.versions == ["2"]
    assert told.seen().version == "2"


async def test_a_write_that_fails_hides_no_change(told: Told) -> None:
    with suppress(TimeoutError), told.copies.suppress_events(HERE):
        told.watch_tells("ADDED", 1)
        raise TimeoutError
    assert told.versions == ["1"]


async def test_our_own_deletion_is_told_as_ours(told: Told) -> None:
    told.answer(1)
    ours = told.seen()
    with told.copies.suppress_events(HERE):
        told.watch_tells("DELETED", 2)
        told.copies.observe_gone(ours, "us")
    assert (told.ours, told.versions) == (["1", None], [])
    assert told.copies.at(HERE) is None


async def test_an_object_that_we_released_and_that_is_labelled_again_is_told(told: Told) -> None:
    told.answer(1)
    told.copies.observe_gone(told.seen(), "us", "2")
    told.watch_tells("ADDED", 3)
    assert (told.ours, told.versions) == (["1", None], ["3"])
    assert told.seen().version == "3"


async def test_an_object_recreated_by_somebody_else_while_we_delete_is_told(told: Told) -> None:
    told.answer(1)
    ours = told.seen()
    with told.copies.suppress_events(HERE):
        told.watch_tells("DELETED", 2)
        told.watch_tells("ADDED", 3, uid="two")
        told.copies.observe_gone(ours, "us")
    assert told.versions == ["3"]
    assert told.seen().uid == "two"


async def test_two_syncs_that_write_to_one_place_hide_no_change_from_each_other(told: Told) -> None:
    with told.copies.suppress_events(HERE):
        with told.copies.suppress_events(HERE):
            told.answer(1)
        told.watch_tells("MODIFIED", 2)
    assert told.versions == ["2"]
