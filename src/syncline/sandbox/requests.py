"""One JSON request to a sandbox's API server: enough to know that it is ready and to prepare a scene, not a client."""

import http.client
import json
import ssl
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
    """Requests to one server with one token; a connection each, so that a restarted server is no surprise."""

    def __init__(self, server: str, authority: str, token: str) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 443
        self._token = token
        self._tls = ssl.create_default_context(cadata=authority)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 10.0
    ) -> dict[str, Any]:
        """Send one request and return the JSON object it is answered with; RequestError above status 299."""
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "Content-Type": kind}
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise RequestError(answer.status, f"{method} {path}: {answer.status} {_message(text)}")
        parsed = json.loads(text) if text.startswith("{") else {}
        return parsed if isinstance(parsed, dict) else {}

    def answers(self, path: str) -> bool:
        """Whether a GET of the path succeeds just now."""
        try:
            self.send("GET", path, timeout=2.0)
        except (OSError, http.client.HTTPException, RequestError):
            return False
        return True


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500]
