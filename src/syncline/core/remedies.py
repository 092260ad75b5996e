"""Messages with the error of another program: the remedy first, then the cause, once.

Texts are cut to the limits of a status, and messages of a server are dropped if they may quote a Secret. The remedy
must survive both.
"""

import re

from syncline.core.group_kind import GroupResource
from syncline.core.profiles import profile_of

EVERY_VERB = "get, list, watch, create, patch, update and delete"
OPERATOR = "the operator, which this sync acts as"


def with_cause(remedy: str, cause: object) -> str:
    """Return a message that begins with the remedy; without a remedy, only the cause."""
    return f"{remedy}: {cause}" if remedy else str(cause)


def grant_operator(resource: str, *, read: bool = False) -> str:
    """Return the remedy that gives the operator the rights to write a resource, such as `deployments.apps`.

    `read`: it only watches the resource, which an account writes.
    """
    if read:
        return f"run `syncline grant --read {resource}`"
    profile = profile_of(resource)
    return f"run `syncline grant {resource}`" + (f" or install with --rights {profile}" if profile else "")


def grant_writer(user: str | None, resource: str, namespace: str) -> str:
    """Return the remedy that gives a user the right to write a resource; None is the operator itself."""
    if user is None:
        return grant_operator(resource)
    account = _ACCOUNT.fullmatch(user)
    where = f"-n {namespace}" if namespace else "-A"
    return f"run `syncline grant {resource} --to {account[1]}/{account[2]} {where}`" if account is not None else ""


def lacks_right(refusal: str) -> bool:
    """Whether a server refuses because of a missing right, and not because of a quota or a policy."""
    return _NO_RIGHT.search(refusal) is not None


_NO_RIGHT = re.compile(r'User "[^"]+" cannot [a-z]+ resource "')
_ACCOUNT = re.compile(r"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)")


def grant_credential(resource: str, cluster: str) -> str:
    """Return the same remedy for the credential of another cluster."""
    return f"give {EVERY_VERB} of {resource} to the account of the credential in cluster {cluster}"


def grant_upstream(resource: str) -> str:
    """Return the remedy for an upstream, whose objects are only read."""
    return f"give get, list and watch of {resource} to the account of the upstream's credential"


def grant(who: str | None, verb: str, resource: str) -> str:
    """Return the remedy for a single missing right; None is the operator itself."""
    return f"give {who or OPERATOR} the right to {verb} {resource} there"


def unwatched(resource: str, failure: str) -> str:
    """Return the message that a kind cannot be watched. A failure with the same beginning is not repeated."""
    plural = GroupResource.parse(resource).resource
    if failure.startswith((f"cannot watch {plural}", f"cannot list {plural}")):
        return failure
    return f"cannot watch {plural}: {failure or 'the first list has not come yet'}"
