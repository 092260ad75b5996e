"""Who may write a ConfigSync.

What it does is decided by whoever pushes to the repository, who is not the author: which rights that will take cannot
be known here. So it acts as a service account, whose rights the API server checks at each step, or its author has all.
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
        "names no account",
        "all verbs on all resources of all groups, by a ClusterRoleBinding: whoever pushes decides what is done",
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
'you may not do everything everywhere, and whoever pushes to the repository decides what this sync does:'
+ ' write spec.serviceAccountName with an account that has just the rights that it needs'""",
        ),
    )
    everything = removal(EVERYTHING, "'do everything everywhere'")
    return [*checks, *removers(PLURAL, ACCOUNT, everything)]
