"""SyncTarget on a real API server: what it takes, what it refuses, and with which words."""

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create, report, stored, table

from syncline.api.common import Condition
from syncline.api.kinds import SYNC_TARGET
from syncline.api.synctarget import SyncedResource, SyncTarget, SyncTargetStatus
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod", "key": "value"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "prod"},
    "server": "https://[2001:db8::1]:6443",
}

GOOD: dict[str, Spec] = {
    "a kubeconfig": {"connection": KUBECONFIG},
    "a token": {"connection": TOKEN},
    "for others too": {"connection": KUBECONFIG, "allowedNamespaces": ["team-*", "ops"], "unschedulable": True},
}
RULES: dict[str, Bad] = {
    "another SyncTarget": (
        {"connection": {"type": "SyncTarget", "syncTargetRef": {"name": "a"}}},
        "spec.connection.type",
        "a SyncTarget cannot refer to another SyncTarget: write type: KubeconfigSecret or ServiceAccountToken",
    ),
    "a namespace in capitals": (
        {"connection": KUBECONFIG, "allowedNamespaces": ["Team"]},
        "spec.allowedNamespaces[0]",
        "write names or globs of namespaces",
    ),
    "a Secret that is no name": (
        {"connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "team-a/prod"}}},
        "spec.connection.kubeconfigSecretRef.name",
        "write the name of one object",
    ),
}
SCHEMA: dict[str, Bad] = {
    "no connection": ({}, "spec.connection", "Required value"),
    "no type": ({"connection": {}}, "spec.connection.type", "Required value"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, SYNC_TARGET, spec)
    local = msgspec.convert({"metadata": taken["metadata"], "spec": spec}, SyncTarget)
    assert msgspec.convert(taken, SyncTarget).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, SYNC_TARGET, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


STATUS = SyncTargetStatus(
    observed_generation=1,
    conditions=[Condition(type="Ready", status="True", reason="Reachable", last_transition_time=NOW)],
    version="v1.34.1",
    synced_resources=[
        SyncedResource(name="secrets", state="Accepted"),
        SyncedResource(name="widgets.example.com", state="Incompatible", message="not served there"),
    ],
    credential_expiry=NOW,
    last_seen=NOW,
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, SYNC_TARGET, {"connection": KUBECONFIG}) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, SyncTarget).status == STATUS


def test_kubectl_get_shows_whether_the_cluster_can_be_used_and_until_when(sandbox: Sandbox) -> None:
    with stored(sandbox, SYNC_TARGET, {"connection": KUBECONFIG}) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Ready", "Reason", "Version", "Expires", "Age"]
    assert cells[1:4] == ["True", "Reachable", "v1.34.1"]
