"""Who may write a ConfigMapSync: real accounts with real roles try it on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.deploy.authors import MAY, Apply, Authors, Eventually, Grant, namespaces

from syncline import deploy
from syncline.api.common import API_VERSION, FINALIZER
from syncline.api.configmapsync import KIND, PLURAL
from syncline.api.kinds import CONFIG_MAP_SYNC
from syncline.sandbox import RequestError, Sandbox

HOME = "policy-home"
SYNCS = f"/apis/{API_VERSION}/namespaces/{HOME}/{PLURAL}"


def read(namespace: str, name: str = "") -> Grant:
    return Grant(namespace, "configmaps", ("get",), name)


def write(namespace: str, *verbs: str) -> Grant:
    return Grant(namespace, "configmaps", verbs or ("create", "update", "delete"))


AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "reader": (read("policy-source"),),
    "writer": (write("policy-one"),),
    "neighbour": (read("policy-source"), write("policy-one"), write("policy-two")),
    "by-name": (
        read("policy-source", "app"),
        write("policy-one", "create"),
        Grant("policy-one", "configmaps", ("update", "delete"), "copy"),
    ),
    "no-create": (read("policy-source"), write("policy-one", "update", "delete")),
    "no-update": (read("policy-source"), write("policy-one", "create", "delete")),
    "no-delete": (read("policy-source"), write("policy-one", "create", "update")),
    "everywhere": (read("policy-source"), write("")),
    "two-way": (
        read("policy-source"),
        write("policy-source", "create", "update"),
        read("policy-one"),
        write("policy-one"),
    ),
    "two-way-by-name": (
        read("policy-source", "app"),
        write("policy-source", "create"),
        Grant("policy-source", "configmaps", ("update",), "app"),
        read("policy-one", "copy"),
        write("policy-one", "create"),
        Grant("policy-one", "configmaps", ("update", "delete"), "copy"),
    ),
    "two-way-no-source": (read("policy-source"), read("policy-one"), write("policy-one")),
    "two-way-no-create": (
        read("policy-source"),
        write("policy-source", "update"),
        read("policy-one"),
        write("policy-one"),
    ),
    "two-way-no-update": (
        read("policy-source"),
        write("policy-source", "create"),
        read("policy-one"),
        write("policy-one"),
    ),
    "two-way-no-copy": (read("policy-source"), write("policy-source", "create", "update"), write("policy-one")),
    "impersonator": (Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "elsewhere": (Grant("policy-one", "serviceaccounts", ("impersonate",)),),
}

SOURCE = {"sourceNamespace": "policy-source", "configMapName": "app"}
ONE = {"destinationNamespace": "policy-one"}
ONE_LISTED = {"destinationNamespaces": ["policy-one"]}
TWICE = {"destinationNamespace": "policy-one", "destinationNamespaces": ["policy-one", "policy-one"]}
TWO = {"destinationNamespaces": ["policy-one", "policy-two"]}
GLOB = {"destinationNamespaces": ["policy-on?"]}
STAR = {"destinationNamespace": "policy-one", "destinationNamespaces": ["*"]}
LABELLED = {"destinationNamespace": "policy-one", "destinationNamespaceSelector": {"matchLabels": {"a": "b"}}}
RENAMED = {"destinationNamespace": "policy-one", "destinationName": "copy"}
BOTH_WAYS = {"direction": "Bidirectional", "destinationNamespace": "policy-one"}
ROBOT = {"destinationNamespaces": ["*"], "serviceAccountName": "robot"}
OTHER = {"destinationNamespaces": ["*"], "serviceAccountName": "other"}

NO_SOURCE = "you may not get the ConfigMap app in namespace policy-source"
NOT_ALL = "ConfigMaps in all namespaces (this sync does not name exactly one)"

TABLE = [
    ("nobody", ONE, NO_SOURCE),
    ("writer", ONE, NO_SOURCE),
    ("reader", ONE, "you may not create ConfigMaps in namespace policy-one"),
    ("no-create", ONE, "you may not create ConfigMaps in namespace policy-one"),
    ("no-update", ONE, "you may not update ConfigMaps in namespace policy-one"),
    ("no-delete", ONE, "you may not delete ConfigMaps in namespace policy-one"),
    ("neighbour", ONE, MAY),
    ("neighbour", ONE_LISTED, MAY),
    ("neighbour", TWICE, MAY),
    ("neighbour", TWO, f"you may not create {NOT_ALL}"),
    ("neighbour", GLOB, f"you may not create {NOT_ALL}"),
    ("neighbour", STAR, f"you may not create {NOT_ALL}"),
    ("neighbour", LABELLED, f"you may not create {NOT_ALL}"),
    ("by-name", RENAMED, MAY),
    ("by-name", ONE, "you may not update ConfigMaps in namespace policy-one"),
    (
        "by-name",
        {**RENAMED, "configMapName": "other"},
        "you may not get the ConfigMap other in namespace policy-source",
    ),
    ("everywhere", ONE, MAY),
    ("everywhere", TWO, MAY),
    ("everywhere", STAR, MAY),
    ("everywhere", LABELLED, MAY),
    ("two-way", BOTH_WAYS, MAY),
    ("two-way-by-name", {**RENAMED, **BOTH_WAYS}, MAY),
    ("two-way-by-name", BOTH_WAYS, "you may not update ConfigMaps in namespace policy-one"),
    (
        "two-way-no-source",
        BOTH_WAYS,
        "you may not create the ConfigMap app in namespace policy-source, so no sync may do it for you: write",
    ),
    ("two-way-no-source", ONE, MAY),
    ("two-way-no-create", BOTH_WAYS, "you may not create the ConfigMap app in namespace policy-source"),
    ("two-way-no-update", BOTH_WAYS, "you may not update the ConfigMap app in namespace policy-source"),
    ("two-way-no-copy", BOTH_WAYS, "you may not get the ConfigMap app in namespace policy-one"),
    ("impersonator", {**BOTH_WAYS, "serviceAccountName": "robot"}, MAY),
    ("everywhere", ROBOT, f"you may not impersonate the service account robot of namespace {HOME}"),
    ("impersonator", ROBOT, MAY),
    ("impersonator", OTHER, f"you may not impersonate the service account other of namespace {HOME}"),
    ("impersonator", STAR, NO_SOURCE),
    ("token-maker", ROBOT, MAY),
    ("token-maker", OTHER, f"you may not impersonate the service account other of namespace {HOME}"),
    ("elsewhere", ROBOT, f"you may not impersonate the service account robot of namespace {HOME}"),
]


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the table, once all rights and the policy are in force."""
    apply(namespaces(HOME, "policy-source", "policy-one", "policy-two"))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NO_SOURCE in authors.attempt("nobody", CONFIG_MAP_SYNC, {**SOURCE, **ONE}))
    return authors


