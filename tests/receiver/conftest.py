"""A receiver on loopback, and somebody who sends to it."""

import hmac
import json
from collections.abc import AsyncIterator
from hashlib import sha256
from io import BytesIO
from typing import NamedTuple

import aiohttp
import pytest
from prometheus_client import REGISTRY

from syncline.core.pushes import Push
from syncline.receiver import Receiver, read_networks

OWN = b"the sync's own secret"
GLOBAL = b"the operator's secret"
PUSH = json.dumps({"ref": "refs/heads/main"}).encode()


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


def signed(body: bytes, key: bytes, header: str = "X-Hub-Signature-256", prefix: str = "sha256=") -> dict[str, str]:
    return {header: prefix + hmac.new(key, body, sha256).hexdigest()}


def counted(result: str) -> float:
    return REGISTRY.get_sample_value("syncline_webhook_deliveries_total", {"result": result}) or 0.0


class Scene:
    """Two syncs: team/web with a secret of its own, team/plain without; and all that was passed on."""

    def __init__(self) -> None:
        self.pushes: list[tuple[str, str, Push]] = []
        self.told: list[frozenset[str]] = []
        """The kinds that each push was passed on for."""
        self.known: dict[tuple[str, str], tuple[bytes, ...]] = {("team", "web"): (OWN,), ("team", "plain"): ()}
        self.other: dict[tuple[str, str], tuple[bytes, ...]] = {}
        """The syncs of another kind."""
        self.ready = True
        self.receiver = self.make(GLOBAL)
        self.session: aiohttp.ClientSession

    def make(self, global_secret: bytes | None, *trusted_proxies: str) -> Receiver:
        return Receiver(
            "127.0.0.1:0",
            kinds=("ConfigSync", "IgnitionSync"),
            global_secret=global_secret,
            secrets=self.secrets,
            on_push=self.take,
            ready=lambda: self.ready,
            trusted_proxies=read_networks(trusted_proxies),
        )

    def secrets(self, namespace: str, name: str) -> dict[str, tuple[bytes, ...]]:
        kinds = {"ConfigSync": self.known, "IgnitionSync": self.other}
        return {kind: syncs[namespace, name] for kind, syncs in kinds.items() if (namespace, name) in syncs}

    async def take(self, namespace: str, name: str, push: Push, kinds: frozenset[str]) -> None:
        self.pushes.append((namespace, name, push))
        self.told.append(kinds)

    def url(self, sync: str = "team/web") -> str:
        return f"http://127.0.0.1:{self.receiver.port}/webhook/{sync}"

    async def send(
        self, body: bytes = PUSH, sync: str = "team/web", key: bytes | None = OWN, method: str = "POST", **headers: str
    ) -> Answer:
        """Send a body, signed with a key unless that is None."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent |= signed(body, key)
        data = BytesIO(body)  # of any size
        async with self.session.request(method, self.url(sync), data=data, headers=sent) as response:
            return Answer(response.status, await response.text(), dict(response.headers))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.receiver.start()
    async with aiohttp.ClientSession() as scene.session:
        yield scene
    await scene.receiver.stop()
