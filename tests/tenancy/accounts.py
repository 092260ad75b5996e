"""Service accounts with exactly the rights that a test gives them."""

from typing import Any

from tests.configmapsync.world import Thing, World, until

from syncline.api.common import GROUP
from syncline.api.kinds import ALL_KINDS
from syncline.sandbox import Sandbox

RBAC = "rbac.authorization.k8s.io"
ALL = ("get", "create", "update", "patch", "delete")
GROUPS = {"deployments": "apps", "ingresses": "networking.k8s.io", **{kind.plural: GROUP for kind in ALL_KINDS}}
GROUPS |= dict.fromkeys(("roles", "rolebindings", "clusterroles"), RBAC)


class Account:
    """A service account at home, or of another namespace that has made it; without rights at first."""

    def __init__(self, world: World, name: str = "robot", *, home: str | None = None) -> None:
        self._sandbox = world.sandbox
        self._home = home or world.home
        self._role = f"{self._home}-{name}"
        self._rights: dict[str, dict[str, tuple[str, ...]]] = {}
        self.name = name
        self.user = f"system:serviceaccount:{self._home}:{name}"
        account = Thing(world.sandbox, f"/api/v1/namespaces/{self._home}/serviceaccounts", name)
        if home is None:
            account.create({"metadata": {"name": name}})

    def may(self, namespace: str, resource: str, *verbs: str) -> None:
        """Have exactly these rights over a resource from now on; namespace "": in all, and over what is in none."""
        before = self._rights.setdefault(namespace, {}).get(resource, ())
        self._rights[namespace][resource] = verbs
        rules = [
            {"apiGroups": [_group(of)], "resources": [of], "verbs": list(may)}
            for of, may in self._rights[namespace].items()
            if may
        ]
        kind = "Role" if namespace else "ClusterRole"
        self._put(namespace, kind, {"rules": rules})
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self._home}
        reference = {"apiGroup": RBAC, "kind": kind, "name": self._role}
        self._put(namespace, f"{kind}Binding", {"roleRef": reference, "subjects": [subject]})
        for verb in {*before, *verbs}:
            until(
                lambda: is_allowed(self._sandbox, self.user, namespace, resource, verb),  # noqa: B023 - called at once
                lambda allowed: allowed == (verb in verbs),  # noqa: B023
            )

    def end(self) -> None:
        """Take away what is in no namespace."""
        if "" in self._rights:
            for plural in ("clusterrolebindings", "clusterroles"):
                self._sandbox.request("DELETE", f"/apis/{RBAC}/v1/{plural}/{self._role}")

    def _put(self, namespace: str, kind: str, body: dict[str, Any]) -> None:
        folder = f"/apis/{RBAC}/v1/namespaces/{namespace}" if namespace else f"/apis/{RBAC}/v1"
        head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": self._role}}
        path = f"{folder}/{kind.lower()}s/{self._role}?fieldManager=tests&force=true"
        self._sandbox.request("PATCH", path, {**head, **body})


def is_allowed(sandbox: Sandbox, user: str, namespace: str, resource: str, verb: str) -> bool:
    """Ask the API server."""
    name, _, subresource = resource.partition("/")
    attributes = {
        "namespace": namespace,
        "group": _group(resource),
        "resource": name,
        "subresource": subresource,
        "verb": verb,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _group(resource: str) -> str:
    return GROUPS.get(resource.partition("/")[0], "")
