"""Specs sent to a real API server, to see what it says of them."""

import json
import ssl
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
    return f"/apis/{API_VERSION}/namespaces/default/{kind.plural}"


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


def report(sandbox: Sandbox, kind: Kind, address: str, status: Struct) -> dict[str, Any]:
    """Write a status as the operator does, and return what is stored."""
    body = {
        "apiVersion": API_VERSION,
        "kind": kind.kind,
        "metadata": {"name": address.rpartition("/")[2]},
        "status": to_builtins(status),
    }
    return sandbox.request("PATCH", f"{address}/status?fieldManager=tests&force=true", body)


def table(sandbox: Sandbox, address: str) -> tuple[list[str], list[Any]]:
    """What `kubectl get` shows of an object: the columns and its cells."""
    request = urllib.request.Request(
        f"{sandbox.server}{address}",
        headers={
            "Authorization": f"Bearer {sandbox.token}",
            "Accept": "application/json;as=Table;g=meta.k8s.io;v=v1",
        },
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=sandbox.ca)) as answer:
        shown = json.load(answer)
    return [column["name"] for column in shown["columnDefinitions"]], shown["rows"][0]["cells"]


def messages(node: Any) -> Iterator[str]:
    """Every message of a rule in a schema."""
    if isinstance(node, dict):
        yield from (validation["message"] for validation in node.get(VALIDATIONS, ()))
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from messages(value)
