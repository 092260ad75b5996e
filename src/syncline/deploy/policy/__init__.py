"""The admission policies. Nobody can do through a sync what they cannot do themselves, or what a TenantPolicy forbids.

The API server evaluates them without a webhook, at each create and at each change of a spec. They check rights only at
that time. If rights can be revoked later, use `serviceAccountName`.
"""

from syncline import __version__
from syncline.core.author_policies import VERSION_LABEL
from syncline.deploy.policy import (
    configmapsync,
    configsync,
    ignitionsync,
    manifestsync,
    synctarget,
    tenants,
    workspacesync,
)
from syncline.deploy.text import Manifest

__all__ = ["policy"]


def policy() -> list[Manifest]:
    """Return the ValidatingAdmissionPolicies of all kinds, each with its binding."""
    modules = (configmapsync, manifestsync, configsync, workspacesync, ignitionsync, synctarget)
    authors = [manifest for module in modules for manifest in module.policy()]
    # An operator of an older version accepts the policies of a newer version.
    return [_labelled(manifest) for manifest in (*authors, *tenants.policy())]


def _labelled(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    labels = {**metadata["labels"], VERSION_LABEL: __version__}
    return {**manifest, "metadata": {**metadata, "labels": labels}}
