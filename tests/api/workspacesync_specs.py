"""Specs of WorkspaceSyncs, as the tests of their API write them."""

from typing import Any

import pytest
from tests.api.trial import Spec, create

from syncline.api.kinds import WORKSPACE_SYNC
from syncline.sandbox import RequestError, Sandbox

KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "kcp"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "kcp"},
    "server": "https://kcp.example.com:6443/clusters/root:team",
}
BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "hub"}}
EU = {"matchLabels": {"region": "eu"}}
DEPLOYMENTS = {"group": "apps", "version": "v1", "resource": "deployments"}
CONFIG_MAPS = {"group": "", "version": "v1", "resource": "configmaps"}
TWO_WAY = {**CONFIG_MAPS, "direction": "Bidirectional"}


def spec(**more: Any) -> Spec:
    return {"downstream": {"syncTargets": ["east"]}, **more}


def upstream(**more: Any) -> Spec:
    return spec(upstream={"connection": KUBECONFIG, **more})


def downstream(**more: Any) -> Spec:
    return {"downstream": more}


def resources(*given: Spec, **more: Any) -> Spec:
    return spec(resources=list(given), **more)


def mapping(**given: Any) -> Spec:
    return spec(namespaces={"mapping": given})


def transform(**given: Any) -> Spec:
    return spec(transforms=[{"resource": "deployments.apps", **given}])


def operation(**given: Any) -> Spec:
    return transform(patch=[given])


def placement(**given: Any) -> Spec:
    return spec(placement=given)


CONTRACT: Spec = {
    "upstream": {"connection": KUBECONFIG, "workspace": "root:team"},
    "downstream": {"syncTargets": ["east"], "writer": "east"},
    "resources": [
        {**DEPLOYMENTS, "selector": {"matchLabels": {"sync": "yes"}}},
        {**TWO_WAY, "conflictStrategy": "MergeChanges"},
    ],
    "namespaces": {
        "selector": {"matchLabels": {"sync": "yes"}},
        "mapping": {"prefix": "team-"},
        "existing": "Refuse",
    },
    "conflictStrategy": "UpstreamWins",
    "onConflict": "UpstreamWins",
    "exact": False,
    "transforms": [
        {"resource": "deployments.apps", "remove": ["/spec/template/spec/nodeSelector"]},
        {"resource": "deployments.apps", "patch": [{"op": "add", "path": "/metadata/labels/from", "value": "kcp"}]},
        {"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}, "targets": EU},
    ],
    "statusSync": True,
    "endpoints": False,
    "retry": {"maxRetries": 5, "delay": "1s"},
    "placement": {"strategy": "All"},
    "deletePropagation": "Down",
}

ANY_VALUE: Spec = transform(
    set={"/spec/replicas": 2, "/spec/paused": True, "/spec/strategy": {"type": "Recreate"}},
    patch=[
        {"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}},
        {"op": "replace", "path": "/spec/paused", "value": False},
        {"op": "test", "path": "/metadata/name", "value": "web"},
        {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/example.com~1name"},
        {"op": "move", "from": "/spec/a~0b", "path": "/spec/b"},
        {"op": "remove", "path": "/metadata/labels"},
    ],
)


def refusal(sandbox: Sandbox, given: Spec) -> str:
    """Return what the server says when it refuses a spec."""
    with pytest.raises(RequestError) as refused:
        create(sandbox, WORKSPACE_SYNC, given)
    return str(refused.value)
