"""Who may write a ConfigSync: real accounts with real roles try it on a real API server."""

from typing import Any

import pytest
from tests.deploy.authors import MAY, Apply, Authors, Eventually, Grant, namespaces

from syncline.api.common import API_VERSION
from syncline.api.kinds import CONFIG_SYNC
from syncline.sandbox import RequestError, Sandbox

HOME = "csync-home"

AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "owner": (Grant(HOME, "*", ("*",), group="*"),),
    "reader-of-all": (Grant("", "*", ("get", "list", "watch"), group="*"),),
    "admin": (Grant("", "*", ("*",), group="*"),),
    "impersonator": (Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "elsewhere": (Grant("csync-other", "serviceaccounts", ("impersonate",)),),
}
GIT = {"git": {"repo": "https://git.example.com/team/config.git"}}
PLAIN = {"source": GIT}
NARROW = {**PLAIN, "targets": [{"type": "ConfigMap", "name": "app", "namespace": HOME}]}
FROM_HERE = {"source": {"configMapRef": {"name": "files"}}}
WITH_SECRETS = {
    "source": {"git": {**GIT["git"], "auth": {"type": "Token", "secretRef": {"name": "login"}}}},
    "decryption": {"secretRef": {"name": "keys"}},
    "webhook": {"secretRef": {"name": "hook"}},
    "template": {"enabled": True, "valuesFrom": [{"kind": "Secret", "name": "values"}]},
}
ELSEWHERE = {
    **PLAIN,
    "remoteClusters": [
        {
            "clusterName": "eu",
            "connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "eu"}},
        }
    ],
}
SPECS = (PLAIN, NARROW, FROM_HERE, WITH_SECRETS, ELSEWHERE)
NOT_ALL = (
    "you may not use all verbs on all resources, and users who push to the repository decide the actions of this sync"
)

TABLE = [
    *((author, spec, NOT_ALL) for author in ("nobody", "owner", "reader-of-all", "impersonator") for spec in SPECS),
    *(("admin", spec, MAY) for spec in SPECS),
    *(
        (author, {**spec, "serviceAccountName": account}, told)
        for author, account, told in [
            ("impersonator", "robot", MAY),
            ("token-maker", "robot", MAY),
            ("owner", "robot", MAY),
            ("impersonator", "other", f"you may not impersonate the service account other of namespace {HOME}"),
            ("token-maker", "other", f"you may not impersonate the service account other of namespace {HOME}"),
            ("elsewhere", "robot", f"you may not impersonate the service account robot of namespace {HOME}"),
            ("reader-of-all", "robot", f"you may not impersonate the service account robot of namespace {HOME}"),
        ]
        for spec in (PLAIN, WITH_SECRETS)
    ),
]


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the table, once all rights and the policy are in force."""
    apply(namespaces(HOME, "csync-other"))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NOT_ALL in authors.attempt("nobody", CONFIG_SYNC, PLAIN))
    return authors


@pytest.mark.parametrize(("author", "spec", "told"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_an_author_acts_as_an_account_or_has_all_rights(
    authors: Authors, author: str, spec: dict[str, Any], told: str
) -> None:
    answer = authors.attempt(author, CONFIG_SYNC, spec)
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)


def test_the_account_of_a_sync_cannot_be_taken_away_by_one_with_fewer_rights(
    sandbox: Sandbox, authors: Authors
) -> None:
    address = f"/apis/{API_VERSION}/namespaces/{HOME}/{CONFIG_SYNC.plural}/kept"
    identity = {"apiVersion": API_VERSION, "kind": CONFIG_SYNC.kind, "metadata": {"name": "kept"}}

    def apply(spec: dict[str, Any]) -> None:
        token = authors.token("impersonator")
        sandbox.request("PATCH", f"{address}?fieldManager=tests", {**identity, "spec": spec}, token=token)

    apply({**PLAIN, "serviceAccountName": "robot"})
    # Two policies refuse it, and the API server names either of them.
    with pytest.raises(RequestError, match="you may not use all verbs on all resources, and"):
        apply(PLAIN)
    sandbox.request("DELETE", address)


def test_a_sync_with_many_values_can_be_changed_too(sandbox: Sandbox, authors: Authors) -> None:
    address = f"/apis/{API_VERSION}/namespaces/{HOME}/{CONFIG_SYNC.plural}/large"
    identity = {"apiVersion": API_VERSION, "kind": CONFIG_SYNC.kind, "metadata": {"name": "large"}}
    values = {f"key-{number}": {"list": [{"text": "x" * 100}] * 5} for number in range(1000)}
    spec = {**PLAIN, "serviceAccountName": "robot", "template": {"enabled": True, "values": values}}
    for suspend in (False, True):
        body = {**identity, "spec": {**spec, "suspend": suspend}}
        token = authors.token("impersonator")
        changed = sandbox.request("PATCH", f"{address}?fieldManager=tests", body, token=token)
        assert changed["spec"]["suspend"] is suspend
    sandbox.request("DELETE", address)
