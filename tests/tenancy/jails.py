"""The API server holds the requests of a tenant's accounts, as it does with tenants that send too many."""

import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.configmapsync.world import Thing, until
from tests.tenancy.tenants import Tenant

from syncline.sandbox import Sandbox

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
WRITES = ("create", "update", "patch", "delete")


@contextmanager
def jailed(sandbox: Sandbox, tenant: Tenant) -> Iterator[None]:
    """Hold writes of ConfigMaps and access reviews of a tenant's accounts, each for as long as the API server waits.

    That is 15 s.
    """
    name = f"jail-{tenant.namespace}"
    level = Thing(sandbox, f"{FLOWS}/prioritylevelconfigurations", name)
    schema = Thing(sandbox, f"{FLOWS}/flowschemas", name)
    queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1000}
    limited = {
        "nominalConcurrencyShares": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    level.create({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}})
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": tenant.namespace, "name": "*"}}
    rule = {
        "verbs": list(WRITES),
        "apiGroups": ["", "authorization.k8s.io"],
        "resources": ["configmaps", "selfsubjectaccessreviews"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    schema.create(
        {
            "metadata": {"name": name},
            "spec": {
                "priorityLevelConfiguration": {"name": name},
                "matchingPrecedence": 100,
                "rules": [{"subjects": [subject], "resourceRules": [rule]}],
            },
        }
    )
    until(lambda: tenant.is_held(seconds=3), bool)
    try:
        yield
    finally:
        schema.delete()
        level.delete()
        until(lambda: tenant.is_held(seconds=3), lambda held: not held)


def held(sandbox: Sandbox, tenant: Tenant) -> int:
    """Return how many requests of a tenant's accounts the API server holds now."""
    request = urllib.request.Request(
        f"{sandbox.server}/metrics",
        headers={"Authorization": f"Bearer {sandbox.token}"},
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=sandbox.ca)) as answer:
        text = answer.read().decode()
    series = "apiserver_flowcontrol_current_inqueue_requests{"
    lines = (line for line in text.splitlines() if line.startswith(series) and f'"jail-{tenant.namespace}"' in line)
    return sum(round(float(line.rpartition(" ")[2])) for line in lines)
