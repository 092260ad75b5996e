"""Which pod sends a request, and what asking for it costs the API server."""

import asyncio

import pytest
from tests.depot.conftest import BLUE, OTHER, RED, token_of

from syncline.core.pod_tokens import PodIdentity
from syncline.depot import authentication
from syncline.depot.authentication import Authentication
from syncline.depot.plans import DepotRefusal
from syncline.kube.errors import Unreachable


class Server:
    """Answers reviews, and counts them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pods = {token_of(pod): pod for pod in (BLUE, RED, OTHER)}
        self.asked: list[str] = []
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = asyncio.Event()
        self.busy = asyncio.Event()

    async def review(self, token: str) -> PodIdentity | None:
        self.asked.append(token)
        self.began.set()
        if len(self.asked) == authentication.UNKNOWN_SLOTS:
            self.busy.set()
        await self.gate.wait()
        if self.away:
            raise Unreachable("the API server is away")
        return self.pods.get(token)

    def authentication(self) -> Authentication:
        return Authentication(self.review, lambda: self.now)


async def refusal(asked: Authentication, token: str, address: str = "10.0.0.1") -> int:
    with pytest.raises(DepotRefusal) as refused:
        await asked.identify(f"Bearer {token}", address)
    return refused.value.status


async def test_a_signed_token_proves_its_pod_for_a_minute() -> None:
    server = Server()
    asked = server.authentication()
    for _ in range(3):
        assert await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1") == BLUE
    assert len(server.asked) == 1
    server.now += authentication.PROVEN_SECONDS
    del server.pods[token_of(BLUE)]
    assert await refusal(asked, token_of(BLUE)) == 401
    assert len(server.asked) == 2


async def test_a_verdict_is_never_older_than_a_minute() -> None:
    assert authentication.PROVEN_SECONDS <= 60


async def test_a_refused_token_is_not_reviewed_again_at_once() -> None:
    server = Server()
    asked = server.authentication()
    forged = token_of(BLUE, "forged")
    assert [await refusal(asked, forged) for _ in range(3)] == [401, 401, 401]
    assert len(server.asked) == 1
    server.now += authentication.DENIED_SECONDS
    assert await refusal(asked, forged) == 401
    assert len(server.asked) == 2


async def test_a_token_that_names_no_pod_costs_the_api_server_nothing() -> None:
    server = Server()
    asked = server.authentication()
    unbound = token_of(BLUE, **{"kubernetes.io": {"namespace": "site", "serviceaccount": {"name": "gateway"}}})
    for token in ("guess", unbound, token_of(BLUE, aud="https://kubernetes.default.svc")):
        assert await refusal(asked, token) == 401
    with pytest.raises(DepotRefusal):
        await asked.identify("", "10.0.0.1")
    assert not server.asked


async def test_the_claims_of_a_token_prove_nothing() -> None:
    server = Server()
    server.pods[token_of(RED, "signed by blue")] = BLUE
    asked = server.authentication()
    assert await refusal(asked, token_of(RED, "signed by blue")) == 401


async def test_an_api_server_that_is_away_proves_nobody_and_is_asked_again() -> None:
    server = Server()
    server.away = True
    asked = server.authentication()
    assert await refusal(asked, token_of(BLUE)) == 503
    server.away = False
    assert await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1") == BLUE


async def test_requests_with_one_token_share_one_review() -> None:
    server = Server()
    asked = server.authentication()
    server.gate.clear()
    waiting = [asyncio.create_task(asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1")) for _ in range(20)]
    await server.began.wait()
    waiting[0].cancel()
    server.gate.set()
    assert set(await asyncio.gather(*waiting[1:])) == {BLUE}
    assert len(server.asked) == 1


async def test_a_flood_from_one_address_is_limited_before_the_api_server_is_asked() -> None:
    server = Server()
    asked = server.authentication()
    codes = await asyncio.gather(*(refusal(asked, token_of(BLUE, f"guess{number}")) for number in range(200)))
    assert sorted(codes) == [401] * authentication.ADDRESS_BURST + [429] * (200 - authentication.ADDRESS_BURST)
    assert len(server.asked) == authentication.ADDRESS_BURST


async def test_strangers_never_hold_more_than_a_few_reviews_at_once() -> None:
    server = Server()
    asked = server.authentication()
    server.gate.clear()
    flood = [
        asyncio.create_task(refusal(asked, token_of(BLUE, f"guess{number}"), f"10.0.{number}.1"))
        for number in range(50)
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(server.asked) == authentication.UNKNOWN_SLOTS
    server.gate.set()
    assert set(await asyncio.gather(*flood)) == {401}


async def test_strangers_do_not_delay_a_pod_that_was_proven_before() -> None:
    server = Server()
    asked = server.authentication()
    await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1")
    server.now += authentication.PROVEN_SECONDS
    server.gate.clear()
    flood = [
        asyncio.create_task(refusal(asked, token_of(RED, f"guess{number}"), f"10.0.{number}.1")) for number in range(50)
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    known = asyncio.create_task(asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1"))
    # The kubelet replaces the token of a pod now and then: the pod stays known.
    renewed = token_of(BLUE, "renewed")
    server.pods[renewed] = BLUE
    other = asyncio.create_task(asked.identify(f"Bearer {renewed}", "10.0.0.1"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert {token_of(BLUE), renewed} <= set(server.asked)
    server.gate.set()
    assert await known == await other == BLUE
    await asyncio.gather(*flood)


async def test_a_new_pod_gets_its_turn_during_a_flood_from_another_address() -> None:
    server = Server()
    asked = server.authentication()
    flood = [
        asyncio.create_task(refusal(asked, token_of(RED, f"guess{number}"), "10.0.0.66"))
        for number in range(authentication.ADDRESS_BURST)
    ]
    await asyncio.sleep(0)
    assert await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1") == BLUE
    assert sum(not one.done() for one in flood) > authentication.ADDRESS_BURST / 2, "the flood came first"
    await asyncio.gather(*flood)


async def test_whoever_sends_wrong_tokens_for_a_known_pod_is_a_stranger_again() -> None:
    server = Server()
    asked = server.authentication()
    await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1")
    codes = [await refusal(asked, token_of(BLUE, "forged"))]
    server.gate.clear()
    codes_task = [asyncio.create_task(refusal(asked, token_of(BLUE, f"f{number}"))) for number in range(20)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(server.asked) == 2 + authentication.UNKNOWN_SHARE
    server.gate.set()
    assert set(codes + await asyncio.gather(*codes_task)) == {401}
    assert await asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1") == BLUE


async def test_a_stranger_that_waits_too_long_is_told_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "UNKNOWN_PATIENCE", 0.05)
    server = Server()
    asked = server.authentication()
    server.gate.clear()
    flood = [
        asyncio.create_task(refusal(asked, token_of(RED, f"guess{number}"), f"10.0.{number}.1"))
        for number in range(authentication.UNKNOWN_SLOTS)
    ]
    await server.busy.wait()
    assert await refusal(asked, token_of(RED, "late"), "10.0.99.1") == 429
    server.gate.set()
    assert set(await asyncio.gather(*flood)) == {401}


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "REMEMBERED", 5)
    monkeypatch.setattr(authentication, "UNKNOWN_SECONDS", 0.0)
    server = Server()
    asked = server.authentication()
    for number in range(30):
        pod = PodIdentity("site", f"pod-{number}", f"uid-{number}", "gateway")
        server.pods[token_of(pod)] = pod
        assert await asked.identify(f"Bearer {token_of(pod)}", f"10.0.0.{number}") == pod
        await refusal(asked, token_of(pod, "forged"), f"10.0.1.{number}")
    assert len(asked._proven) == len(asked._denied) == len(asked._known) == 5
    assert len(asked._addresses) == 5
    assert not asked._reviews


async def test_it_ends_with_reviews_under_way() -> None:
    server = Server()
    asked = server.authentication()
    server.gate.clear()
    waiting = asyncio.create_task(asked.identify(f"Bearer {token_of(BLUE)}", "10.0.0.1"))
    await server.began.wait()
    await asked.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not asked._reviews
