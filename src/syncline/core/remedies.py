"""How a message is put together that has a cause in somebody else's words: the remedy first, then the cause, once.

Texts are cut to the limits of a status, and the words of a server are dropped where they may quote a Secret. What
somebody has to do must survive both.
"""

from syncline.api.common import GROUP

AGGREGATE = f'the label {GROUP}/aggregate-to-operator: "true"'
EVERY_VERB = "get, list, watch, create, patch, update and delete"
OPERATOR = "the operator, which this sync acts as"


def with_cause(remedy: str, cause: object) -> str:
    """Return a message that begins with what to do; without a remedy, the cause alone."""
    return f"{remedy}: {cause}" if remedy else str(cause)


def grant_operator(resource: str) -> str:
    """Say how the operator gets all that it needs to write a resource, such as `deployments.apps`."""
    return f"give the operator {EVERY_VERB} of {resource} by a ClusterRole with {AGGREGATE}"


def grant_credential(resource: str, cluster: str) -> str:
    """Say the same of the credential of another cluster."""
    return f"give {EVERY_VERB} of {resource} to the account of the credential in cluster {cluster}"


def grant(who: str | None, verb: str, resource: str) -> str:
    """Say which single right somebody needs; None is the operator itself."""
    return f"give {who or OPERATOR} the right to {verb} {resource} there"


def unwatched(resource: str, failure: str) -> str:
    """Say that a kind cannot be watched; a failure that begins with just that is not repeated."""
    plural = resource.partition(".")[0]
    if failure.startswith((f"cannot watch {plural}", f"cannot list {plural}")):
        return failure
    return f"cannot watch {plural}: {failure or 'the first list has not come yet'}"
