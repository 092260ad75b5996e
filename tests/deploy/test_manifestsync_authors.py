"""Who may write a ManifestSync: real accounts with real roles try it on a real API server."""

from typing import Any

import pytest
from tests.deploy.authors import MAY, RBAC, Apply, Authors, Eventually, Grant, namespaces

from syncline import deploy
from syncline.api.common import API_VERSION, FINALIZER
from syncline.api.kinds import MANIFEST_SYNC
from syncline.sandbox import Sandbox

HOME = "msync-home"
SOURCE = "msync-source"
ONE = "msync-one"
TWO = "msync-two"

WRITE = ("create", "update", "patch", "delete")


def get(namespace: str, resource: str = "secrets", name: str = "", group: str = "") -> Grant:
    return Grant(namespace, resource, ("get",), name, group)


def write(namespace: str, resource: str = "secrets", group: str = "") -> Grant:
    return Grant(namespace, resource, WRITE, group=group)


def writer(*grants: Grant) -> tuple[Grant, ...]:
    """Who may copy the Secret into one namespace, and some more."""
    return (get(SOURCE), write(ONE), *grants)


AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "reader": (get(SOURCE),),
    "writer": writer(),
    "at-home": (get(HOME), write(ONE)),
    **{
        f"no-{verb}": (get(SOURCE), Grant(ONE, "secrets", tuple(set(WRITE) - {verb})))
        for verb in ("create", "update", "patch", "delete")
    },
    "by-name": (
        get(SOURCE, name="login"),
        Grant(ONE, "secrets", ("create",)),
        Grant(ONE, "secrets", ("update", "patch", "delete"), "copy"),
    ),
    "selector": (Grant(SOURCE, "secrets", ("list",)), write(ONE)),
    "everywhere": (get(SOURCE), write("")),
    "of-two-namespaces": (get(""), write(ONE)),
    "beside": (get(SOURCE), write(SOURCE)),
    "deployer": (get(SOURCE, "deployments", group="apps"), write(ONE, "deployments", "apps")),
    "extensions-deployer": (get(SOURCE, "deployments", group="extensions"), write(ONE, "deployments", "extensions")),
    "of-classes": (get("", "storageclasses", group="storage.k8s.io"), write("", "storageclasses", "storage.k8s.io")),
    "class-reader": (get("", "storageclasses", group="storage.k8s.io"),),
    "of-widgets": (
        Grant("", "widgets", ("*",), group="example.com"),
        Grant("", "*", ("*",), group="example.com"),
        Grant("", "*", ("get", "list"), group="*"),
    ),
    "of-roles": (Grant("", "roles,clusterroles,rolebindings,clusterrolebindings", ("*",), group=RBAC),),
    "all-here": (Grant(HOME, "*", ("*",), group="*"), Grant(SOURCE, "*", ("*",), group="*")),
    "admin": (Grant("", "*", ("*",), group="*"),),
    "impersonator": (Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "patcher": writer(get(HOME, "configmaps", "patches")),
    "patcher-of-all": writer(get(HOME, "configmaps")),
    "secret-patcher": writer(get(HOME, name="patches")),
    "connector": (get(SOURCE), get(HOME, name="prod")),
    "connector-of-all": (get(SOURCE), get(HOME)),
    "targeter": (get(SOURCE), get(HOME, "synctargets", "prod", "syncline.dev")),
    "targeter-of-all": (get(SOURCE), get(HOME, "synctargets", group="syncline.dev")),
    "target-lister": (get(SOURCE), Grant(HOME, "synctargets", ("list",), group="syncline.dev")),
}

SECRET = {"apiVersion": "v1", "kind": "Secret", "name": "login", "namespace": SOURCE}
OTHER_SECRET = {**SECRET, "name": "other"}
LABELLED = {"apiVersion": "v1", "kind": "Secret", "namespace": SOURCE, "selector": {"matchLabels": {"a": "b"}}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": SOURCE}
CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "name": "fast"}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "namespace": SOURCE}
PATCHES = {"patchContentRef": {"name": "patches", "key": "a"}}
OTHER_PATCHES = {"patchContentRef": {"name": "others", "key": "a"}}
SECRET_PATCHES = {"patchContentRef": {"kind": "Secret", "name": "patches", "key": "a"}}
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "prod"},
    "server": "https://api.example.com",
}
OTHER_TOKEN = {**TOKEN, "serviceAccountTokenRef": {"name": "stage"}}
BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "prod"}}
OTHER_BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "stage"}}
BY_LABELS = {"type": "SyncTarget", "selector": {"matchLabels": {"a": "b"}}}


