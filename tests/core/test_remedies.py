"""Messages with a cause in somebody else's words begin with what to do, and hold the cause once."""

import pytest

from syncline.core.conditions import shorten
from syncline.core.redact import strip_server_text
from syncline.core.remedies import (
    grant,
    grant_credential,
    grant_operator,
    grant_writer,
    lacks_right,
    unwatched,
    with_cause,
)

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
        grant_operator("deployments.apps", read=True),
        grant_writer("system:serviceaccount:a:robot", "deployments.apps", "b"),
        grant_credential("deployments.apps", "edge"),
        grant("system:serviceaccount:a:robot", "get", "secrets"),
        grant(None, "get", "secrets"),
    ],
)
def test_the_remedy_survives_whatever_is_cut_and_whatever_is_not_repeated(remedy: str) -> None:
    message = with_cause(remedy, REFUSAL + " and so on" * 200)
    assert message.startswith(f"{remedy}: cannot list")
    assert shorten(message, 300).startswith(remedy[:120])
    assert strip_server_text(message).startswith(f"{remedy}: cannot list deployments: 403 Forbidden")
    assert with_cause("", REFUSAL) == REFUSAL


@pytest.mark.parametrize(
    ("user", "resource", "namespace", "remedy"),
    [
        (None, "deployments.apps", "b", "run `syncline grant deployments.apps` or install with --rights workloads"),
        (None, "limitranges", "b", "run `syncline grant limitranges`"),
        ("system:serviceaccount:a:robot", "secrets", "b", "run `syncline grant secrets --to a/robot -n b`"),
        ("system:serviceaccount:a:robot", "namespaces", "", "run `syncline grant namespaces --to a/robot -A`"),
        ("jane", "secrets", "b", ""),
    ],
)
def test_whoever_lacks_a_right_is_named_in_the_command_that_grants_it(
    user: str | None, resource: str, namespace: str, remedy: str
) -> None:
    assert grant_writer(user, resource, namespace) == remedy


@pytest.mark.parametrize(
    ("refusal", "lacks"),
    [
        (
            'secrets is forbidden: User "system:serviceaccount:a:b" cannot create resource "secrets" in API group ""',
            True,
        ),
        ('pods "a" is forbidden: exceeded quota: first, requested: pods=1', False),
        ('configmaps "a" is forbidden: ValidatingAdmissionPolicy "p" denied request: no', False),
        ("roles is forbidden: attempting to grant RBAC permissions not currently held", False),
    ],
)
def test_a_quota_or_a_policy_is_no_missing_right(refusal: str, lacks: bool) -> None:
    assert lacks_right(refusal) is lacks
