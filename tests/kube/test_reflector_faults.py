"""The reflector against what a real API server cannot be made to say."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Struct, field, structs
from prometheus_client import REGISTRY
from tests.kube.conftest import Until
from tests.kube.scripted import (
    ScriptedServer,
    Step,
    bookmark,
    config_map,
    event,
    hangs_up,
    listing,
    refuses,
    says,
    streams,
)

from syncline.api.common import ObjectMeta
from syncline.kube import CONFIGMAPS, Client, Key, Reflector, Retry, Timing, lines

QUICK = Timing(watch_min=1, watch_max=1, grace=1, settled=0.2, backoff_min=0.01, backoff_max=0.05)
HELD = streams(end="hold")


class ConfigMap(Struct, kw_only=True, rename="camel"):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] = field(default_factory=dict)


class Follower:
    """A reflector in a scripted world."""

    def __init__(self, client: Client, server: ScriptedServer, until: Until, timing: Timing = QUICK) -> None:
        self.server = server
        self.until = until
        self.told: list[tuple[str, str | None, str | None]] = []
        self.reflector: Reflector[ConfigMap, str] = Reflector(
            client,
            CONFIGMAPS,
            decode=ConfigMap,
            project=lambda obj: obj.data.get("a"),
            on_change=lambda key, old, new, _: self.told.append((key.name, old, new)),
            timing=timing,
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> dict[str, str]:
        return {key.name: value for key, value in self.reflector.items()}

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What was asked for: lists, streamed lists, and watches with their version."""
        result = []
        for request in self.server.requests:
            query = request.query
            kind = "list" if "watch" not in query else "stream" if "sendInitialEvents" in query else "watch"
            result.append((kind, query.get("resourceVersion", query.get("continue", ""))))
        return result

    async def run(self, *steps: Step) -> None:
        """Begin; each request is answered by the next step."""
        self.server.answer(*steps)
        self._task = asyncio.create_task(self.reflector.run())

    async def until_asked(self, count: int) -> None:
        await self.until(lambda: len(self.asked) >= count)

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def follower(scripted: ScriptedServer, until: Until) -> AsyncIterator[Follower]:
    async with Client(scripted.connection, retry=Retry(tries=1)) as client:
        made = Follower(client, scripted, until)
        yield made
        await made.stop()


def initial(version: int, *objects: dict[str, Any]) -> Step:
    """Answer a streamed list."""
    added = [{"type": "ADDED", "object": obj} for obj in objects]
    return streams(*added, bookmark(version, ends_list=True), end="hold")


ONE = initial(10, config_map("one", 5, a="1"))
STILL_ONE = listing(10, config_map("one", 5))


async def test_a_streamed_list_that_breaks_off_counts_for_nothing(follower: Follower) -> None:
    partial = streams(event("ADDED", "two", 6, a="2"), end="cut")
    await follower.run(initial(10, config_map("one", 5, a="1")), refuses(410, "Expired"), partial, ONE, HELD)
    await follower.until_asked(5)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("stream", ""), ("stream", ""), ("watch", "10")]
    assert follower.told == [("one", None, "1")], "two was never part of a whole list, and one was never gone"


async def test_a_cache_that_has_ended_counts_no_objects(follower: Follower) -> None:
    def counted() -> float:
        labels = {"resource": "configmaps", "part": "all"}
        return REGISTRY.get_sample_value("syncline_cached_objects", labels) or 0.0

    before = counted()
    await follower.run(ONE)
    await follower.until(lambda: follower.held == {"one": "1"})
    assert counted() == before + 1
    await follower.stop()
    assert counted() == before
    late = ConfigMap(metadata=ObjectMeta(name="two", namespace="team", uid="u", resource_version="20"), data={"a": "2"})
    follower.reflector.observe(late, "us")
    assert counted() == before


async def test_versions_of_a_list_in_progress_are_not_resumed_from(follower: Follower) -> None:
    partial = streams(event("ADDED", "late", 900, a="9"), bookmark(950), end="cut")
    await follower.run(partial, ONE, HELD)
    await follower.until_asked(3)
    assert follower.asked == [("stream", ""), ("stream", ""), ("watch", "10")]


async def test_a_change_during_a_streamed_list_is_part_of_it(follower: Follower) -> None:
    first = event("ADDED", "one", 5, a="1")
    changes = [event("MODIFIED", "one", 7, a="2"), event("ADDED", "two", 8, a="1"), event("DELETED", "two", 9, a="1")]
    await follower.run(streams(first, *changes, bookmark(10, ends_list=True), end="hold"), HELD)
    await follower.until_asked(2)
    assert follower.told == [("one", None, "2")]


