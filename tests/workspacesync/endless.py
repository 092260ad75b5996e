"""An upstream that belongs to a tenant, and tells of ConfigMaps without end."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web
from tests.fleet.world import Impostor

from syncline.api.common import ObjectMeta
from syncline.core.ownership import OWNER_LABEL
from syncline.fleet import SecretWire
from syncline.testing.loop import OnLoop

Json = dict[str, Any]
_CHUNK = 500


class EndlessUpstream(OnLoop):
    """A server with one namespace and three ConfigMaps; once it floods, a watch of ConfigMaps never ends."""

    thread_name = "endless-upstream"

    def __init__(self, namespace: str, label: str) -> None:
        self.floods = False
        self.sent = 0
        """How many ConfigMaps it has told of in all."""
        self._namespace = namespace
        self._label = label
        self._server = _Answers(self)

    def secret(self) -> SecretWire:
        """Make the Secret that a tenant would put beside their syncs."""
        return SecretWire(metadata=ObjectMeta(name="upstream"), data=self._server.secret().data)

    def flood(self) -> None:
        """Tell of ConfigMaps without end from now on, to those who watch already too."""
        self.floods = True
        self._thread.run(self._drop())

    async def _drop(self) -> None:
        self._server.drop_connections()

    async def _open(self) -> None:
        self._stack_of_loop = AsyncExitStack()
        await self._stack_of_loop.enter_async_context(self._server.serving())

    async def _close(self) -> None:
        # A connection whose reader takes no more would stay open for what it has not taken.
        self._server.drop_connections()
        await self._stack_of_loop.aclose()

    def namespaces(self) -> list[Json]:
        """Return the namespaces."""
        labels = {"world": self._label}
        return [{"metadata": {"name": self._namespace, "uid": "n1", "resourceVersion": "5", "labels": labels}}]

    def config_maps(self) -> list[Json]:
        """Return the ConfigMaps that there are before the flood."""
        return [self.config_map(f"app-{number}", 5) for number in range(3)]

    def config_map(self, name: str, version: int) -> Json:
        """Return a ConfigMap."""
        meta = {"name": name, "namespace": self._namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
        return {"metadata": meta, "data": {"colour": "red"}}


class _Answers(Impostor):
    def __init__(self, upstream: EndlessUpstream) -> None:
        super().__init__()
        self._upstream = upstream

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        found = _discovery(request.path)
        if found is not None:
            return web.json_response(found)
        objects = {
            "/api/v1/namespaces": self._upstream.namespaces,
            "/api/v1/configmaps": self._upstream.config_maps,
        }.get(request.path)
        if objects is None:
            return await super().handle(request)
        managed = request.query.get("labelSelector") == OWNER_LABEL
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "10"}, "items": objects()})
        floods = self._upstream.floods and request.path.endswith("configmaps") and not managed
        return await self._stream(request, [] if managed else objects(), floods=floods)

    async def _stream(self, request: web.BaseRequest, objects: list[Json], *, floods: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            for one in objects:
                await response.write(_line("ADDED", one))
            if not floods:
                ends = {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}
                await response.write(_line("BOOKMARK", {"metadata": ends}))
        while floods:
            many = range(self._upstream.sent, self._upstream.sent + _CHUNK)
            lines = b"".join(_line("ADDED", self._upstream.config_map(f"n{one}", 11 + one)) for one in many)
            self._upstream.sent += _CHUNK
            await response.write(lines)
            # A write that needs no wait yields to nobody, and then this loop would never hear that the reader has left.
            await asyncio.sleep(0)
        await asyncio.Event().wait()
        return response


def _line(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


def _discovery(path: str) -> Json | None:
    verbs = ["create", "delete", "get", "list", "patch", "watch"]
    resources = [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": verbs},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": verbs},
    ]
    return {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources},
    }.get(path)
