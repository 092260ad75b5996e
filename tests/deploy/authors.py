"""Authors with real rights, who try to write syncs against a real API server."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from syncline import deploy
from syncline.api.common import API_VERSION, GROUP
from syncline.api.kinds import KINDS, Kind
from syncline.sandbox import RequestError, Sandbox

RBAC = "rbac.authorization.k8s.io"
MAY = ""
"""What an author is told who may."""

Apply = Callable[[Iterable[deploy.Manifest]], None]
Eventually = Callable[[Callable[[], bool]], None]


class Grant(NamedTuple):
    """A right in one namespace, or with "" in all; on all objects, or on one."""

    namespace: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    group: str = ""


class Authors:
    """Service accounts of one namespace that may write syncs there, and have the given rights beside that."""

    def __init__(self, sandbox: Sandbox, home: str) -> None:
        """Take a namespace of their own for them."""
        self._sandbox = sandbox
        self.home = home
        self._tokens: dict[str, str] = {}

    def settle(self, authors: Mapping[str, tuple[Grant, ...]], apply: Apply, eventually: Eventually) -> None:
        """Give them their rights, and return once these are in force."""
        syncs = Grant(self.home, ",".join(kind.plural for kind in KINDS), ("create", "patch", "delete"), group=GROUP)
        for author, grants in authors.items():
            account = {"name": author, "namespace": self.home}
            apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
            for number, grant in enumerate((syncs, *grants)):
                apply(self._role(f"{author}-{number}", author, grant))
                eventually(lambda: self._in_force(author, grant))  # noqa: B023 - called at once
            self._tokens[author] = self._sandbox.service_account_token(self.home, author)

    def token(self, author: str) -> str:
        """Return a token to act as an author with."""
        return self._tokens[author]

    def attempt(self, author: str, kind: Kind, spec: dict[str, Any]) -> str:
        """Return what the author is told, or nothing where the sync is taken."""
        body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": "tried"}, "spec": spec}
        path = f"/apis/{API_VERSION}/namespaces/{self.home}/{kind.plural}?dryRun=All&fieldValidation=Strict"
        try:
            self._sandbox.request("POST", path, body, token=self._tokens[author])
        except RequestError as refusal:
            return str(refusal)
        return MAY

    def _role(self, name: str, author: str, grant: Grant) -> list[deploy.Manifest]:
        name = f"{self.home}-{name}"
        metadata = {"name": name, "namespace": grant.namespace} if grant.namespace else {"name": name}
        kind = "Role" if grant.namespace else "ClusterRole"
        rule = {"apiGroups": [grant.group], "resources": grant.resource.split(","), "verbs": list(grant.verbs)}
        names = {"resourceNames": [grant.name]} if grant.name else {}
        return [
            {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": [{**rule, **names}]},
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": author, "namespace": self.home}],
            },
        ]

    def _in_force(self, author: str, grant: Grant) -> bool:
        resource, _, subresource = grant.resource.split(",")[0].partition("/")
        review: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{self.home}:{author}",
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
        answer = self._sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])


class StoredSync:
    """A sync that an administrator wrote, and what others may do to it."""

    def __init__(self, sandbox: Sandbox, authors: Authors, kind: Kind, spec: dict[str, Any]) -> None:
        """Write the sync."""
        self._sandbox, self._authors, self._kind = sandbox, authors, kind
        syncs = f"/apis/{API_VERSION}/namespaces/{authors.home}/{kind.plural}"
        body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"generateName": "kept-"}}
        self.body = sandbox.request("POST", syncs, {**body, "spec": spec})
        self.path = f"{syncs}/{self.body['metadata']['name']}"

    def deleted_by(self, author: str) -> str:
        """Return what an author is told who deletes it."""
        return self._attempt("DELETE", author, None)

    def edited_by(self, author: str, spec: dict[str, Any] | None = None, **metadata: Any) -> str:
        """Return what an author is told who edits it."""
        body = {
            "apiVersion": API_VERSION,
            "kind": self._kind.kind,
            "metadata": {"name": self.body["metadata"]["name"], **metadata},
            "spec": spec or self.body["spec"],
        }
        return self._attempt("PATCH", author, body)

    def _attempt(self, verb: str, author: str, body: dict[str, Any] | None) -> str:
        force = f"&fieldManager={author}&force=true" if body is not None else ""
        try:
            self._sandbox.request(verb, f"{self.path}?dryRun=All{force}", body, token=self._authors.token(author))
        except RequestError as refusal:
            return str(refusal)
        return MAY


def namespaces(*names: str) -> list[deploy.Manifest]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
