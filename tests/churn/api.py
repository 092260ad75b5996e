"""The cluster as its users reach it: past the proxy, as admin, with a word on what is not known.

A request that an outage interrupts may or may not have been carried out. It raises `Unsure`, and whoever asked has to
look; nothing is tried twice behind the caller's back.
"""

import http.client
import json
import ssl
import threading
import time
from typing import Any
from urllib.parse import quote, urlsplit

from syncline.sandbox import Sandbox

Json = dict[str, Any]
Place = tuple[str, str, str]
"""Kind, namespace and name of an object."""

PATIENCE = 180.0
_TIMEOUT = 70.0
_GROUP = "/apis/syncline.dev/v1alpha1"
_COLLECTIONS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "Widget": ("/apis/example.com/v1", "widgets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "ConfigMapSync": (_GROUP, "configmapsyncs"),
    "ManifestSync": (_GROUP, "manifestsyncs"),
    "ConfigSync": (_GROUP, "configsyncs"),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "SyncTarget": (_GROUP, "synctargets"),
}
FAR = "far"
"""What syncs call the second cluster. Kinds of objects there begin with it, as in `far/ConfigMap`."""
COPIED = ("ConfigMap", "Secret", "Service", "NetworkPolicy", "Widget")
SYNCS = ("ConfigMapSync", "ManifestSync", "ConfigSync")
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
_STARTING = "not yet ready to handle request"
"""What a server that has just started answers to writes, with 403: its admission plugins know no cluster yet."""


class Refused(Exception):  # noqa: N818 - an answer like any other
    """The server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Unsure(Exception):  # noqa: N818 - an answer that is missing
    """Whether the request was carried out is not known."""


class Admin:
    """Requests of a user who may do everything; for any number of threads."""

    def __init__(self, sandbox: Sandbox) -> None:
        parts = urlsplit(sandbox.server)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 443
        self._headers = {"Authorization": f"Bearer {sandbox.token}", "Accept": "application/json"}
        self._tls = ssl.create_default_context(cadata=sandbox.ca)
        self._local = threading.local()
        self._open: set[http.client.HTTPSConnection] = set()

    def close(self) -> None:
        """Let go of all connections."""
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    def send(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Json:
        """Send one request. Raises `Refused` or `Unsure`."""
        connection = self._connection()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {**self._headers, "Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._drop(connection)
            raise Unsure(f"{method} {path}: {error!r}") from error
        parsed: Json = json.loads(text) if text.startswith("{") else {}
        message = str(parsed.get("message", text[:200]))
        if is_outage(answer.status, message):
            raise Unsure(f"{method} {path}: {answer.status} {message}")
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise Refused(answer.status, message)
        return parsed

    def get(self, path: str) -> Json | None:
        """Read an object, however long an outage lasts; None where there is none."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.send("GET", path)
            except Refused as error:
                if error.status == http.client.NOT_FOUND:
                    return None
                if time.monotonic() > deadline:
                    raise
            except Unsure:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.3)

    def items(self, path: str) -> list[Json]:
        """Read all objects of a collection."""
        found = self.get(path)
        return [] if found is None else list(found["items"])

    def read(self, place: Place) -> Json | None:
        """Read the object at a place."""
        return self.get(path_of(place))

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT, context=self._tls)
            self._local.connection = connection
            self._open.add(connection)
        return connection

    def _drop(self, connection: http.client.HTTPSConnection) -> None:
        connection.close()
        self._open.discard(connection)
        self._local.connection = None


def is_outage(status: int, message: str) -> bool:
    """Whether an answer tells of the state of the server, and not of the request."""
    if status == http.client.FORBIDDEN:
        return message.endswith(_STARTING)
    return status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS


def path_of(place: Place) -> str:
    """Return the path of an object."""
    kind, namespace, name = place
    kind = bare(kind)
    if kind == "Namespace":
        return f"/api/v1/namespaces/{name}"
    return f"{collection_of(kind, namespace)}/{quote(name)}"


def collection_of(kind: str, namespace: str = "") -> str:
    """Return the path of all objects of a kind, in one namespace or in all."""
    kind = bare(kind)
    if kind == "Namespace":
        return "/api/v1/namespaces"
    group, plural = _COLLECTIONS[kind]
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def api_version(kind: str) -> str:
    """Return what manifests of a kind say."""
    kind = bare(kind)
    group = _COLLECTIONS[kind][0] if kind != "Namespace" else "/api/v1"
    return group.removeprefix("/apis/").removeprefix("/api/")


def bare(kind: str) -> str:
    """Return a kind without the cluster."""
    return kind.removeprefix(f"{FAR}/")


def is_far(kind: str) -> bool:
    """Whether objects of a kind are in the second cluster."""
    return kind.startswith(f"{FAR}/")


def place_of(kind: str, body: Json) -> Place:
    """Return the place of an object."""
    return kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]
