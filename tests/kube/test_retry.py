from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.scripted import ScriptedServer, Step, config_map, hangs_up, refuses, says

from syncline.kube import (
    CONFIGMAPS,
    ApiError,
    BadAnswer,
    Client,
    ConfigError,
    Conflict,
    Forbidden,
    KubeError,
    PatchKind,
    Retry,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from syncline.kube.retry import RETRY_AFTER_CAP, may_repeat

QUICK = Retry(first=0.01, cap=0.02)
OK = says(config_map("a", 1))

Call = Callable[[Client], Awaitable[object]]
CALLS: dict[str, Call] = {
    "get": lambda client: client.get(CONFIGMAPS, "a", "team"),
    "create": lambda client: client.create(CONFIGMAPS, {"metadata": {"name": "a"}}, "team"),
    "replace": lambda client: client.replace(CONFIGMAPS, "a", "team", {"metadata": {"name": "a"}}),
    "patch": lambda client: client.patch(CONFIGMAPS, "a", "team", {"data": None}, PatchKind.MERGE),
    "delete": lambda client: client.delete(CONFIGMAPS, "a", "team"),
}
WRITES = [verb for verb in CALLS if verb != "get"]


async def attempts(server: ScriptedServer, verb: str, *steps: Step) -> tuple[int, KubeError | None]:
    """Return how often a call was sent, and how it ended."""
    server.answer(*steps)
    async with Client(server.connection, retry=QUICK) as client:
        try:
            await CALLS[verb](client)
        except KubeError as error:
            return len(server.requests), error
    return len(server.requests), None


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize(
    "refusal", [refuses(429, "TooManyRequests"), refuses(503, "ServiceUnavailable", retry_after="0.01")]
)
async def test_any_request_that_was_turned_away_at_the_door_is_sent_again(
    scripted: ScriptedServer, verb: str, refusal: Step
) -> None:
    assert await attempts(scripted, verb, refusal, refusal, OK) == (3, None)


@pytest.mark.parametrize("failure", [hangs_up, refuses(500, "InternalError"), refuses(503), refuses(504, "Timeout")])
async def test_a_read_is_repeated_after_whatever_may_pass(scripted: ScriptedServer, failure: Step) -> None:
    assert await attempts(scripted, "get", failure, failure, OK) == (3, None)


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_whose_fate_is_unknown_is_sent_once_and_left_to_the_caller(
    scripted: ScriptedServer, verb: str
) -> None:
    count, error = await attempts(scripted, verb, hangs_up, OK)
    assert count == 1
    assert isinstance(error, Unreachable)
    assert error.ambiguous


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_is_not_repeated_on_a_connection_that_was_used_before(
    scripted: ScriptedServer, verb: str
) -> None:
    scripted.answer(OK, hangs_up, OK)
    async with Client(scripted.connection, retry=QUICK) as client:
        await client.get(CONFIGMAPS, "a", "team")
        with pytest.raises(Unreachable):
            await CALLS[verb](client)
    assert len(scripted.requests) == 2


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("refusal", [refuses(500, "InternalError"), refuses(503), refuses(504, "Timeout")])
async def test_a_write_that_the_server_failed_at_is_not_repeated(
    scripted: ScriptedServer, verb: str, refusal: Step
) -> None:
    count, error = await attempts(scripted, verb, refusal, OK)
    assert count == 1
    assert isinstance(error, ServerError)


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize(
    ("refusal", "kind"), [(refuses(403), Forbidden), (refuses(409, "Conflict"), Conflict), (refuses(418), ApiError)]
)
async def test_a_plain_no_is_final(scripted: ScriptedServer, verb: str, refusal: Step, kind: type[ApiError]) -> None:
    count, error = await attempts(scripted, verb, refusal, OK)
    assert count == 1
    assert type(error) is kind


async def test_patience_ends(scripted: ScriptedServer) -> None:
    count, error = await attempts(scripted, "get", refuses(500))
    assert count == QUICK.tries
    assert isinstance(error, ServerError)


async def test_a_rejected_token_that_has_no_successor_is_not_tried_again(scripted: ScriptedServer) -> None:
    count, error = await attempts(scripted, "get", refuses(401, "Unauthorized"))
    assert count == 1
    assert isinstance(error, Unauthorized)


async def test_throttling_lowers_how_many_writes_are_in_flight(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(429, "TooManyRequests"), OK)
    async with Client(scripted.connection, retry=QUICK, max_in_flight=8) as client:
        await CALLS["patch"](client)
        assert client.writes.limit == 4


def refused(code: int, retry_after: float | None = None) -> ApiError:
    kinds = {429: TooManyRequests, 503: ServerError}
    return kinds[code](code, "x", "", verb="get", resource="pods", retry_after=retry_after)


@settings(deadline=None)
@given(st.floats(0.001, 1000), st.integers(1, 4))
def test_retry_after_is_honoured_up_to_a_cap(asked: float, attempt: int) -> None:
    retry = Retry(budget=1000)
    wait = retry.delay(refused(429, asked), reads=False, attempt=attempt, elapsed=0)
    assert wait is not None
    assert min(asked, RETRY_AFTER_CAP) <= wait <= min(asked, RETRY_AFTER_CAP) + retry.cap


@settings(deadline=None)
@given(st.integers(1, 4))
def test_delays_grow_with_jitter_and_stay_bounded(attempt: int) -> None:
    retry = Retry()
    wait = retry.delay(Unreachable("x"), reads=True, attempt=attempt, elapsed=0)
    assert wait is not None
    full = min(retry.cap, retry.first * 2 ** (attempt - 1))
    assert full / 2 <= wait <= full


def test_nothing_is_repeated_beyond_the_budget_of_tries_and_time() -> None:
    retry = Retry()
    assert retry.delay(refused(429), reads=True, attempt=retry.tries, elapsed=0) is None
    assert retry.delay(refused(429, 20.0), reads=True, attempt=1, elapsed=50.0) is None


@pytest.mark.parametrize(
    ("failure", "reads", "writes"),
    [
        (Unreachable("x"), True, True),
        (Unreachable("x", ambiguous=True), True, False),
        (BadAnswer("x"), False, False),
        (ConfigError("x"), False, False),
        (refused(429), True, True),
        (refused(503), True, False),
        (refused(503, 1.0), True, True),
    ],
)
def test_the_whole_rule_in_one_table(failure: KubeError, reads: bool, writes: bool) -> None:
    assert may_repeat(failure, reads=True) is reads
    assert may_repeat(failure, reads=False) is writes
