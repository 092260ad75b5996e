"""Kinds of other projects that the chart can create: the fields of their documentation that it uses, and no others.

The CRDs of cert-manager 1.21, Gateway API 1.6 and prometheus-operator 0.93 have accepted the same objects (`FULL`).
"""

from typing import Any

from syncline import deploy

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields} | ({"required": list(required)} if required else {})


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_MAP = {"type": "object", "additionalProperties": _TEXT}
_REFERENCE = _object(("name",), name=_TEXT, kind=_TEXT, group=_TEXT, namespace=_TEXT, port={"type": "integer"})
_CERTIFICATE = _object(
    ("secretName", "issuerRef"),
    secretName=_TEXT,
    dnsNames=_TEXTS,
    usages={
        "type": "array",
        "items": {"type": "string", "enum": ["digital signature", "key encipherment", "server auth"]},
    },
    issuerRef=_REFERENCE,
)
_HTTP_ROUTE = _object(
    parentRefs=_list(_REFERENCE),
    hostnames=_TEXTS,
    rules=_list(
        _object(
            matches=_list(_object(path=_object(type={"type": "string", "enum": ["Exact", "PathPrefix"]}, value=_TEXT))),
            backendRefs=_list(_REFERENCE),
        )
    ),
)
_SERVICE_MONITOR = _object(
    ("selector", "endpoints"),
    selector=_object(matchLabels=_MAP),
    namespaceSelector=_object(matchNames=_TEXTS),
    endpoints=_list(
        _object(
            port=_TEXT,
            scheme={"type": "string", "enum": ["http", "https"]},
            interval=_TEXT,
            honorLabels={"type": "boolean"},
            bearerTokenFile=_TEXT,
            tlsConfig=_object(
                serverName=_TEXT,
                insecureSkipVerify={"type": "boolean"},
                ca=_object(secret=_object(("key",), name=_TEXT, key=_TEXT)),
            ),
        )
    ),
)
_RULE = _object(("expr",), alert=_TEXT, expr=_TEXT, labels=_MAP, annotations=_MAP, **{"for": _TEXT})
_PROMETHEUS_RULE = _object(groups=_list(_object(("name",), name=_TEXT, rules=_list(_RULE))))


def crds() -> list[deploy.Manifest]:
    """Return the CRDs."""
    return [
        _crd("cert-manager.io", "Certificate", "certificates", _CERTIFICATE),
        _crd("gateway.networking.k8s.io", "HTTPRoute", "httproutes", _HTTP_ROUTE),
        _crd("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", _SERVICE_MONITOR),
        _crd("monitoring.coreos.com", "PrometheusRule", "prometheusrules", _PROMETHEUS_RULE),
    ]


def _crd(group: str, kind: str, plural: str, spec: dict[str, Any]) -> deploy.Manifest:
    # The API server guards the names of its own project.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved if group.endswith("k8s.io") else {}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object(spec=spec, metadata={"type": "object"})},
                }
            ],
        },
    }
