"""What we ship, installed in a real cluster."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.deploy.conftest import AS_CHOSEN

from syncline import deploy
from syncline.api.kinds import KINDS
from syncline.core.profiles import SHARES
from syncline.deploy.names import AGGREGATE_LABEL, DIGEST_KEY
from syncline.deploy.rights import CORE, DIGEST_KEY_RIGHTS, LEASE, REVIEWS, Grant, shared
from syncline.sandbox import RequestError, Sandbox

Apply = Callable[[Iterable[deploy.Manifest]], None]
Eventually = Callable[[Callable[[], bool]], None]

pytestmark = pytest.mark.usefixtures("installed")

PODS = f"/api/v1/namespaces/{deploy.NAMESPACE}/pods?dryRun=All"
OPERATOR = f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def may(sandbox: Sandbox, verb: str, group: str, resource: str, namespace: str = "", *, name: str = "") -> bool:
    resource, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": OPERATOR, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    }
    answer = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def all_of(sandbox: Sandbox, grants: tuple[Grant, ...], namespace: str = "") -> bool:
    return all(
        may(sandbox, verb, grant.group, resource, namespace, name=name)
        for grant in grants
        for resource in grant.resources
        for verb in grant.verbs
        for name in grant.names or ("",)
    )


def test_every_object_that_we_ship_is_there(sandbox: Sandbox) -> None:
    for manifest in deploy.everything():
        metadata = manifest["metadata"]
        path = deploy.resource(manifest).path(metadata.get("namespace"), metadata["name"])
        assert sandbox.request("GET", path)["kind"] == manifest["kind"]


def test_the_operator_has_the_rights_that_it_needs(sandbox: Sandbox, eventually: Eventually) -> None:
    eventually(lambda: all_of(sandbox, (*CORE, *REVIEWS)))
    eventually(lambda: all_of(sandbox, LEASE, deploy.NAMESPACE))
    eventually(lambda: all_of(sandbox, DIGEST_KEY_RIGHTS, deploy.NAMESPACE))
    for share in SHARES:
        eventually(lambda: all_of(sandbox, shared(share, AS_CHOSEN.profile)))  # noqa: B023


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace"),
    [
        ("update", "", "secrets", deploy.NAMESPACE),
        ("deletecollection", "", "secrets", ""),
        ("delete", "", "namespaces", ""),
        ("deletecollection", "", "configmaps", ""),
        ("create", "syncline.dev", "configmapsyncs", ""),
        ("delete", "syncline.dev", "configmapsyncs", ""),
        ("create", "syncline.dev", "manifestsyncs", ""),
        ("create", "syncline.dev", "configsyncs", ""),
        ("create", "syncline.dev", "synctargets", ""),
        ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
        ("patch", "", "pods", ""),
        ("create", "apps", "deployments", ""),
        ("patch", "", "services", ""),
        ("get", "", "limitranges", ""),
        ("get", "rbac.authorization.k8s.io", "clusterroles", ""),
        ("impersonate", "", "users", ""),
        ("impersonate", "", "groups", ""),
        ("create", "", "serviceaccounts/token", ""),
        ("update", "coordination.k8s.io", "leases", "kube-system"),
        ("update", "rbac.authorization.k8s.io", "clusterroles", ""),
        ("create", "", "pods", deploy.NAMESPACE),
    ],
)
def test_the_operator_has_no_right_beyond(
    sandbox: Sandbox, verb: str, group: str, resource: str, namespace: str
) -> None:
    assert not may(sandbox, verb, group, resource, namespace)


def test_an_admin_adds_a_kind_by_adding_a_role(sandbox: Sandbox, apply: Apply, eventually: Eventually) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "added-by-an-admin", "labels": {AGGREGATE_LABEL: "true"}},
        "rules": [{"apiGroups": ["added.example.com"], "resources": ["widgets"], "verbs": ["get"]}],
    }
    apply([role])
    eventually(lambda: may(sandbox, "get", "added.example.com", "widgets"))
    sandbox.request("DELETE", f"{ROLES}/added-by-an-admin")
    eventually(lambda: not may(sandbox, "get", "added.example.com", "widgets"))


def test_an_admin_takes_the_secrets_away_by_removing_a_role(
    sandbox: Sandbox, apply: Apply, eventually: Eventually
) -> None:
    eventually(lambda: may(sandbox, "list", "", "secrets"))
    sandbox.request("DELETE", f"{ROLES}/syncline-secrets")
    eventually(lambda: not may(sandbox, "list", "", "secrets"))
    assert may(sandbox, "get", "", "secrets", deploy.NAMESPACE, name=DIGEST_KEY)
    assert not may(sandbox, "get", "", "secrets", deploy.NAMESPACE, name="another")
    apply(deploy.rbac(AS_CHOSEN))
    eventually(lambda: may(sandbox, "list", "", "secrets"))


def test_installing_again_takes_no_rights_away(sandbox: Sandbox, apply: Apply, eventually: Eventually) -> None:
    eventually(lambda: bool(sandbox.request("GET", f"{ROLES}/syncline").get("rules")))
    before = sandbox.request("GET", f"{ROLES}/syncline")
    apply(deploy.everything(choice=AS_CHOSEN))
    assert sandbox.request("GET", f"{ROLES}/syncline")["rules"] == before["rules"]


@pytest.mark.parametrize(("role", "writes"), [("view", False), ("edit", True), ("admin", True)])
def test_people_get_our_kinds_with_the_roles_they_have(
    sandbox: Sandbox, eventually: Eventually, role: str, writes: bool
) -> None:
    def granted(verb: str, resource: str) -> bool:
        return any(
            verb in rule["verbs"] and resource in rule.get("resources", ()) and "syncline.dev" in rule["apiGroups"]
            for rule in sandbox.request("GET", f"{ROLES}/{role}").get("rules") or ()
        )

    for kind in KINDS:
        eventually(lambda: granted("get", kind.plural) and granted("create", kind.plural) == writes)  # noqa: B023
        assert not granted("patch", f"{kind.plural}/status")


def pod() -> dict[str, Any]:
    template = copy.deepcopy(deploy.deployment()[-1]["spec"]["template"])
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "tried"}}


def test_the_operators_pod_is_taken_by_a_restricted_namespace(sandbox: Sandbox) -> None:
    taken = sandbox.request("POST", PODS, pod())
    kinds = [next(kind for kind in volume if kind != "name") for volume in taken["spec"]["volumes"]]
    assert sorted(kinds) == ["emptyDir", "emptyDir", "projected"]


def test_a_pod_with_more_rights_is_refused_there(sandbox: Sandbox) -> None:
    greedy = pod()
    greedy["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(RequestError, match='violates PodSecurity "restricted:latest"'):
        sandbox.request("POST", PODS, greedy)
