"""Simple JSON requests to the API server of a sandbox, for readiness checks and test data."""

import http.client
import json
import select
import ssl
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from syncline.sandbox.errors import SandboxError


class RequestError(SandboxError):
    """The API server refused a request; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Requests:
    """Requests to one server, below the path of its address.

    A connection is kept for the next request, unless the server has ended it meanwhile.
    """

    def __init__(self, server: str, authority: str, token: str) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 443
        self._base = parts.path.rstrip("/")
        self._token = token
        self._tls = ssl.create_default_context(cadata=authority)
        self._idle: list[http.client.HTTPSConnection] = []
        weakref.finalize(self, _close, self._idle)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
    ) -> dict[str, Any]:
        """Send one request and return the JSON object of the answer. Raises RequestError above status 299."""
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token or self._token}", "Accept": "application/json"}
        connection = self._connection(timeout)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, self._base + path, content, {**headers, "Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise RequestError(answer.status, f"{method} {path}: {answer.status} {_message(text)}")
        parsed = json.loads(text) if text.startswith("{") else {}
        return parsed if isinstance(parsed, dict) else {}

    def close(self) -> None:
        """Close the connections; a later request opens a new one."""
        _close(self._idle)

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(timeout)
                return connection
            connection.close()  # only the end of the connection can be readable now
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    def answers(self, path: str) -> bool:
        """Whether a GET of the path succeeds."""
        try:
            self.send("GET", path, timeout=2.0)
        except (OSError, http.client.HTTPException, RequestError):
            return False
        return True


def _close(connections: list[http.client.HTTPSConnection]) -> None:
    while connections:
        connections.pop().close()


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500]