@pytest.mark.parametrize(("author", "spec", "told"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_an_author_may_only_ask_for_what_they_may_do(
    authors: Authors, author: str, spec: dict[str, Any], told: str
) -> None:
    answer = authors.attempt(author, CONFIG_MAP_SYNC, {**SOURCE, **spec})
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)


@pytest.fixture
def admins_sync(
    sandbox: Sandbox,
    authors: Authors,  # noqa: ARG001 - the namespace is there
    eventually: Eventually,
) -> Iterator[str]:
    """A sync over all namespaces, written by an admin: its address."""
    address = f"{SYNCS}/admins"
    identity = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "admins"}}
    sandbox.request("POST", SYNCS, {**identity, "spec": {**SOURCE, **STAR}})
    yield address
    sandbox.request("DELETE", address)
    # An operator of other tests may hold it for a moment.
    eventually(
        lambda: not [one for one in sandbox.request("GET", SYNCS)["items"] if one["metadata"]["name"] == "admins"]
    )


def change(sandbox: Sandbox, token: str, address: str, **change: Any) -> dict[str, Any]:
    name = address.removeprefix(f"{SYNCS}/").removesuffix("/status")
    body = {"apiVersion": API_VERSION, "kind": KIND, **change}
    body["metadata"] = {"name": name, **change.get("metadata", {})}
    return sandbox.request("PATCH", f"{address}?fieldManager=author&force=true&dryRun=All", body, token=token)


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"note": "now"}},
        {"labels": {"a": "b"}},
        {"finalizers": [FINALIZER]},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_what_is_not_the_spec_may_change_without_the_authors_rights(
    sandbox: Sandbox, authors: Authors, admins_sync: str, metadata: dict[str, Any]
) -> None:
    changed = change(sandbox, authors.token("nobody"), admins_sync, metadata=metadata)
    assert metadata.items() <= changed["metadata"].items()


def test_whoever_changes_the_spec_is_its_author(sandbox: Sandbox, authors: Authors, admins_sync: str) -> None:
    with pytest.raises(RequestError, match=r"you may not (create|delete) ConfigMaps in all namespaces"):
        change(sandbox, authors.token("neighbour"), admins_sync, spec={"prune": False})
    assert change(sandbox, authors.token("everywhere"), admins_sync, spec={"prune": False})["spec"]["prune"] is False


def test_the_operator_reports_status_on_a_sync_of_any_author(sandbox: Sandbox, admins_sync: str) -> None:
    operator = sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT)
    reported = change(sandbox, operator, f"{admins_sync}/status", status={"observedGeneration": 1})
    assert reported["status"] == {"observedGeneration": 1}
