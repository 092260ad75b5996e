"""Closed namespaces: ignored by a label, or being deleted. No sync writes there."""

from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Namespace


def closed_namespace(namespace: Namespace | None, target: Target) -> Outcome | None:
    """Return why nothing is written to a closed namespace; None if it is open or does not exist."""
    if namespace is None:
        return None
    if namespace.ignored:
        return ignored_namespace(target)
    if namespace.terminating:
        message = "the namespace is being deleted"
        return Outcome(target=target, state="Skipped", reason="NamespaceTerminating", message=message)
    return None


def ignored_namespace(target: Target) -> Outcome:
    """Return the outcome of a target in an ignored namespace."""
    message = f"namespace {target.namespace!r} is labelled syncline.dev/ignore: true"
    return Outcome(target=target, state="Skipped", reason="NamespaceIgnored", message=message)
