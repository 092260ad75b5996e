"""The CustomResourceDefinition of a kind, generated from its types."""

from inspect import getdoc
from typing import Any

from syncline.api.common import GROUP, VERSION
from syncline.api.kinds import Column, Kind
from syncline.api.schema import Schema, structural

_API_VERSION = "The version of this object's schema."
_KIND = "The kind of this object."


def crd(kind: Kind) -> dict[str, Any]:
    """Return the manifest of a kind's CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": ["syncline"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": schema(kind)},
                }
            ],
        },
    }


def schema(kind: Kind) -> Schema:
    """Return the schema of a kind's objects."""
    return {
        "description": getdoc(kind.object),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "kind": {"description": _KIND, "type": "string"},
            "metadata": {"type": "object"},
            "spec": {"description": getdoc(kind.spec), **structural(kind.spec, authored=True)},
            "status": {"description": getdoc(kind.status), **structural(kind.status, authored=False)},
        },
    }


def _column(column: Column) -> dict[str, Any]:
    priority = {"priority": column.priority} if column.priority else {}
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
        **priority,
    }
