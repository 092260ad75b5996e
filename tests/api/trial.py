"""Specs sent to a real API server, to see what it says of them."""

import http
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, to_builtins

from syncline.api.common import API_VERSION
from syncline.api.kinds import Kind
from syncline.api.schema import VALIDATIONS
from syncline.sandbox import Sandbox

Spec = dict[str, Any]
Bad = tuple[Spec, str, str]
"""A spec, where the API server finds the fault, and what it says of it."""


def collection(kind: Kind) -> str:
    where = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{API_VERSION}/{where}{kind.plural}"


def create(sandbox: Sandbox, kind: Kind, spec: Spec) -> dict[str, Any]:
    """Have the server check a spec, and return what it would store; RequestError with its words otherwise."""
    body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": "tried"}, "spec": spec}
    return sandbox.request("POST", f"{collection(kind)}?dryRun=All&fieldValidation=Strict", body)


@contextmanager
def stored(sandbox: Sandbox, kind: Kind, spec: Spec) -> Iterator[str]:
    """An object with this spec for a while: its address."""
    body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"generateName": "stored-"}, "spec": spec}
    name = sandbox.request("POST", collection(kind), body)["metadata"]["name"]
    yield f"{collection(kind)}/{name}"
    sandbox.request("DELETE", f"{collection(kind)}/{name}")


def report(sandbox: Sandbox, address: str, status: Struct) -> dict[str, Any]:
    """Have the server check a status, and return what it would store: an operator that runs here puts it right."""
    return _report(sandbox, address, status, "application/json")


def table(sandbox: Sandbox, address: str, status: Struct) -> tuple[list[str], list[Any]]:
    """What `kubectl get` shows of an object with this status: the columns and its cells."""
    shown = _report(sandbox, address, status, "application/json;as=Table;g=meta.k8s.io;v=v1")
    return [column["name"] for column in shown["columnDefinitions"]], shown["rows"][0]["cells"]


def _report(sandbox: Sandbox, address: str, status: Struct, accept: str) -> dict[str, Any]:
    context = ssl.create_default_context(cadata=sandbox.ca)
    while True:
        body = {**sandbox.request("GET", address), "status": to_builtins(status)}
        request = urllib.request.Request(
            f"{sandbox.server}{address}/status?dryRun=All&fieldValidation=Strict",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {sandbox.token}", "Accept": accept, "Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        except urllib.error.HTTPError as error:
            with error:
                if error.status != http.HTTPStatus.CONFLICT:  # an operator was faster
                    raise


def messages(node: Any) -> Iterator[str]:
    """Every message of a rule in a schema."""
    if isinstance(node, dict):
        yield from (validation["message"] for validation in node.get(VALIDATIONS, ()))
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from messages(value)
