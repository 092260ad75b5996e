"""Manifests as code: what a cluster needs to run Syncline, as plain dictionaries and as YAML.

The CRDs, roles and the admission policy follow from the kinds in `syncline.api`; `deploy/` and `docs/reference/` in the
tree are written from here by `python -m syncline.deploy.generate`. Nothing here talks to a cluster: applying is the
caller's job, in the order in which `everything` lists.
"""

from syncline.deploy.manifests import crds, everything, namespace
from syncline.deploy.names import IMAGE, NAMESPACE, SERVICE_ACCOUNT
from syncline.deploy.policy import policy
from syncline.deploy.resources import resource
from syncline.deploy.rights import Choice, rbac
from syncline.deploy.text import Manifest, to_yaml
from syncline.deploy.workload import deployment

__all__ = [
    "IMAGE",
    "NAMESPACE",
    "SERVICE_ACCOUNT",
    "Choice",
    "Manifest",
    "crds",
    "deployment",
    "everything",
    "namespace",
    "policy",
    "rbac",
    "resource",
    "to_yaml",
]
