"""The account that syncs of tests name where the operator writes nothing with its own rights.

SYNCLINE_TEST_RIGHTS=none asks for that: see CONTRIBUTING.md.
"""

import time
from collections.abc import Mapping
from typing import Any

from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import chosen_profile

RBAC = "rbac.authorization.k8s.io"
SECONDS = 180.0
_CONFLICT = 409


def account_of_tests() -> str:
    """Return the name of the account, or "" where syncs need none."""
    return "tests" if chosen_profile() == "none" else ""


def empower(sandbox: Sandbox, namespace: str, account: str) -> None:
    """Let an account of a namespace do everything, and wait until that holds."""
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    user = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    body = {"metadata": {"name": namespace}, "roleRef": role, "subjects": [user]}
    try:
        sandbox.request("POST", f"/apis/{RBAC}/v1/clusterrolebindings", body)
    except RequestError as error:
        if error.status != _CONFLICT:
            raise
    deadline = time.monotonic() + SECONDS
    while not _may_do_everything(sandbox, f"system:serviceaccount:{namespace}:{account}"):
        assert time.monotonic() < deadline, f"{account} of {namespace} may not do everything within {SECONDS:.0f} s"
        time.sleep(0.01)


def acting(account: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec that names the account, if there is one and the spec names none."""
    return {"serviceAccountName": account, **spec} if account else dict(spec)


def _may_do_everything(sandbox: Sandbox, user: str) -> bool:
    attributes = {"verb": "*", "group": "*", "resource": "*"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
