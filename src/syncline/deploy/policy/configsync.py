"""The rights that the author of a ConfigSync needs.

Users who push to the repository decide the actions of a ConfigSync, not its author. The policy therefore cannot know
the necessary rights. Either the sync acts as a service account, whose rights the API server checks at each request, or
its author has all rights.
"""

from syncline.api.configsync import PLURAL
from syncline.deploy.policy.parts import (
    ACCOUNT,
    ACCOUNT_NEEDS,
    EVERYTHING,
    REMOVAL_NEEDS,
    Needs,
    account,
    authors,
    name,
    removal,
    removers,
    without_account,
)
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (
    *REMOVAL_NEEDS,
    *ACCOUNT_NEEDS,
    (
        "names no service account",
        "all verbs on all resources of all groups, by a ClusterRoleBinding: users who push decide the actions",
    ),
)


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    checks = authors(
        PLURAL,
        ACCOUNT,
        account(),
        without_account(
            EVERYTHING,
            """\
'you may not use all verbs on all resources, and users who push to the repository decide the actions of this sync:'
+ ' write spec.serviceAccountName with an account that has only the necessary rights'""",
        ),
    )
    everything = removal(EVERYTHING, "'use all verbs on all resources'")
    return [*checks, *removers(PLURAL, ACCOUNT, everything)]
