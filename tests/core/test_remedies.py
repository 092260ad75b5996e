"""Messages with a cause in somebody else's words begin with what to do, and hold the cause once."""

import pytest

from syncline.controllers.discretion import reduced
from syncline.core.conditions import shorten
from syncline.core.remedies import grant, grant_credential, grant_operator, unwatched, with_cause

REFUSAL = 'cannot list deployments: 403 Forbidden: deployments.apps is forbidden: User "u" cannot list resource'


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (REFUSAL, REFUSAL),
        (REFUSAL.replace("list", "watch"), REFUSAL.replace("list", "watch")),
        ("cannot connect to https://a: refused", "cannot watch deployments: cannot connect to https://a: refused"),
        ("", "cannot watch deployments: the first list has not come yet"),
    ],
    ids=["list", "watch", "unreachable", "late"],
)
def test_that_a_kind_cannot_be_watched_is_said_once(failure: str, told: str) -> None:
    assert unwatched("deployments.apps", failure) == told


@pytest.mark.parametrize(
    "remedy",
    [
        grant_operator("deployments.apps"),
        grant_credential("deployments.apps", "edge"),
        grant("system:serviceaccount:a:robot", "get", "secrets"),
        grant(None, "get", "secrets"),
    ],
)
def test_the_remedy_survives_whatever_is_cut_and_whatever_is_not_repeated(remedy: str) -> None:
    message = with_cause(remedy, REFUSAL + " and so on" * 200)
    assert message.startswith(f"{remedy}: cannot list")
    assert shorten(message, 300).startswith(remedy[:120])
    assert reduced(message).startswith(f"{remedy}: cannot list deployments: 403 Forbidden")
    assert with_cause("", REFUSAL) == REFUSAL
