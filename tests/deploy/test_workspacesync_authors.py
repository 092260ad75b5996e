"""Who may write a WorkspaceSync: real accounts with real roles try it on a real API server."""

from typing import Any

import pytest
from tests.deploy.authors import MAY, RBAC, Apply, Authors, Eventually, Grant, StoredSync, namespaces

from syncline.api.common import ABANDON, CONFIRM_DELETION, GROUP, REQUESTED_AT
from syncline.api.kinds import WORKSPACE_SYNC
from syncline.api.object_transforms import PROTECTED
from syncline.sandbox import RequestError, Sandbox

HOME = "wss-home"
FLEET = "wss-fleet"

Spec = dict[str, Any]


def get(namespace: str, resource: str = "secrets", name: str = "", group: str = "") -> Grant:
    return Grant(namespace, resource, ("get",), name, group)


TARGETS = get(HOME, "synctargets", group=GROUP)
EAST = get(HOME, "synctargets", "east", GROUP)
UPSTREAM = get(HOME, name="kcp")

AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "connector": (UPSTREAM, EAST),
    "connector-of-all-targets": (UPSTREAM, TARGETS),
    "target-user": (EAST,),
    "target-lister": (UPSTREAM, Grant(HOME, "synctargets", ("list",), group=GROUP)),
    "secret-reader": (get(HOME), TARGETS),
    "of-named-secrets": (get(HOME, name="hub"), get(HOME, name="kcp"), TARGETS),
    "secret-lister": (Grant(HOME, "secrets", ("list", "watch")), TARGETS),
    "fleet-reader": (UPSTREAM, get(FLEET)),
    "all-here": (Grant(HOME, "*", ("*",), group="*"),),
    "reads-all": (Grant("", "*", ("get", "list", "watch"), group="*"),),
    "admin": (Grant("", "*", ("*",), group="*"),),
    "impersonator": (
        Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),
        Grant(HOME, "serviceaccounts", ("impersonate",), "keeper"),
    ),
    "account-taker": (
        UPSTREAM,
        EAST,
        Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),
        Grant(HOME, "workspacesyncs", ("update",), group=GROUP),
    ),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "robot": (UPSTREAM,),
    "keeper": (get(HOME),),
}

KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "kcp"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "kcp"},
    "server": "https://kcp.example.com/clusters/root:team",
}
HUB = {"type": "SyncTarget", "syncTargetRef": {"name": "hub"}}
EU = {"matchLabels": {"region": "eu"}}
TWO_WAY = {"resource": "secrets", "direction": "Bidirectional"}


def sync(connection: Spec | None = KUBECONFIG, downstream: Spec | None = None, **more: Any) -> Spec:
    """Sync from a cluster, by default to one SyncTarget of the same namespace."""
    upstream = {"upstream": {"connection": connection}} if connection is not None else {}
    return {**upstream, "downstream": downstream or {"syncTargets": ["east"]}, **more}


def fleet(**more: Any) -> Spec:
    return {"syncTargetNamespace": FLEET, **(more or {"syncTargets": ["east"]})}


def transformed(**given: Any) -> Spec:
    return sync(transforms=[{"resource": "configmaps", **given}])


def adopting(policy: str, downstream: Spec | None = None, **more: Any) -> Spec:
    return sync(KUBECONFIG, downstream, resources=[TWO_WAY], resourceManagementPolicy=policy, **more)


NO_SECRET = f"you may not get the Secret kcp in namespace {HOME}, so no sync may use it for you"
NO_TARGET = f"you may not get the SyncTarget east in namespace {HOME}, so no sync may use it for you"
NOT_ALL_TARGETS = f"you may not get every SyncTarget (this sync names several) in namespace {HOME}"
NOT_EVERYTHING = "you may not use all verbs on all resources, and this sync reads namespaces of this cluster"
NOT_ALL_SECRETS = f"may not get all Secrets in namespace {HOME}, and a sync that reads from the SyncTarget hub uses"
NO_ADOPTION = f"may not get all Secrets in namespace {HOME}, and a sync that adopts objects and writes upstream"
NO_ROLES = "a sync may write roles and role bindings to this cluster only as a service account"
NOT_THE_ACCOUNT = f"you may not impersonate the service account robot of namespace {HOME}"
REFUSED_PATH = f"spec.transforms: set: write JSON pointers, such as /data/key; {PROTECTED}"

