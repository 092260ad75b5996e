"""Manifests as code: all objects that a cluster needs to run Syncline, as dictionaries and as YAML.

The CRDs, the roles and the admission policies are generated from the kinds in `syncline.api`. `python -m
syncline.deploy.generate` writes `deploy/` and `docs/reference/` in the tree. This package does not connect to a
cluster. The caller applies the objects in the order of `everything`.
"""

from syncline.deploy.manifests import crds, everything, namespace
from syncline.deploy.names import IMAGE, NAMESPACE, SERVICE_ACCOUNT
from syncline.deploy.policy import policy
from syncline.deploy.resources import resource
from syncline.deploy.rights import Choice, rbac
from syncline.deploy.text import Manifest, to_yaml
from syncline.deploy.workload import deployment, injection

__all__ = [
    "IMAGE",
    "NAMESPACE",
    "SERVICE_ACCOUNT",
    "Choice",
    "Manifest",
    "crds",
    "deployment",
    "everything",
    "injection",
    "namespace",
    "policy",
    "rbac",
    "resource",
    "to_yaml",
]
