"""Values of Secrets that tests have written, and the search for them in places where they must not be.

The fixture `canaries` records the values of each Secret that a test sends to a sandbox. It plants one more key in the
Secret, with a value of the test's own that goes wherever the Secret goes. The test does not see this key when it reads
the Secret. A value that is found is reported with the test that wrote it.
"""

import base64
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import yaml

from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess

KEY = "planted-canary"
# Shorter values are words that are in logs for other reasons.
SHORTEST = 12
# Values of words alone can be a part of any message: nobody could tell such a leak from a sentence.
_PROSE = re.compile(r"[A-Za-z]+(?:[ ,]+[A-Za-z]+)+")
_SECRETS = re.compile(r"^/api/v1/(?:namespaces/[^/]+/)?secrets(?:/[^/?]+)?(?:\?|$)")
_KINDS = "|".join(kind.plural for kind in ALL_KINDS)
_SYNCS = re.compile(rf"^(/apis/{re.escape(API_VERSION)}/(?:namespaces/([^/?]+)/)?(?:{_KINDS}))(?:[/?]|$)")
_EVENTS = "/apis/events.k8s.io/v1"
_CREDENTIALS = ("token", "password", "client-key-data")
_SHOWN = 200
# The first characters by which a text is compared with all values at once: the shortest form of a value has ten.
_HEAD = 8


class Canaries:
    """The values that tests have written, and the places where they were found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._forms: dict[str, str] = {}
        self._heads: dict[str, set[str]] = {}
        self._logs: dict[OperatorProcess, IO[bytes]] = {}
        self._folders: set[tuple[Sandbox, str]] = set()
        self._wrote_secrets = False
        self.begin("no test")

    def begin(self, test: str) -> None:
        """Attribute the values that are written from now on to this test, and plant a value of its own."""
        self.test = test
        self.value = f"CANARY-{secrets.token_hex(12)}"
        self._folders.clear()
        self._wrote_secrets = False
        self.note(self.value)

    def note(self, value: str) -> None:
        """Search for this value from now on, as it is and in base64."""
        for secret in _credentials(value) or [value]:
            if len(secret) >= SHORTEST:
                assert not _PROSE.fullmatch(secret), f"a message could say {secret!r}: choose a value that none does"
                for form in (secret, *_encoded(secret)):
                    self._forms.setdefault(form, self.test)
                    self._heads.setdefault(form[:_HEAD], set()).add(form)

    def note_secret(self, body: Mapping[str, Any]) -> None:
        """Search for all values of a Secret from now on."""
        for value in (body.get("stringData") or {}).values():
            self.note(str(value))
        for value in (body.get("data") or {}).values():
            with contextlib.suppress(ValueError):
                self.note(base64.b64decode(str(value)).decode())

    def leaks(self, text: str) -> dict[str, str]:
        """Return the test that wrote each value of a text, by the text around the value."""
        places = [at for at in range(len(text) - _HEAD + 1) if text[at : at + _HEAD] in self._heads]
        values = {
            form: at
            for at in reversed(places)
            for form in self._heads[text[at : at + _HEAD]]
            if text.startswith(form, at)
        }
        return {text[max(0, at - 80) : at + _SHOWN]: self._forms[form] for form, at in values.items()}

    def search(self, place: str, text: str) -> None:
        """Record each value that is in a text where it must not be."""
        self.found += [f"{place}: ...{leak}... (written by {test})" for leak, test in self.leaks(text).items()]

    def follow(self, operator: OperatorProcess) -> None:
        """Search the log of this operator, each time from where the last search ended."""
        if operator not in self._logs and operator.log_file.exists():
            self._logs[operator] = operator.log_file.open("rb")

    def search_logs(self) -> None:
        """Search what the logs of all running operators have gained."""
        for log in self._logs.values():
            # A line that is being written belongs to the next search.
            gained = log.read()
            log.seek(gained.rfind(b"\n") + 1 - len(gained), 1)
            self.search("the operator's log", gained[: gained.rfind(b"\n") + 1].decode("utf-8", "replace"))

    def search_operator(self, operator: OperatorProcess) -> None:
        """Search the log and the metrics of an operator, and the arguments and environment of its processes."""
        self.follow(operator)
        self.search_logs()
        if operator.returncode is None:
            self.search("/metrics", operator.get("metrics", "/metrics")[1])
            for pid in (operator.pid, *_descendants(operator.pid)):
                for part in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        self.search(
                            f"{part} of process {pid}", Path(f"/proc/{pid}/{part}").read_text("utf-8", "replace")
                        )

    def leave(self, operator: OperatorProcess) -> None:
        """Search the rest of the log of an operator that has ended."""
        log = self._logs.pop(operator, None)
        if log is not None:
            with log:
                self.search("the operator's log", log.read().decode("utf-8", "replace"))

    def search_test(self) -> None:
        """Search the statuses and events of the syncs that this test has written, if it has written Secrets as well."""
        if self._wrote_secrets:
            for sandbox, folder in sorted(self._folders, key=lambda one: one[1]):
                with contextlib.suppress(OSError):  # some tests end their cluster, or leave it frozen
                    self._search_folder(sandbox, folder)

    def search_cluster(self, sandbox: Sandbox) -> None:
        """Search all events, and the status of each object of our kinds."""
        for folder in (f"{_EVENTS}/events", *(f"/apis/{API_VERSION}/{kind.plural}" for kind in ALL_KINDS)):
            self._search_folder(sandbox, folder)

    def raise_for_leaks(self) -> None:
        """Fail if a value was found since the last call."""
        found, self.found = self.found, []
        assert not found, "values of Secrets were found in:\n" + "\n".join(found)

    def end(self) -> None:
        """Search the rest of all logs, and fail if a value was found since the last failure."""
        for operator in list(self._logs):
            self.leave(operator)
        self.raise_for_leaks()

    def planted(self, request: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Wrap `Access.request`: add the planted key to each Secret that is sent, and remove it from each answer."""

        def send(
            sandbox: Sandbox, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any
        ) -> dict[str, Any]:
            if body is not None and (sync := _SYNCS.match(path)):
                self._folders.add((sandbox, sync[1]))
                if sync[2]:
                    self._folders.add((sandbox, f"{_EVENTS}/namespaces/{sync[2]}/events"))
            if not _SECRETS.match(path):
                return request(sandbox, method, path, body, **more)
            if body is not None and method != "DELETE":
                self._wrote_secrets = True
                self.note_secret(body)
                if body.get("type") != "kubernetes.io/service-account-token":
                    encoded = base64.b64encode(self.value.encode()).decode()
                    body = {**body, "data": {**(body.get("data") or {}), KEY: encoded}}
            return _plucked(request(sandbox, method, path, body, **more))

        return send

    def _search_folder(self, sandbox: Sandbox, folder: str) -> None:
        for item in _items(sandbox, folder):
            told = item if folder.startswith(_EVENTS) else item.get("status", {})
            name = "/".join(filter(None, (item["metadata"].get("namespace"), item["metadata"]["name"])))
            self.search(f"{folder.rpartition('/')[2]} {name}", json.dumps(told))


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