REFERENCES = [
    ("nobody", sync(), NO_SECRET),
    ("target-user", sync(), NO_SECRET),
    ("target-user", sync(TOKEN), NO_SECRET),
    ("connector", sync(), MAY),
    ("connector", sync(TOKEN), MAY),
    ("connector", sync(KUBECONFIG, {"syncTargets": ["west"]}), "you may not get the SyncTarget west"),
    ("target-lister", sync(), NO_TARGET),
    ("connector", sync(KUBECONFIG, {"syncTargets": ["east", "west"]}), NOT_ALL_TARGETS),
    ("connector-of-all-targets", sync(KUBECONFIG, {"syncTargets": ["east", "west"]}), MAY),
    (
        "connector-of-all-targets",
        sync(KUBECONFIG, {"selector": EU}),
        f"you may not list synctargets in namespace {HOME}",
    ),
    ("target-lister", sync(KUBECONFIG, {"selector": EU}), MAY),
    ("connector", sync(KUBECONFIG, fleet()), MAY),
    ("connector", sync(KUBECONFIG, fleet(selector=EU)), MAY),
    ("target-lister", sync(KUBECONFIG, {"syncTargets": ["east"], "syncTargetNamespace": HOME}), NO_TARGET),
    ("connector", sync(KUBECONFIG, {"selector": EU, "syncTargetNamespace": HOME}), "you may not list synctargets"),
]
HERE = [
    ("all-here", sync(None), NOT_EVERYTHING),
    ("reads-all", sync(None), NOT_EVERYTHING),
    ("reads-all", {**sync(None), "upstream": {}}, NOT_EVERYTHING),
    ("admin", sync(None), MAY),
    ("impersonator", sync(None, serviceAccountName="robot"), MAY),
    (
        "admin",
        sync(None, resources=[{"group": RBAC, "resource": "roles", "direction": "Bidirectional"}]),
        NO_ROLES,
    ),
    ("admin", sync(None, resources=[{"group": RBAC, "resource": "roles"}]), MAY),
    ("connector", sync(resources=[{"group": RBAC, "resource": "roles", "direction": "Bidirectional"}]), MAY),
]
ACCOUNTS = [
    (author, {**spec, "serviceAccountName": account}, told)
    for author, account, told in [
        ("impersonator", "robot", MAY),
        ("token-maker", "robot", MAY),
        ("impersonator", "other", f"you may not impersonate the service account other of namespace {HOME}"),
        ("connector", "robot", NOT_THE_ACCOUNT),
        ("reads-all", "robot", NOT_THE_ACCOUNT),
    ]
    for spec in (sync(), sync(None), sync(TOKEN, {"selector": EU}))
]
TRANSFORMS = [
    ("connector", transformed(set={"/data/a": "b", "/metadata/labels/team": "c", "/binaryData": None}), MAY),
    ("connector", transformed(set={"/data/a": "b", "/metadata/name": "c"}), REFUSED_PATH),
    ("connector", transformed(set={"/metadata/labels/syncline.dev~1owner": "me"}), REFUSED_PATH),
    ("connector", transformed(set={"/metadata/annotations/syncline.dev~1copy": "{}"}), REFUSED_PATH),
    ("connector", transformed(set={"/metadata/ownerReferences": []}), REFUSED_PATH),
    ("connector", transformed(set={"/status": {}}), REFUSED_PATH),
    ("connector", transformed(set={"/kind": "Pod"}), REFUSED_PATH),
    ("connector", transformed(set={"": {}}), REFUSED_PATH),
    ("connector", transformed(set={"data": {}}), REFUSED_PATH),
    ("connector", transformed(patch=[{"op": "add", "path": "/data/a", "value": {"b": [1]}}]), MAY),
    ("connector", transformed(patch=[{"op": "remove", "path": "/data/a"}]), MAY),
    (
        "connector",
        transformed(patch=[{"op": "add", "path": "/data/a"}]),
        "spec.transforms: patch: the operations add, replace, test need a value: write value",
    ),
]
MANY: Spec = {
    "upstream": {"connection": KUBECONFIG},
    "downstream": {"syncTargets": [f"{'t' * 250}{number:03}" for number in range(100)]},
    "resources": [{"group": "example.com", "resource": f"r{number}"} for number in range(50)],
    "transforms": [
        {
            "resource": f"r{number}.example.com",
            "set": {f"/spec/{'p' * 500}{path}": "v" for path in range(50)},
            "patch": [{"op": "add", "path": f"/{'p' * 511}", "value": "v"}] * 30,
        }
        for number in range(50)
    ],
}


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the tables, once all rights and the policy are in force."""
    apply(namespaces(HOME, FLEET))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NO_SECRET in authors.attempt("nobody", WORKSPACE_SYNC, sync()))
    return authors


@pytest.mark.parametrize(
    ("author", "spec", "told"),
    [*REFERENCES, *HERE, *ACCOUNTS, ("connector-of-all-targets", MANY, MAY)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_author_may_only_ask_for_what_they_may_do(authors: Authors, author: str, spec: Spec, told: str) -> None:
    answer = authors.attempt(author, WORKSPACE_SYNC, spec)
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)


@pytest.mark.parametrize(
    ("author", "spec", "told"), TRANSFORMS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_transform_changes_no_field_that_is_not_the_tenants(
    authors: Authors, author: str, spec: Spec, told: str
) -> None:
    answer = authors.attempt(author, WORKSPACE_SYNC, spec)
    assert told in answer
    assert (" 422 " in answer) == (answer != MAY) == (told != MAY)


@pytest.mark.parametrize("author", ["connector-of-all-targets", "of-named-secrets", "secret-lister"])
def test_the_right_to_write_to_a_cluster_is_not_the_right_to_read_it(authors: Authors, author: str) -> None:
    assert NOT_ALL_SECRETS in authors.attempt(author, WORKSPACE_SYNC, sync(HUB))
    assert authors.attempt("secret-reader", WORKSPACE_SYNC, sync(HUB)) == MAY


def test_an_account_that_may_not_read_the_credential_does_not_read_the_cluster_either(authors: Authors) -> None:
    weak = authors.attempt("impersonator", WORKSPACE_SYNC, sync(HUB, serviceAccountName="robot"))
    assert f"the service account robot {NOT_ALL_SECRETS}" in weak
    assert authors.attempt("impersonator", WORKSPACE_SYNC, sync(HUB, serviceAccountName="keeper")) == MAY


def test_a_stronger_account_does_not_read_the_cluster_for_those_who_may_not_act_as_it(authors: Authors) -> None:
    spec = sync(HUB, serviceAccountName="keeper")
    told = authors.attempt("connector-of-all-targets", WORKSPACE_SYNC, spec)
    assert f"you may not impersonate the service account keeper of namespace {HOME}" in told


def test_the_target_of_another_namespace_is_no_upstream_even_for_an_administrator(authors: Authors) -> None:
    told = authors.attempt("admin", WORKSPACE_SYNC, sync({**HUB, "syncTargetNamespace": FLEET}))
    assert "an upstream cannot be a SyncTarget of another namespace" in told


@pytest.mark.parametrize("policy", ["Adopt", "Overwrite"])
def test_an_adopted_object_does_not_bring_the_content_of_others_upstream(authors: Authors, policy: str) -> None:
    assert NO_ADOPTION in authors.attempt("connector", WORKSPACE_SYNC, adopting(policy))
    assert f"namespace {FLEET}" in authors.attempt("connector", WORKSPACE_SYNC, adopting(policy, fleet()))
    assert authors.attempt("connector", WORKSPACE_SYNC, adopting("Sync")) == MAY
    # Its status and its addresses are content of others too. Unset, statusSync is true for a workspace.
    for more in ({}, {"statusSync": True}, {"statusSync": False, "endpoints": True}):
        spec = sync(resourceManagementPolicy=policy, **more)
        assert NO_ADOPTION in authors.attempt("connector", WORKSPACE_SYNC, spec)
    down_only = sync(resourceManagementPolicy=policy, statusSync=False)
    assert authors.attempt("connector", WORKSPACE_SYNC, down_only) == MAY
    assert authors.attempt("secret-reader", WORKSPACE_SYNC, adopting(policy)) == MAY
    assert authors.attempt("fleet-reader", WORKSPACE_SYNC, adopting(policy, fleet())) == MAY


def test_a_workspace_above_that_of_the_token_is_refused_to_everybody(authors: Authors) -> None:
    spec = {**sync(), "upstream": {"connection": TOKEN, "workspace": "root"}}
    assert "neither the workspace of the server nor below it" in authors.attempt("admin", WORKSPACE_SYNC, spec)


def test_no_name_leads_into_a_namespace_of_the_system(authors: Authors) -> None:
    for mapping in ({"fixed": "kube-system"}, {"prefix": "kube-"}, {"template": "kube-{{ namespace }}"}):
        told = authors.attempt("admin", WORKSPACE_SYNC, sync(namespaces={"mapping": mapping}))
        assert "belong to the cluster and are never written" in told


REMOVED = [
    (sync(), "target-user", "connector", NO_SECRET),
    (sync(), "target-lister", "connector", NO_TARGET),
    (sync(KUBECONFIG, {"selector": EU}), "connector", "target-lister", "you may not list synctargets"),
    (sync(None), "connector-of-all-targets", "admin", "you may not use all verbs on all resources"),
    (sync(serviceAccountName="robot"), "connector", "impersonator", NOT_THE_ACCOUNT),
]


@pytest.mark.parametrize("case", REMOVED, ids=[told for *_, told in REMOVED])
def test_whoever_may_not_use_the_clusters_of_a_sync_removes_nothing_there_through_it(
    sandbox: Sandbox, authors: Authors, case: tuple[Spec, str, str, str]
) -> None:
    spec, stranger, author, told = case
    stored = StoredSync(sandbox, authors, WORKSPACE_SYNC, spec)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "00000000-0000-4000-8000-000000000000"}
    answers = [
        stored.deleted_by(stranger),
        stored.edited_by(stranger, ownerReferences=[owner]),
        stored.edited_by(stranger, {**stored.body["spec"], "exact": True}),
        *(
            stored.edited_by(stranger, annotations={annotation: "x"})
            for annotation in (CONFIRM_DELETION, ABANDON, REQUESTED_AT, f"{GROUP}/resolve")
        ),
    ]
    noted, deleted = stored.edited_by(stranger, annotations={"note": "x"}), stored.deleted_by(author)
    sandbox.request("DELETE", stored.path)
    assert [told in answer for answer in answers] == [True] * len(answers)
    assert (noted, deleted) == (MAY, MAY)


@pytest.mark.parametrize("spec", [{"deletionPolicy": "Orphan"}, {"suspend": True}], ids=["Orphan", "suspended"])
def test_a_sync_that_leaves_its_copies_may_be_deleted_by_whoever_may_delete_syncs(
    sandbox: Sandbox, authors: Authors, spec: Spec
) -> None:
    stored = StoredSync(sandbox, authors, WORKSPACE_SYNC, {**sync(), **spec})
    answer = stored.deleted_by("nobody")
    sandbox.request("DELETE", stored.path)
    assert answer == MAY


def test_without_its_account_a_sync_does_not_remove_more_than_its_author_may(
    sandbox: Sandbox, authors: Authors
) -> None:
    stored = StoredSync(sandbox, authors, WORKSPACE_SYNC, sync(serviceAccountName="robot"))
    without = {name: value for name, value in stored.body["spec"].items() if name != "serviceAccountName"}
    replaced = {**stored.body, "spec": without}
    with pytest.raises(RequestError, match="you may not use all verbs on all resources, and without its account"):
        sandbox.request("PUT", f"{stored.path}?dryRun=All", replaced, token=authors.token("account-taker"))
    sandbox.request("DELETE", stored.path)
