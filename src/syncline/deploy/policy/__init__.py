"""The admission policies: nobody gets through a sync what they may not do themselves, or what a TenantPolicy forbids.

The API server evaluates them, with no webhook to lose, on create and on every change of a spec. They decide at the time
of writing only: rights that are taken away later are the business of `serviceAccountName`.
"""

from syncline.deploy.policy import configmapsync, configsync, manifestsync, synctarget, tenants
from syncline.deploy.text import Manifest

__all__ = ["policy"]


def policy() -> list[Manifest]:
    """Return the ValidatingAdmissionPolicies of all kinds, each with its binding."""
    authors = [*configmapsync.policy(), *manifestsync.policy(), *configsync.policy(), *synctarget.policy()]
    return [*authors, *tenants.policy()]
