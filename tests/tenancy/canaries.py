"""Values of Secrets that tests have written, and the search for them wherever they must never be.

Every Secret that a test sends to a sandbox is noted. One more key is planted in it, with a value of our own that goes
wherever the Secret goes; the test does not see it when it reads the Secret.
"""

import base64
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from syncline.api.common import API_VERSION
from syncline.api.kinds import KINDS
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess

KEY = "planted-canary"
# Shorter values are words that stand in logs for other reasons.
SHORTEST = 12
# Values of words alone can stand in any message: nobody could tell such a leak from a sentence.
_PROSE = re.compile(r"[A-Za-z]+(?:[ ,]+[A-Za-z]+)+")
_SECRETS = re.compile(r"^/api/v1/(?:namespaces/[^/]+/)?secrets(?:/[^/?]+)?(?:\?|$)")
_CREDENTIALS = ("token", "password", "client-key-data")
_SHOWN = 200


class Canaries:
    """What was written, and where it was found."""

    def __init__(self) -> None:
        self.value = f"CANARY-{secrets.token_hex(12)}"
        self.found: list[str] = []
        self._forms: set[str] = set()
        self.note(self.value)

    def note(self, value: str) -> None:
        """Look for this value from now on, as it is and in the forms that it takes on the way."""
        for secret in _credentials(value) or [value]:
            if len(secret) >= SHORTEST:
                assert not _PROSE.fullmatch(secret), f"a message could say {secret!r}: choose a value that none does"
                self._forms |= {secret, *_encoded(secret)}

    def note_secret(self, body: Mapping[str, Any]) -> None:
        """Look for all values of a Secret from now on."""
        for value in (body.get("stringData") or {}).values():
            self.note(str(value))
        for value in (body.get("data") or {}).values():
            with contextlib.suppress(ValueError):
                self.note(base64.b64decode(str(value)).decode())

    def leaks(self, text: str) -> list[str]:
        """Return the surroundings of each value that stands in a text."""
        return [text[max(0, at - 80) : at + _SHOWN] for form in self._forms if (at := text.find(form)) >= 0]

    def search(self, place: str, text: str) -> None:
        """Note where a value stands that must not."""
        self.found += [f"{place}: ...{leak}..." for leak in self.leaks(text)]

    def search_operator(self, operator: OperatorProcess) -> None:
        """Look at all that an operator says, and at what can be seen of its processes."""
        self.search("the operator's log", operator.log_file.read_text("utf-8") if operator.log_file.exists() else "")
        if operator.returncode is None:
            self.search("/metrics", operator.get("metrics", "/metrics")[1])
            for pid in (operator.pid, *_descendants(operator.pid)):
                for part in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        self.search(
                            f"{part} of process {pid}", Path(f"/proc/{pid}/{part}").read_text("utf-8", "replace")
                        )

    def search_cluster(self, sandbox: Sandbox) -> None:
        """Look at all events, and at all that syncs say about themselves."""
        for event in _items(sandbox, "/apis/events.k8s.io/v1/events"):
            self.search(f"event {event['metadata']['name']}", json.dumps(event))
        for kind in KINDS:
            for sync in _items(sandbox, f"/apis/{API_VERSION}/{kind.plural}"):
                self.search(f"status of {kind.kind} {sync['metadata']['name']}", json.dumps(sync.get("status", {})))

    def planted(self, request: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Wrap `Sandbox.request`: what goes out as a Secret takes a canary along, and comes back without."""

        def send(
            sandbox: Sandbox, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any
        ) -> dict[str, Any]:
            if not _SECRETS.match(path):
                return request(sandbox, method, path, body, **more)
            if body is not None and method != "DELETE":
                self.note_secret(body)
                if body.get("type") != "kubernetes.io/service-account-token":
                    encoded = base64.b64encode(self.value.encode()).decode()
                    body = {**body, "data": {**(body.get("data") or {}), KEY: encoded}}
            return _plucked(request(sandbox, method, path, body, **more))

        return send


def _plucked(answer: dict[str, Any]) -> dict[str, Any]:
    for secret in (answer, *answer.get("items", ())):
        data = secret.get("data")
        if isinstance(data, dict) and data.pop(KEY, None) is not None and not data:
            del secret["data"]
    return answer


def _credentials(value: str) -> list[str]:
    """Return what is secret in a kubeconfig: its server and its authority are told of where they must be."""
    if "users:" not in value:
        return []
    try:
        users = (yaml.safe_load(value) or {}).get("users") or []
        return [str(one["user"][key]) for one in users for key in _CREDENTIALS if one.get("user", {}).get(key)]
    except (yaml.YAMLError, AttributeError, TypeError):
        return []


def _encoded(value: str) -> Iterator[str]:
    """Yield what stays of a value in base64, wherever it begins."""
    for shift in range(3):
        encoded = base64.b64encode(b"x" * shift + value.encode()).decode().rstrip("=")
        yield encoded[4 if shift else 0 : -4]


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
            yield int(child)
            yield from _descendants(int(child))


def _items(sandbox: Sandbox, path: str) -> list[dict[str, Any]]:
    try:
        return list(sandbox.request("GET", path)["items"])
    except RequestError as error:
        if error.status != 404:  # not installed
            raise
        return []
