"""Namespaces that keep every sync out: ignored by a label, or being deleted."""

from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Namespace


def closed_namespace(namespace: Namespace | None, target: Target) -> Outcome | None:
    """Say why a namespace keeps a target out; None where it is open, or does not exist."""
    if namespace is None:
        return None
    if namespace.ignored:
        return ignored_namespace(target)
    if namespace.terminating:
        message = "the namespace is being deleted"
        return Outcome(target=target, state="Skipped", reason="NamespaceTerminating", message=message)
    return None


def ignored_namespace(target: Target) -> Outcome:
    """Say that a namespace is ignored."""
    message = f"namespace {target.namespace!r} is labelled syncline.dev/ignore: true"
    return Outcome(target=target, state="Skipped", reason="NamespaceIgnored", message=message)
