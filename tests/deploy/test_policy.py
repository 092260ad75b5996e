"""The author policy on a real API server: real accounts with real roles try to write syncs."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from syncline import deploy
from syncline.api.common import API_VERSION, FINALIZER, GROUP
from syncline.api.configmapsync import KIND, PLURAL
from syncline.sandbox import RequestError, Sandbox

HOME = "policy-home"
SYNCS = f"/apis/{API_VERSION}/namespaces/{HOME}/{PLURAL}"
RBAC = "rbac.authorization.k8s.io"

Apply = Callable[[Iterable[deploy.Manifest]], None]
Eventually = Callable[[Callable[[], bool]], None]


class Grant(NamedTuple):
    """A right in one namespace, or with "" in all; on all objects, or on one."""

    namespace: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    group: str = ""


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
    "impersonator": (Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "elsewhere": (Grant("policy-one", "serviceaccounts", ("impersonate",)),),
}

ONE = {"destinationNamespace": "policy-one"}
ONE_LISTED = {"destinationNamespaces": ["policy-one"]}
TWICE = {"destinationNamespace": "policy-one", "destinationNamespaces": ["policy-one", "policy-one"]}
TWO = {"destinationNamespaces": ["policy-one", "policy-two"]}
GLOB = {"destinationNamespaces": ["policy-on?"]}
STAR = {"destinationNamespace": "policy-one", "destinationNamespaces": ["*"]}
LABELLED = {"destinationNamespace": "policy-one", "destinationNamespaceSelector": {"matchLabels": {"a": "b"}}}
RENAMED = {"destinationNamespace": "policy-one", "destinationName": "copy"}
ROBOT = {"destinationNamespaces": ["*"], "serviceAccountName": "robot"}
OTHER = {"destinationNamespaces": ["*"], "serviceAccountName": "other"}

MAY = ""
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
    ("everywhere", ROBOT, f"you may not impersonate the service account robot of namespace {HOME}"),
    ("impersonator", ROBOT, MAY),
    ("impersonator", OTHER, f"you may not impersonate the service account other of namespace {HOME}"),
    ("impersonator", STAR, NO_SOURCE),
    ("token-maker", ROBOT, MAY),
    ("token-maker", OTHER, f"you may not impersonate the service account other of namespace {HOME}"),
    ("elsewhere", ROBOT, f"you may not impersonate the service account robot of namespace {HOME}"),
]


@pytest.fixture(scope="module")
def tokens(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> dict[str, str]:  # noqa: ARG001
    """Every author's token, once all rights and the policy are in force."""
    apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (HOME, "policy-source", "policy-one", "policy-two")
    )
    syncs = Grant(HOME, PLURAL, ("create", "patch", "delete"), group=GROUP)
    for author, grants in AUTHORS.items():
        apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": author, "namespace": HOME}}])
        for number, grant in enumerate((syncs, *grants)):
            apply(role(f"{author}-{number}", author, grant))
            eventually(lambda: in_force(sandbox, author, grant))  # noqa: B023 - called at once
    tokens = {author: sandbox.service_account_token(HOME, author) for author in AUTHORS}
    eventually(lambda: NO_SOURCE in attempt(sandbox, tokens["nobody"], ONE))
    return tokens


def role(name: str, author: str, grant: Grant) -> list[deploy.Manifest]:
    metadata = {"name": name, "namespace": grant.namespace} if grant.namespace else {"name": f"policy-{name}"}
    kind = "Role" if grant.namespace else "ClusterRole"
    rule = {"apiGroups": [grant.group], "resources": [grant.resource], "verbs": list(grant.verbs)}
    names = {"resourceNames": [grant.name]} if grant.name else {}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": [{**rule, **names}]},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": author, "namespace": HOME}],
        },
    ]


def in_force(sandbox: Sandbox, author: str, grant: Grant) -> bool:
    resource, _, subresource = grant.resource.partition("/")
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{HOME}:{author}",
            "resourceAttributes": {
                "namespace": grant.namespace,
                "group": grant.group,
                "resource": resource,
                "subresource": subresource,
                "name": grant.name,
                "verb": grant.verbs[-1],
            },
        },
    }
    answer = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def sync(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    source = {"sourceNamespace": "policy-source", "configMapName": "app"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {**source, **spec}}


def attempt(sandbox: Sandbox, token: str, spec: dict[str, Any]) -> str:
    """Return what the author is told, or nothing where the sync is taken."""
    try:
        sandbox.request("POST", f"{SYNCS}?dryRun=All", sync("tried", spec), token=token)
    except RequestError as refusal:
        return str(refusal)
    return MAY


@pytest.mark.parametrize(("author", "spec", "told"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_an_author_may_only_ask_for_what_they_may_do(
    sandbox: Sandbox, tokens: dict[str, str], author: str, spec: dict[str, Any], told: str
) -> None:
    answer = attempt(sandbox, tokens[author], spec)
    assert told in answer
    assert (" 403 " in answer) == bool(told)


@pytest.fixture
def admins_sync(sandbox: Sandbox, tokens: dict[str, str]) -> Iterator[str]:  # noqa: ARG001 - the namespace is there
    """A sync over all namespaces, written by an admin: its address."""
    address = f"{SYNCS}/admins"
    sandbox.request("POST", SYNCS, sync("admins", STAR))
    yield address
    sandbox.request("DELETE", address)


def change(sandbox: Sandbox, token: str, address: str, **change: Any) -> dict[str, Any]:
    name = address.removeprefix(f"{SYNCS}/").removesuffix("/status")
    body = {"apiVersion": API_VERSION, "kind": KIND, **change}
    body["metadata"] = {"name": name, **change.get("metadata", {})}
    return sandbox.request("PATCH", f"{address}?fieldManager=author&force=true&dryRun=All", body, token=token)


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"syncline.dev/requestedAt": "now"}},
        {"labels": {"a": "b"}},
        {"finalizers": [FINALIZER]},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_what_is_not_the_spec_may_change_without_the_authors_rights(
    sandbox: Sandbox, tokens: dict[str, str], admins_sync: str, metadata: dict[str, Any]
) -> None:
    changed = change(sandbox, tokens["nobody"], admins_sync, metadata=metadata)
    assert metadata.items() <= changed["metadata"].items()


def test_whoever_changes_the_spec_is_its_author(sandbox: Sandbox, tokens: dict[str, str], admins_sync: str) -> None:
    with pytest.raises(RequestError, match="you may not create ConfigMaps in all namespaces"):
        change(sandbox, tokens["neighbour"], admins_sync, spec={"prune": False})
    assert change(sandbox, tokens["everywhere"], admins_sync, spec={"prune": False})["spec"]["prune"] is False


def test_the_operator_reports_status_on_a_sync_of_any_author(sandbox: Sandbox, admins_sync: str) -> None:
    operator = sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT)
    reported = change(sandbox, operator, f"{admins_sync}/status", status={"observedGeneration": 1})
    assert reported["status"] == {"observedGeneration": 1}
