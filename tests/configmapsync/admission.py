"""Policies of a cluster's admins that refuse or change what is created in a namespace, for a while."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from tests.configmapsync.world import Json, Thing, until

from syncline.sandbox import RequestError, Sandbox

GROUP = "admissionregistration.k8s.io"


@contextmanager
def refused(sandbox: Sandbox, namespace: str, *resources: str, message: str) -> Iterator[None]:
    """Have a ValidatingAdmissionPolicy refuse that such objects, and ConfigMaps, are created."""
    spec = {**_of(["configmaps", *resources], "CREATE"), "validations": [{"expression": "false", "message": message}]}
    with _policy(sandbox, "Validating", namespace, spec, {"validationActions": ["Deny"]}):
        yield


@contextmanager
def altered(sandbox: Sandbox, namespace: str, expression: str) -> Iterator[None]:
    """Have a MutatingAdmissionPolicy change every ConfigMap that is written."""
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {**_of(["configmaps"], "CREATE", "UPDATE"), "mutations": [mutation], "reinvocationPolicy": "Never"}
    with _policy(sandbox, "Mutating", namespace, spec, {}):
        yield


def _of(resources: Sequence[str], *operations: str) -> Json:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": resources}
    return {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}}


@contextmanager
def _policy(sandbox: Sandbox, kind: str, namespace: str, spec: Json, binding: Json) -> Iterator[None]:
    name = f"test-{uuid4().hex[:8]}"
    folder = f"/apis/{GROUP}/v1/{kind.lower()}admissionpolic"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    policy, bound = Thing(sandbox, f"{folder}ies", name), Thing(sandbox, f"{folder}ybindings", name)
    before = _probe(sandbox, namespace)
    policy.create({"metadata": {"name": name}, "spec": spec})
    bound.create({"metadata": {"name": name}, "spec": {"policyName": name, "matchResources": here, **binding}})
    try:
        until(lambda: _probe(sandbox, namespace), lambda answer: answer != before)
        yield
    finally:
        bound.delete()
        policy.delete()
        until(lambda: _probe(sandbox, namespace), lambda answer: answer == before)


def _probe(sandbox: Sandbox, namespace: str) -> object:
    """Look at what the server makes of a write: policies take a moment to be heard of."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
    try:
        made = sandbox.request("POST", path, {"metadata": {"name": f"probe-{uuid4().hex[:8]}"}})
    except RequestError as error:
        return error.status
    return made.get("data"), made["metadata"].get("labels")