@pytest.mark.parametrize("refusal", [refuses(400, "BadRequest"), refuses(422, "Invalid")])
async def test_a_server_that_refuses_to_stream_is_not_asked_again(follower: Follower, refusal: Step) -> None:
    pages = (listing(10, config_map("one", 5, a="1"), more="next"), listing(10, config_map("two", 6, a="2")))
    await follower.run(refusal, *pages, refuses(410, "Expired"), *pages, HELD)
    await follower.until_asked(7)
    once = [("list", ""), ("list", "next"), ("watch", "10")]
    assert follower.asked == [("stream", ""), *once, *once]
    assert follower.told == [("one", None, "1"), ("two", None, "2")]


async def test_a_server_that_takes_a_streamed_list_for_a_watch_is_asked_for_pages(follower: Follower) -> None:
    plain = streams(event("ADDED", "one", 5, a="1"))
    await follower.run(plain, plain, listing(10, config_map("one", 5, a="1")), HELD)
    await follower.until_asked(4)
    assert follower.asked == [("stream", ""), ("stream", ""), ("list", ""), ("watch", "10")]


async def test_a_list_with_a_failing_page_deletes_nothing(follower: Follower) -> None:
    page = listing(10, config_map("one", 5, a="1"), more="next")
    rest = listing(10, config_map("two", 6, a="1"))
    empty = listing(12, more="next")
    steps = (refuses(422), page, rest, refuses(410, "Expired"), empty, refuses(500), page, rest, HELD)
    await follower.run(*steps)
    await follower.until_asked(9)
    assert follower.told == [("one", None, "1"), ("two", None, "1")]


@pytest.mark.parametrize(
    "gone",
    [
        refuses(410, "Expired", "too old resource version"),
        streams({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}),
        streams({"type": "ERROR", "object": {"kind": "Status", "code": 418, "reason": "Teapot", "status": "Failure"}}),
        streams({"type": "ERROR", "object": "rubbish"}),
        streams(
            {"type": "ERROR", "object": {"kind": "Status", "code": 504, "message": "Too large resource version: 9"}}
        ),
        refuses(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]),
        refuses(404, "NotFound"),
    ],
)
async def test_a_version_that_is_of_no_more_use_costs_a_list_which_finds_the_dead(
    follower: Follower, gone: Step
) -> None:
    again = initial(20, config_map("two", 15, a="2"))
    await follower.run(ONE, gone, again, HELD)
    await follower.until_asked(4)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("stream", ""), ("watch", "20")]
    assert follower.told == [("one", None, "1"), ("one", "1", None), ("two", None, "2")]


@pytest.mark.parametrize(
    "trouble",
    [
        refuses(403, "Forbidden"),
        refuses(429, "TooManyRequests"),
        refuses(500, "InternalError"),
        refuses(503),
        streams({"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError"}}),
    ],
)
async def test_trouble_that_may_pass_costs_no_list(follower: Follower, trouble: Step) -> None:
    await follower.run(ONE, trouble, HELD)
    await follower.until_asked(3)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("watch", "10")]


@pytest.mark.parametrize(
    "broken",
    [
        b'{"type":"ADDED","object":{"metadata":{"na',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
        b"<html>Bad Gateway</html>\n",
        b"[1, 2]\n",
        b'{"type":"ADDED","object":{"metadata":' + b"[" * 100_000 + b"\n",
    ],
    ids=["truncated", "not UTF-8", "HTML", "not an event", "nested"],
)
async def test_an_unreadable_stream_is_resumed_after_the_last_good_event(follower: Follower, broken: bytes) -> None:
    good = event("ADDED", "two", 12, a="2")
    after = streams(event("ADDED", "three", 14, a="3"), end="hold")
    await follower.run(ONE, streams(good, broken), listing(14), listing(12, config_map("two", 12)), after)
    await follower.until(lambda: "three" in follower.held)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("list", ""), ("list", "12"), ("watch", "12")]
    assert follower.told == [("one", None, "1"), ("two", None, "2"), ("three", None, "3")]


async def test_a_line_without_end_is_not_collected(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1_000_000)
    endless = b'{"type":"ADDED","object":{"metadata":{"name":"' + b"x" * 2_000_000
    await follower.run(ONE, streams(endless, end="hold"), listing(10), STILL_ONE, HELD)
    await follower.until_asked(5)
    assert follower.asked[-1] == ("watch", "10")


