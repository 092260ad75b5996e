"""Which rights a planned write needs."""

import pytest

from syncline.core.objects import Target
from syncline.core.plan import Action, Change, Verb
from syncline.core.rights import needed_verbs


@pytest.mark.parametrize(
    ("verb", "extras", "by_content", "verbs"),
    [
        (Verb.CREATE, False, True, ("create",)),
        (Verb.CREATE, True, False, ("create",)),
        (Verb.UPDATE, False, True, ("patch",)),
        (Verb.UPDATE, True, True, ("patch",)),
        (Verb.UPDATE, False, False, ("patch",)),
        (Verb.UPDATE, True, False, ("update", "patch")),
        (Verb.ADOPT, False, False, ("patch",)),
        (Verb.ADOPT, True, False, ("update", "patch")),
        (Verb.RECREATE, False, True, ("delete", "create")),
        (Verb.DELETE, False, True, ("delete",)),
        (Verb.RELEASE, False, False, ("patch",)),
        (Verb.LEAVE, False, False, ()),
        (Verb.READ, False, False, ()),
    ],
)
def test_each_write_needs_the_verbs_that_it_sends(
    verb: Verb, extras: bool, by_content: bool, verbs: tuple[str, ...]
) -> None:
    change = Change(digest="d", exact=extras)
    action = Action(verb=verb, target=Target("a", "b"), reason="R", message="", change=change)
    assert needed_verbs(action, by_content=by_content) == verbs
