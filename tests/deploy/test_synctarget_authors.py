"""Who may write a SyncTarget: real accounts with real roles try it on a real API server."""

from typing import Any

import pytest
from tests.deploy.authors import MAY, Apply, Authors, Eventually, Grant, namespaces

from syncline.api.kinds import SYNC_TARGET
from syncline.sandbox import Sandbox

HOME = "st-home"

AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "reader": (Grant(HOME, "secrets", ("get",)),),
    "by-name": (Grant(HOME, "secrets", ("get",), "prod"),),
    "lister": (Grant(HOME, "secrets", ("list",)),),
    "elsewhere": (Grant("st-other", "secrets", ("get",)),),
}
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "prod"},
    "server": "https://api.example.com",
}
OTHER = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "other"}}
NO_SECRET = f"you may not get the Secret prod in namespace {HOME}, so no SyncTarget may use it for you"

TABLE = [
    ("nobody", KUBECONFIG, NO_SECRET),
    ("nobody", TOKEN, NO_SECRET),
    ("lister", KUBECONFIG, NO_SECRET),
    ("elsewhere", KUBECONFIG, NO_SECRET),
    ("reader", KUBECONFIG, MAY),
    ("reader", OTHER, MAY),
    ("by-name", KUBECONFIG, MAY),
    ("by-name", TOKEN, MAY),
    ("by-name", OTHER, f"you may not get the Secret other in namespace {HOME}"),
]


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the table, once all rights and the policy are in force."""
    apply(namespaces(HOME, "st-other"))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NO_SECRET in authors.attempt("nobody", SYNC_TARGET, {"connection": KUBECONFIG}))
    return authors


@pytest.mark.parametrize(
    ("author", "connection", "told"), TABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_whoever_names_a_credential_must_be_able_to_read_it(
    authors: Authors, author: str, connection: dict[str, Any], told: str
) -> None:
    answer = authors.attempt(author, SYNC_TARGET, {"connection": connection, "allowedNamespaces": ["*"]})
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)
