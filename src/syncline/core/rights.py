"""The rights that a write needs, as verbs of RBAC."""

from syncline.core.plan import Action, Verb

WATCHING = ("get", "list", "watch")
"""What it takes to know what is there: without these, nothing of a kind is written."""


def needed_verbs(action: Action, *, by_content: bool) -> tuple[str, ...]:
    """Return the verbs that an action needs; `by_content`: on a ConfigMap or Secret, which are never replaced."""
    match action.verb:
        case Verb.CREATE:
            return ("create",)
        case Verb.RECREATE:
            return ("delete", "create")
        case Verb.DELETE:
            return ("delete",)
        case Verb.RELEASE:
            return ("patch",)
        case Verb.UPDATE | Verb.ADOPT:
            replaces = action.change is not None and action.change.exact and not by_content
            return ("update", "patch") if replaces else ("patch",)
        case Verb.READ | Verb.LEAVE:
            return ()