def into(*names: str, **spec: Any) -> dict[str, Any]:
    """Copy the Secret into namespaces of this cluster, or do something else."""
    return {"sourceRef": SECRET, "targets": {"inCluster": {"namespaces": list(names)}}, **spec}


def several(*refs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    bundle = into(ONE, sourceRefs=list(refs), **spec)
    del bundle["sourceRef"]
    return bundle


def remote(*connections: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    clusters = [
        {"connection": connection, **({} if "selector" in connection else {"clusterName": f"c{number}"}), **cluster}
        for number, connection in enumerate(connections)
    ]
    return {"sourceRef": SECRET, "targets": {"remoteClusters": clusters}}


SELECTED = {
    "sourceRef": SECRET,
    "targets": {"inCluster": {"namespaces": [ONE], "namespaceSelector": {"matchLabels": {"a": "b"}}}},
}
BESIDE: dict[str, Any] = {"sourceRef": SECRET, "targets": {"inCluster": {}}, "targetName": "copy"}
PATCHED_HERE = {
    "sourceRef": SECRET,
    "targets": {"inCluster": {"namespaces": [ONE], "patch": OTHER_PATCHES}},
    "patch": PATCHES,
}
MANY = {
    "sourceRefs": [{**SECRET, "name": f"login-{number}"} for number in range(50)],
    "targets": {
        "inCluster": {"namespaces": ["n" * 63] * 1000},
        "remoteClusters": [
            {
                "clusterName": f"c{number}",
                "connection": {**TOKEN, "serviceAccountTokenRef": {"name": f"{'s' * 250}{number}"}},
                "patch": {"patchContentRef": {"name": f"{'p' * 250}{number}", "key": "a"}},
            }
            for number in range(50)
        ],
    },
}

NO_SOURCE = f"you may not get the Secret login in namespace {SOURCE}, so no sync may copy it for you"
NOT_ALL = "in all namespaces (this sync does not name exactly one), so no sync may do it for you"
NO_ROLES = "a sync may copy roles and role bindings only as a service account"
NOT_EVERYTHING = "you may not use all verbs on all resources, and the rights that you need to copy"

SOURCES = [
    ("nobody", into(ONE), NO_SOURCE),
    ("at-home", into(ONE), NO_SOURCE),
    ("writer", into(ONE), MAY),
    ("writer", into(ONE, sourceRef={**SECRET, "namespace": HOME}), f"the Secret login in namespace {HOME}"),
    (
        "writer",
        into(ONE, sourceRef={"apiVersion": "v1", "kind": "Secret", "name": "login"}),
        f"you may not get the Secret login in namespace {HOME}",
    ),
    ("at-home", into(ONE, sourceRef={"apiVersion": "v1", "kind": "Secret", "name": "login"}), MAY),
    ("by-name", into(ONE, sourceRef=OTHER_SECRET, targetName="copy"), "you may not get the Secret other"),
    ("writer", several(SECRET), MAY),
    ("writer", several(SECRET, OTHER_SECRET), MAY),
    ("by-name", several(SECRET, targetName="copy"), MAY),
    (
        "by-name",
        several(SECRET, OTHER_SECRET, targetName="copy"),
        f"you may not get every Secret in namespace {SOURCE}",
    ),
    (
        "writer",
        several(SECRET, {**SECRET, "namespace": TWO}),
        "you may not get every Secret in all namespaces (this sync names several)",
    ),
    ("of-two-namespaces", several(SECRET, {**SECRET, "namespace": TWO}), MAY),
    ("writer", several(LABELLED), f"you may not list secrets in namespace {SOURCE}, so no sync may select"),
    ("selector", several(LABELLED), MAY),
    ("selector", into(ONE), NO_SOURCE),
    ("selector", several(LABELLED, SECRET), f"you may not get every Secret in namespace {SOURCE}"),
]
COPIES = [
    ("reader", into(ONE), f"you may not create secrets in namespace {ONE}, so no sync may do it for you"),
    *[(f"no-{verb}", into(ONE), f"you may not {verb} secrets in namespace {ONE}") for verb in WRITE],
    ("writer", into(ONE, ONE), MAY),
    ("writer", into(TWO), f"you may not create secrets in namespace {TWO}"),
    ("writer", into(ONE, TWO), f"you may not create secrets {NOT_ALL}"),
    ("writer", into("msync-on?"), f"you may not create secrets {NOT_ALL}"),
    ("writer", into("*"), f"you may not create secrets {NOT_ALL}"),
    ("writer", SELECTED, f"you may not create secrets {NOT_ALL}"),
    ("everywhere", into(ONE, TWO), MAY),
    ("everywhere", into("*"), MAY),
    ("everywhere", SELECTED, MAY),
    ("by-name", into(ONE, targetName="copy"), MAY),
    ("by-name", into(ONE), f"you may not update secrets in namespace {ONE}"),
    ("by-name", into(ONE, targetName="cop{{ 'y' }}"), f"you may not update secrets in namespace {ONE}"),
    ("writer", BESIDE, f"you may not create secrets in namespace {SOURCE}"),
    ("beside", BESIDE, MAY),
]
KINDS = [
    ("deployer", into(ONE, sourceRef=DEPLOYMENT), MAY),
    ("writer", into(ONE, sourceRef=DEPLOYMENT), f"you may not get the Deployment web in namespace {SOURCE}"),
    ("deployer", into(TWO, sourceRef=DEPLOYMENT), f"you may not create deployments in namespace {TWO}"),
    ("extensions-deployer", into(ONE, sourceRef=DEPLOYMENT), "you may not get the Deployment web"),
    ("of-classes", into(ONE, sourceRef=CLASS, targetName="copy"), MAY),
    ("nobody", into(ONE, sourceRef=CLASS, targetName="copy"), "you may not get the StorageClass fast, so no sync"),
    ("class-reader", into(ONE, sourceRef=CLASS, targetName="copy"), "you may not create storageclasses, so no sync"),
    ("all-here", into(SOURCE, sourceRef=WIDGET, targetName="copy"), f"{NOT_EVERYTHING} a Widget"),
    ("of-widgets", into(ONE, sourceRef=WIDGET), f"{NOT_EVERYTHING} a Widget cannot be checked separately: write"),
    ("writer", into(ONE, sourceRef={**SECRET, "apiVersion": "example.com/v1"}), f"{NOT_EVERYTHING} a Secret"),
    ("admin", into(ONE, sourceRef=WIDGET), MAY),
    ("writer", several(SECRET, DEPLOYMENT), f"{NOT_EVERYTHING} several kinds in one sync"),
    ("admin", several(SECRET, DEPLOYMENT, LABELLED), MAY),
    *[
        (author, into(ONE, sourceRef={"apiVersion": f"{RBAC}/v1", "kind": kind, "name": "r"}), NO_ROLES)
        for author in ("of-roles", "admin")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ],
    ("admin", several(SECRET, {"apiVersion": f"{RBAC}/v1", "kind": "Role", "name": "r"}), NO_ROLES),
]
REFERENCES = [
    (
        "writer",
        into(ONE, patch=PATCHES),
        f"you may not get the ConfigMap patches in namespace {HOME}, so no sync may use",
    ),
    ("patcher", into(ONE, patch=PATCHES), MAY),
    ("patcher", into(ONE, patch=OTHER_PATCHES), f"you may not get the ConfigMap others in namespace {HOME}"),
    ("patcher", PATCHED_HERE, f"you may not get every ConfigMap (this sync names several) in namespace {HOME}"),
    ("patcher-of-all", PATCHED_HERE, MAY),
    ("patcher", into(ONE, patch=SECRET_PATCHES), f"you may not get the Secret patches in namespace {HOME}"),
    ("secret-patcher", into(ONE, patch=SECRET_PATCHES), MAY),
    ("secret-patcher", into(ONE, patch=PATCHES), f"you may not get the ConfigMap patches in namespace {HOME}"),
    ("writer", into(ONE, patch={"patchContent": "a: b"}), MAY),
    ("reader", remote(KUBECONFIG), f"you may not get the Secret prod in namespace {HOME}, so no sync may use it"),
    ("reader", remote(TOKEN), f"you may not get the Secret prod in namespace {HOME}"),
    ("connector", remote(KUBECONFIG), MAY),
    ("connector", remote(TOKEN), MAY),
    ("connector", remote(KUBECONFIG, TOKEN), MAY),
    ("connector", remote(OTHER_TOKEN), f"you may not get the Secret stage in namespace {HOME}"),
    ("connector", remote(KUBECONFIG, OTHER_TOKEN), "you may not get every Secret (this sync names several) in names"),
    ("connector", remote(KUBECONFIG, patch=SECRET_PATCHES), "you may not get every Secret (this sync names several)"),
    ("connector", remote(KUBECONFIG, patch=PATCHES), f"you may not get the ConfigMap patches in namespace {HOME}"),
    ("connector-of-all", remote(KUBECONFIG, OTHER_TOKEN, patch=SECRET_PATCHES), MAY),
    ("connector", remote(KUBECONFIG) | {"sourceRef": OTHER_SECRET}, MAY),
    ("connector", remote(KUBECONFIG) | {"sourceRef": DEPLOYMENT}, "you may not get the Deployment web"),
    ("reader", remote(BY_NAME), f"you may not get the SyncTarget prod in namespace {HOME}"),
    ("targeter", remote(BY_NAME), MAY),
    ("targeter", remote(OTHER_BY_NAME), f"you may not get the SyncTarget stage in namespace {HOME}"),
    ("targeter", remote(BY_NAME, OTHER_BY_NAME), "you may not get every SyncTarget (this sync names several)"),
    ("targeter-of-all", remote(BY_NAME, OTHER_BY_NAME), MAY),
    ("targeter-of-all", remote(BY_LABELS), f"you may not list synctargets in namespace {HOME}, so no sync may select"),
    ("target-lister", remote(BY_LABELS), MAY),
    ("target-lister", remote(BY_NAME), f"you may not get the SyncTarget prod in namespace {HOME}"),
    ("reader", remote({**BY_NAME, "syncTargetNamespace": "fleet"}, {**BY_LABELS, "syncTargetNamespace": "fleet"}), MAY),
    ("reader", remote({**BY_NAME, "syncTargetNamespace": HOME}), "you may not get the SyncTarget prod in namespace"),
    ("reader", remote({**BY_LABELS, "syncTargetNamespace": HOME}), f"you may not list synctargets in namespace {HOME}"),
    ("admin", MANY, MAY),
    ("reader", MANY, "you may not create secrets"),
]
ACCOUNTS = [
    (author, {**spec, "serviceAccountName": account}, told)
    for author, account, told in [
        ("impersonator", "robot", MAY),
        ("token-maker", "robot", MAY),
        ("impersonator", "other", f"you may not impersonate the service account other of namespace {HOME}"),
        ("token-maker", "other", f"you may not impersonate the service account other of namespace {HOME}"),
        ("everywhere", "robot", f"you may not impersonate the service account robot of namespace {HOME}"),
    ]
    for spec in (
        into("*", patch=SECRET_PATCHES),
        several(WIDGET, {"apiVersion": f"{RBAC}/v1", "kind": "Role", "name": "r"}),
        remote(KUBECONFIG, BY_LABELS),
        MANY,
    )
]


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the tables, once all rights and the policy are in force."""
    apply(namespaces(HOME, SOURCE, ONE, TWO))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NO_SOURCE in authors.attempt("nobody", MANIFEST_SYNC, into(ONE)))
    return authors


@pytest.mark.parametrize(
    ("author", "spec", "told"),
    [*SOURCES, *COPIES, *KINDS, *REFERENCES, *ACCOUNTS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_author_may_only_ask_for_what_they_may_do(
    authors: Authors, author: str, spec: dict[str, Any], told: str
) -> None:
    answer = authors.attempt(author, MANIFEST_SYNC, spec)
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)


def test_the_operator_marks_and_reports_on_a_sync_of_any_author(sandbox: Sandbox, authors: Authors) -> None:  # noqa: ARG001
    syncs = f"/apis/{API_VERSION}/namespaces/{HOME}/{MANIFEST_SYNC.plural}"
    identity = {"apiVersion": API_VERSION, "kind": MANIFEST_SYNC.kind, "metadata": {"name": "admins"}}
    operator = sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT)
    sandbox.request("POST", syncs, {**identity, "spec": into("*", sourceRef=WIDGET)})
    marked = sandbox.request(
        "PATCH",
        f"{syncs}/admins?fieldManager=syncline",
        {**identity, "metadata": {"name": "admins", "finalizers": [FINALIZER]}},
        token=operator,
    )
    reported = sandbox.request(
        "PATCH",
        f"{syncs}/admins/status?fieldManager=syncline",
        {**identity, "status": {"written": ["Widget.example.com"]}},
        token=operator,
    )
    released = {**identity, "metadata": {"name": "admins", "finalizers": []}}
    sandbox.request("PATCH", f"{syncs}/admins?fieldManager=syncline&force=true", released, token=operator)
    sandbox.request("DELETE", f"{syncs}/admins")
    assert marked["metadata"]["finalizers"] == [FINALIZER]
    assert reported["status"] == {"written": ["Widget.example.com"]}
