"""Who may do what is asked of the API server, once, and believed for a while only."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from tests.kube.scripted import ScriptedServer, scripted_server

from syncline.engine.access import ANSWER_TTL, AccessRequest, AccessReviews
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.resources import SECRETS

ROBOT = "system:serviceaccount:home:robot"
HERE = AccessRequest(verb="create", resource=SECRETS, namespace="here")
THERE = AccessRequest(verb="create", resource=SECRETS, namespace="there")


class Court:
    """An API server that allows what it is told to, and the reviews that ask it."""

    def __init__(self, server: ScriptedServer, client: Client) -> None:
        self.server = server
        self.now = 0.0
        self.allowed: set[str] = set()
        """The namespaces where everything is allowed; "" for all of them."""
        self.status = 201
        self.refused = ""
        """The kind of review that the client may not ask for."""
        self.reviews = AccessReviews(client, capacity=8, clock=lambda: self.now)
        server.answer(self._decide)

    async def _decide(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        status = 403 if review["kind"] == self.refused else self.status
        asked = review["spec"]["resourceAttributes"]
        body = {"status": {"allowed": asked["namespace"] in self.allowed}} if status < 400 else {}
        return web.json_response(body, status=status)

    def asked(self) -> list[tuple[str, str]]:
        """Return who was asked about, and in which namespace."""
        specs = [json.loads(request.body)["spec"] for request in self.server.requests]
        return [(spec.get("user", ""), spec["resourceAttributes"]["namespace"]) for spec in specs]

    def asked_as(self) -> set[str]:
        """Return as whom the server was asked."""
        return {request.headers.get("Impersonate-User", "") for request in self.server.requests}


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    async with scripted_server() as server, Client(server.connection) as client:
        yield Court(server, client)


async def test_the_operator_asks_as_itself_so_that_nobody_can_hold_up_the_answer(court: Court) -> None:
    assert not await court.reviews.may(ROBOT, HERE)
    assert not await court.reviews.may(None, HERE)
    assert court.asked() == [(ROBOT, ""), (ROBOT, "here"), ("", ""), ("", "here")]
    assert court.asked_as() == {""}
    assert json.loads(court.server.requests[0].body)["spec"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:home",
        "system:authenticated",
    ]


async def test_whoever_may_not_ask_about_others_asks_as_them(court: Court) -> None:
    court.allowed, court.refused = {"here"}, "SubjectAccessReview"
    assert await court.reviews.may(ROBOT, HERE)
    assert court.asked_as() == {"", ROBOT}


async def test_an_answer_is_believed_for_a_while_and_then_asked_for_again(court: Court) -> None:
    court.allowed = {"here"}
    assert await court.reviews.may(ROBOT, HERE)
    court.allowed = set()
    court.now = ANSWER_TTL - 1
    assert await court.reviews.may(ROBOT, HERE)
    court.now = ANSWER_TTL
    assert not await court.reviews.may(ROBOT, HERE)


async def test_whoever_may_everywhere_is_not_asked_about_each_namespace(court: Court) -> None:
    court.allowed = {""}
    assert await court.reviews.may(ROBOT, HERE)
    assert await court.reviews.may(ROBOT, THERE)
    assert court.asked() == [(ROBOT, "")]


async def test_many_who_want_to_know_at_once_ask_once(court: Court) -> None:
    court.allowed = {"here"}
    assert all(await asyncio.gather(*(court.reviews.may(ROBOT, HERE) for _ in range(20))))
    assert len(court.asked()) == 2


async def test_a_failure_is_no_answer_and_is_not_believed(court: Court) -> None:
    court.allowed = {"here"}
    court.status = 400
    with pytest.raises(KubeError):
        await court.reviews.may(ROBOT, HERE)
    court.status = 201
    assert await court.reviews.may(ROBOT, HERE)


async def test_an_identity_that_may_not_even_ask_has_no_rights(court: Court) -> None:
    court.status = 403
    assert not await court.reviews.may(ROBOT, HERE)


async def test_a_flood_of_questions_pushes_out_the_oldest_answers(court: Court) -> None:
    for number in range(50):
        await court.reviews.may(f"system:serviceaccount:mallory:invented-{number}", HERE)
    assert len(court.reviews) == 8
