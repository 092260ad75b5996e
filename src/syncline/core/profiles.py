"""The profiles of rights of the operator, as data: the kinds that it writes with its own rights.

Every profile reads the kinds of a usual application, so that syncs with an account can write them: the operator
watches, and the account writes. Other kinds need a grant.
"""

from typing import Literal, get_args

from msgspec import Struct

from syncline.api.common import GROUP
from syncline.core.group_kind import GroupResource

Profile = Literal["none", "config", "workloads", "admin"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
"""From the least to the most: each writes everything that those before it write."""
DEFAULT: Profile = "config"

MEANINGS: dict[Profile, str] = {
    "none": "it writes nothing in its own name, so that every sync needs a serviceAccountName",
    "config": "it writes ConfigMaps and Secrets in its own name",
    "workloads": "it writes what a usual application has in its own name",
    "admin": "it writes every kind in its own name",
}

ROLE = "syncline-core"
"""The ClusterRole that every operator has."""
LABEL = f"{GROUP}/rights"
"""On that role: the installed profile."""

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "patch", "update", "delete")
_WRITE_DATA = (*READ, "create", "patch", "delete")


class Share(Struct, frozen=True, kw_only=True):
    """A part of the operator's rights, with its own ClusterRole."""

    role: str
    since: Profile
    """The least profile that writes it."""
    rules: tuple[tuple[str, tuple[str, ...]], ...]
    """API groups and resources."""
    verbs: tuple[str, ...] = WRITE
    read: bool = True
    """Whether lesser profiles read it."""
    why: str

    def verbs_in(self, profile: Profile) -> tuple[str, ...]:
        """Return the verbs of a profile for it."""
        if is_at_least(profile, self.since):
            return self.verbs
        return READ if self.read else ()


SHARES = (
    Share(
        role="syncline-configmaps",
        since="config",
        rules=(("", ("configmaps",)),),
        verbs=_WRITE_DATA,
        why="copy ConfigMaps for syncs that name no account",
    ),
    Share(
        role="syncline-secrets",
        since="config",
        rules=(("", ("secrets",)),),
        verbs=_WRITE_DATA,
        why="copy Secrets, and read the credentials of other clusters, for syncs that name no account",
    ),
    Share(
        role="syncline-workloads",
        since="workloads",
        rules=(
            ("", ("services", "serviceaccounts", "persistentvolumeclaims")),
            ("apps", ("deployments", "statefulsets", "daemonsets")),
            ("batch", ("jobs", "cronjobs")),
            ("networking.k8s.io", ("ingresses", "networkpolicies")),
            ("autoscaling", ("horizontalpodautoscalers",)),
            ("policy", ("poddisruptionbudgets",)),
        ),
        why="write what a usual application has for syncs that name no account",
    ),
    Share(
        role="syncline-admin",
        since="admin",
        rules=(("*", ("*",)),),
        read=False,
        why="write every kind for syncs that name no account",
    ),
)


def is_at_least(profile: Profile, least: Profile) -> bool:
    """Whether a profile writes everything that another one writes."""
    return PROFILES.index(profile) >= PROFILES.index(least)


def profile_of(resource: str) -> Profile | None:
    """Return the least profile that names a resource, such as `deployments.apps`, among those that it writes."""
    group, plural = GroupResource.parse(resource)
    for share in SHARES:
        if any(group == of and plural in resources for of, resources in share.rules):
            return share.since
    return None


def known(name: str) -> Profile | None:
    """Return the profile of this name, or None."""
    return next((profile for profile in PROFILES if profile == name), None)