async def test_lines_may_be_long_and_come_in_pieces(follower: Follower) -> None:
    line = json.dumps(event("ADDED", "two", 12, a="x" * 3_000_000)).encode() + b"\n"
    pieces = [line[start : start + 700_000] for start in range(0, len(line), 700_000)]
    await follower.run(ONE, streams(*pieces, end="hold"))
    await follower.until(lambda: len(follower.held.get("two", "")) == 3_000_000)


async def test_a_place_that_stays_unreadable_costs_a_list(follower: Follower) -> None:
    bad = streams(b"rubbish\n")
    again = initial(20, config_map("two", 15, a="2"))
    await follower.run(ONE, bad, listing(10), STILL_ONE, bad, listing(10), STILL_ONE, bad, again, HELD)
    await follower.until_asked(10)
    assert follower.asked[-2:] == [("stream", ""), ("watch", "20")]
    assert follower.held == {"two": "2"}


async def test_old_and_repeated_events_are_no_news(follower: Follower) -> None:
    noise = (
        event("MODIFIED", "one", 5, a="1"),
        event("MODIFIED", "one", 4, a="0"),
        event("MODIFIED", "one", 12, a="2"),
        event("MODIFIED", "one", 12, a="2"),
        event("MODIFIED", "one", 9, a="old"),
        event("DELETED", "one", 8, a="old"),
        event("DELETED", "one", 13, uid="a predecessor"),
        event("ADDED", "two", 14, a="1"),
        event("DELETED", "two", 15, a="1"),
        event("MODIFIED", "two", 14, a="1"),
    )
    await follower.run(ONE, streams(*noise), HELD)
    await follower.until_asked(3)
    assert follower.told == [("one", None, "1"), ("one", "1", "2"), ("two", None, "1"), ("two", "1", None)]
    assert follower.asked[-1] == ("watch", "15"), "the version to resume from does not go back either"


async def test_bookmarks_move_on_where_a_watch_resumes(follower: Follower) -> None:
    await follower.run(ONE, streams(bookmark(500)), HELD)
    await follower.until_asked(3)
    assert follower.asked[-1] == ("watch", "500")


async def test_an_object_recreated_under_its_name_is_one_change(follower: Follower) -> None:
    await follower.run(ONE, streams(event("ADDED", "one", 12, uid="another", a="2"), end="hold"))
    await follower.until(lambda: follower.held == {"one": "2"})
    assert follower.told == [("one", None, "1"), ("one", "1", "2")]


async def test_an_object_that_cannot_be_read_keeps_its_state_and_hides_no_other(follower: Follower) -> None:
    poison = {**config_map("one", 12), "data": {"a": ["not", "text"]}}
    again = initial(20, poison, config_map("two", 11, a="2"))
    await follower.run(
        ONE,
        streams({"type": "MODIFIED", "object": poison}, event("ADDED", "two", 13, a="2")),
        refuses(410),
        again,
        HELD,
    )
    await follower.until_asked(5)
    assert follower.held == {"one": "1", "two": "2"}
    assert ("one", "1", None) not in follower.told


async def test_an_unreadable_item_of_a_page_hides_no_other(follower: Follower) -> None:
    poison = {**config_map("one", 12), "data": 7}
    await follower.run(refuses(422), listing(20, poison, config_map("two", 11, a="2")), HELD)
    await follower.until_asked(3)
    assert follower.held == {"two": "2"}


async def test_versions_that_went_backwards_are_noticed_after_a_broken_connection(follower: Follower) -> None:
    """As when etcd was restored: a watch from the old version would wait in silence for the future to come."""
    restored = initial(4, config_map("zero", 2, a="0"))
    await follower.run(ONE, hangs_up, listing(4), restored, HELD)
    await follower.until_asked(5)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("list", ""), ("stream", ""), ("watch", "4")]
    assert follower.told == [("one", None, "1"), ("one", "1", None), ("zero", None, "0")]


@pytest.mark.parametrize(
    "past",
    [
        listing(10),
        listing(10, config_map("one", 4)),
        listing(10, config_map("one", 5, uid="another")),
        refuses(410, "Expired"),
        refuses(504, "Timeout"),
    ],
    ids=["without it", "an earlier one", "another one", "too old", "too new"],
)
async def test_a_server_that_does_not_have_the_newest_object_is_asked_for_everything(
    follower: Follower, past: Step
) -> None:
    """As when etcd was restored, and the versions were up to ours again before the connection had broken for long."""
    restored = initial(20, config_map("zero", 2, a="0"))
    await follower.run(ONE, hangs_up, listing(20), past, restored, HELD)
    await follower.until_asked(6)
    asked = [("stream", ""), ("watch", "10"), ("list", ""), ("list", "10"), ("stream", ""), ("watch", "20")]
    assert follower.asked == asked
    assert follower.told == [("one", None, "1"), ("one", "1", None), ("zero", None, "0")]
    assert (follower.reflector.gaps, follower.reflector.former_version) == (2, "10")


