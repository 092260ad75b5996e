"""Who may read the metrics, and what asking for them costs the API server."""

import asyncio

from syncline.telemetry import scrapers
from syncline.telemetry.scrapers import Scrapers, ScrapeVerdict


class Server:
    """Answers reviews, and counts them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: dict[str, ScrapeVerdict] = {
            "prometheus": ScrapeVerdict.ALLOWED,
            "tenant": ScrapeVerdict.FORBIDDEN,
        }
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = asyncio.Event()

    async def review(self, token: str) -> ScrapeVerdict:
        self.asked.append(token)
        self.began.set()
        await self.gate.wait()
        if token == "broken":
            raise OSError("the API server is away")
        return self.answers.get(token, ScrapeVerdict.UNAUTHENTICATED)

    def scrapers(self) -> Scrapers:
        return Scrapers(self.review, lambda: self.now)


async def test_only_a_bearer_token_is_reviewed() -> None:
    server = Server()
    guard = server.scrapers()
    for header in ("", "Bearer", "Bearer ", "Basic cHJvbWV0aGV1cw==", "prometheus"):
        assert await guard.authorize(header, "a") is ScrapeVerdict.UNAUTHENTICATED
    assert not server.asked


async def test_what_the_api_server_says_counts_for_a_short_time() -> None:
    server = Server()
    guard = server.scrapers()
    for _ in range(3):
        assert await guard.authorize("Bearer prometheus", "a") is ScrapeVerdict.ALLOWED
        assert await guard.authorize("bearer tenant", "b") is ScrapeVerdict.FORBIDDEN
    assert server.asked == ["prometheus", "tenant"]
    server.answers = {"prometheus": ScrapeVerdict.FORBIDDEN, "tenant": ScrapeVerdict.ALLOWED}
    server.now += scrapers.DENIED_SECONDS
    assert await guard.authorize("Bearer tenant", "b") is ScrapeVerdict.ALLOWED
    server.now += scrapers.ALLOWED_SECONDS
    assert await guard.authorize("Bearer prometheus", "a") is ScrapeVerdict.FORBIDDEN


async def test_nobody_is_let_in_while_the_api_server_cannot_be_asked() -> None:
    server = Server()
    guard = server.scrapers()
    assert await guard.authorize("Bearer broken", "a") is ScrapeVerdict.UNKNOWN
    assert await guard.authorize("Bearer broken", "a") is ScrapeVerdict.UNKNOWN
    assert server.asked == ["broken", "broken"]


async def test_requests_with_one_token_share_one_review() -> None:
    server = Server()
    guard = server.scrapers()
    server.gate.clear()
    waiting = [asyncio.create_task(guard.authorize("Bearer prometheus", "a")) for _ in range(20)]
    await server.began.wait()
    waiting[0].cancel()
    server.gate.set()
    assert set(await asyncio.gather(*waiting[1:])) == {ScrapeVerdict.ALLOWED}
    assert server.asked == ["prometheus"]


async def test_a_flood_of_made_up_tokens_reaches_the_api_server_at_a_limited_rate() -> None:
    server = Server()
    guard = server.scrapers()
    from_one = [await guard.authorize(f"Bearer guess-{number}", "a") for number in range(100)]
    assert from_one.count(ScrapeVerdict.UNAUTHENTICATED) == 5
    assert from_one.count(ScrapeVerdict.TOO_MANY) == 95
    from_many = [await guard.authorize(f"Bearer other-{number}", f"b{number}") for number in range(1000)]
    assert from_many.count(ScrapeVerdict.UNAUTHENTICATED) == 5
    assert len(server.asked) == 10


async def test_a_flood_does_not_keep_out_a_scraper_that_was_let_in_before() -> None:
    server = Server()
    guard = server.scrapers()
    assert await guard.authorize("Bearer prometheus", "a") is ScrapeVerdict.ALLOWED
    server.now += scrapers.ALLOWED_SECONDS
    for number in range(1000):
        await guard.authorize(f"Bearer guess-{number}", "a")
    assert await guard.authorize("Bearer prometheus", "a") is ScrapeVerdict.ALLOWED


async def test_what_is_remembered_is_bounded() -> None:
    server = Server()
    guard = server.scrapers()
    for number in range(scrapers.REMEMBERED * 2):
        server.now += 10
        await guard.authorize(f"Bearer guess-{number}", f"address-{number}")
    assert len(guard._known) == scrapers.REMEMBERED
    assert len(guard._addresses) == scrapers.REMEMBERED
    assert not guard._reviews
