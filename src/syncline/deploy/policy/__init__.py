"""The admission policies: nobody gets through a sync what they may not do themselves, or what a TenantPolicy forbids.

The API server evaluates them, with no webhook to lose, on create and on every change of a spec. They decide at the time
of writing only: rights that are taken away later are the business of `serviceAccountName`.
"""

from syncline import __version__
from syncline.core.author_policies import VERSION_LABEL
from syncline.deploy.policy import configmapsync, configsync, manifestsync, synctarget, tenants
from syncline.deploy.text import Manifest

__all__ = ["policy"]


def policy() -> list[Manifest]:
    """Return the ValidatingAdmissionPolicies of all kinds, each with its binding."""
    authors = [*configmapsync.policy(), *manifestsync.policy(), *configsync.policy(), *synctarget.policy()]
    # An operator of an older version takes those of a newer one for good.
    return [_labelled(manifest) for manifest in (*authors, *tenants.policy())]


def _labelled(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    labels = {**metadata["labels"], VERSION_LABEL: __version__}
    return {**manifest, "metadata": {**metadata, "labels": labels}}