async def test_a_server_that_stayed_away_is_asked_for_everything(follower: Follower) -> None:
    """As when etcd was restored, and other writes have brought the versions up to ours by the time we look."""
    restored = initial(20, config_map("zero", 2, a="0"))
    await follower.run(ONE, hangs_up, hangs_up, restored, HELD)
    await follower.until_asked(5)
    assert follower.asked == [("stream", ""), ("watch", "10"), ("list", ""), ("stream", ""), ("watch", "20")]
    assert follower.told == [("one", None, "1"), ("one", "1", None), ("zero", None, "0")]


async def test_a_watch_that_holds_clears_the_failure_before_it_brings_anything(follower: Follower) -> None:
    await follower.run(ONE, refuses(500), HELD)
    await follower.until(lambda: follower.reflector.status().failure != "")
    await follower.until(lambda: follower.reflector.status().failure == "")
    assert follower.reflector._health.streak == 0
    assert follower.asked == [("stream", ""), ("watch", "10"), ("watch", "10")]


@pytest.mark.parametrize("answer", [refuses(410, "Expired"), refuses(403, "Forbidden")])
async def test_a_server_that_is_back_is_not_spared_any_longer(follower: Follower, answer: Step) -> None:
    streaks: list[int] = []

    def noting(step: Step) -> Step:
        async def note(request: Any) -> Any:
            streaks.append(follower.reflector._health.streak)
            return await step(request)

        return note

    await follower.run(*map(noting, [ONE, hangs_up, hangs_up, hangs_up, answer, ONE]), HELD)
    await follower.until_asked(6)
    assert streaks == [0, 0, 1, 2, 3, 1]


async def test_watches_closed_at_once_slow_down_and_cost_no_list(follower: Follower) -> None:
    await follower.run(ONE, streams())
    await follower.until_asked(8)
    assert follower.asked[1:8] == [("watch", "10")] * 7
    assert follower.reflector._health.streak >= 6


async def test_a_list_that_leads_nowhere_is_not_repeated_in_a_hurry(follower: Follower) -> None:
    steps = [step for _ in range(4) for step in (ONE, refuses(410, "Expired"))]
    await follower.run(*steps, ONE, HELD)
    await follower.until_asked(8)
    assert follower.reflector._health.streak >= 3


async def test_an_empty_answer_is_not_taken_for_an_empty_cluster(follower: Follower) -> None:
    await follower.run(ONE, refuses(410), streams(), streams(), says({"kind": "Status"}, 200), ONE, HELD)
    await follower.until_asked(5)
    assert ("one", "1", None) not in follower.told


async def test_what_our_own_requests_learn_during_a_list_survives_it(follower: Follower) -> None:
    release = asyncio.Event()

    async def slow(request: Any) -> Any:
        await release.wait()
        return await initial(20, config_map("one", 5, a="1"))(request)

    await follower.run(ONE, refuses(410), slow, HELD)
    await follower.until_asked(3)
    ours = ConfigMap(
        metadata=ObjectMeta(name="ours", namespace="team", uid="u", resource_version="25"), data={"a": "ours"}
    )
    follower.reflector.observe(ours, "us")
    follower.reflector.observe_deleted(Key("team", "one"), "uid-one", "us")
    release.set()
    await follower.until_asked(4)
    assert follower.held == {"ours": "ours"}
    assert follower.told == [("one", None, "1"), ("ours", None, "ours"), ("one", "1", None)]


async def test_a_deletion_that_nobody_told_of_is_found_by_the_next_list(scripted: ScriptedServer, until: Until) -> None:
    async with Client(scripted.connection) as client:
        follower = Follower(client, scripted, until, structs.replace(QUICK, relist=0.0))
        await follower.run(ONE, streams(bookmark(20), end="close"), initial(30))
        await until(lambda: follower.told == [("one", None, "1"), ("one", "1", None)])
        await follower.stop()
        assert follower.asked[:3] == [("stream", ""), ("watch", "10"), ("stream", "")]


async def test_a_watch_that_is_known_to_be_broken_is_not_healthy_for_long(
    scripted: ScriptedServer, until: Until
) -> None:
    async with Client(scripted.connection) as client:
        follower = Follower(client, scripted, until, structs.replace(QUICK, broken=0.05, stale=3600))
        await follower.run(ONE, streams(bookmark(20), end="cut"), refuses(500))
        await until(follower.reflector.synced.is_set)
        await until(lambda: not follower.reflector.healthy())
        await follower.stop()
