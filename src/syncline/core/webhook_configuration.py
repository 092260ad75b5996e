"""The MutatingWebhookConfiguration for pods that request an agent. Pure.

It is shipped with the manifests. The operator adds and repairs the certificates and the path. All other fields belong
to the administrator.
"""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from syncline.api.ignition_annotations import INJECT

NAME = "syncline-injection"
WEBHOOK = "inject.syncline.dev"
SERVICE = "syncline-admission"
PATH = "/inject"
PORT = 443
TIMEOUT = 5
KUBE_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")

Manifest = Mapping[str, Any]
Client = dict[str, Any]
Patch = list[dict[str, Any]]


class AdmissionUrlError(ValueError):
    """An address cannot be called by an API server. The message has the remedy."""


def service_client(namespace: str, token: str = "", ca: str = "") -> Client:
    """Return the client config for the Service of the operator. `ca` is PEM.

    The manifests have neither token nor certificates, so applying them again changes neither.
    """
    path = {"path": f"{PATH}/{token}"} if token else {}
    return {"service": {"namespace": namespace, "name": SERVICE, "port": PORT, **path}, **_bundle(ca)}


def url_client(url: str, token: str, ca: str = "") -> Client:
    """Return the client config for an address of the operator."""
    return {"url": f"{url.rstrip('/')}/{token}", **_bundle(ca)}


def check_url(url: str) -> str:
    """Return the host of an address for `url_client`. Raises `AdmissionUrlError`."""
    try:
        found = urlsplit(url)
        host, _ = found.hostname, found.port
    except ValueError:
        host = None
    if not host or found.scheme != "https" or found.username or found.query or found.fragment or not url.isprintable():
        raise AdmissionUrlError("write an address such as https://127.0.0.1:9443, without a query")
    return host


def webhook_configuration(namespace: str, client: Client) -> dict[str, Any]:
    """Return the whole configuration, of an operator in this namespace."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [_webhook(namespace, client)],
    }


def repair(found: Manifest, namespace: str, client: Client) -> Patch:
    """Return the JSON patch that sets this client config; empty if it is set.

    A client without certificates keeps those that are there: another program writes them.
    """
    webhooks = list(found.get("webhooks") or ())
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    index = next((place for place, one in enumerate(webhooks) if one.get("name") == WEBHOOK), None)
    if index is None:
        value: Any = _webhook(namespace, client)
        path, value = ("/webhooks/-", value) if webhooks else ("/webhooks", [value])
        return [test, {"op": "add", "path": path, "value": value}]
    current = webhooks[index].get("clientConfig") or {}
    wanted = (
        client if "caBundle" in client or not current.get("caBundle") else {**client, "caBundle": current["caBundle"]}
    )
    if current == wanted:
        return []
    return [test, {"op": "add", "path": f"/webhooks/{index}/clientConfig", "value": wanted}]


def _webhook(namespace: str, client: Client) -> dict[str, Any]:
    return {
        "name": WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        # A pod without the annotation never depends on the operator. A pod with it is created even if the operator is
        # down.
        "failurePolicy": "Ignore",
        "timeoutSeconds": TIMEOUT,
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": [*KUBE_NAMESPACES, namespace],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "asks-for-an-agent",
                "expression": f"object.metadata.?annotations[?'{INJECT}'].orValue('') == 'true'",
            },
            {"name": "not-in-kube-namespaces", "expression": "!request.namespace.startsWith('kube-')"},
        ],
    }


def _bundle(ca: str) -> dict[str, str]:
    return {"caBundle": base64.b64encode(ca.encode()).decode()} if ca else {}
