"""Which tokens are worth a review, and which pod an authenticated user is."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.pod_tokens import (
    MAX_TOKEN,
    POD_NAME,
    POD_UID,
    PodIdentity,
    TokenError,
    bearer_token,
    claimed_pod,
    proven_pod,
)

POD = PodIdentity("site", "blue-0", "1234", "gateway")
CLAIMS: dict[str, Any] = {
    "aud": ["syncline"],
    "exp": 1,
    "kubernetes.io": {
        "namespace": "site",
        "node": {"name": "n1", "uid": "5"},
        "pod": {"name": "blue-0", "uid": "1234"},
        "serviceaccount": {"name": "gateway", "uid": "6"},
    },
    "sub": "system:serviceaccount:site:gateway",
}


def token(claims: Any) -> str:
    text = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return f"e30.{base64.urlsafe_b64encode(text).decode().rstrip('=')}.c2ln"


def test_a_bound_token_names_its_pod() -> None:
    assert claimed_pod(token(CLAIMS)) == POD
    assert claimed_pod(token({**CLAIMS, "aud": "syncline"})) == POD
    assert claimed_pod(token({**CLAIMS, "aud": ["other", "syncline"]})) == POD


@pytest.mark.parametrize(
    ("claims", "cause"),
    [
        ({**CLAIMS, "aud": ["https://kubernetes.default.svc"]}, "audience"),
        ({**CLAIMS, "aud": []}, "audience"),
        ({**CLAIMS, "aud": "synclin"}, "audience"),
        ({"aud": "syncline"}, "not bound to a pod"),
        ({**CLAIMS, "kubernetes.io": {**CLAIMS["kubernetes.io"], "pod": None}}, "not bound to a pod"),
        ({**CLAIMS, "kubernetes.io": {**CLAIMS["kubernetes.io"], "pod": {"name": "blue-0"}}}, "not bound to a pod"),
        ({**CLAIMS, "kubernetes.io": {**CLAIMS["kubernetes.io"], "namespace": ""}}, "not bound to a pod"),
        ({**CLAIMS, "kubernetes.io": {**CLAIMS["kubernetes.io"], "pod": ["x"]}}, "not a ServiceAccount token"),
        ([], "not a ServiceAccount token"),
        (b"\xff\xfe", "not a ServiceAccount token"),
        (b'{"aud": "syncline"', "not a ServiceAccount token"),
        (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "not a ServiceAccount token"),
    ],
)
def test_other_tokens_are_refused_with_the_cause(claims: Any, cause: str) -> None:
    with pytest.raises(TokenError, match=cause):
        claimed_pod(token(claims))


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.b.c.d", "a.!.c", "é.é.é", "." * 3, "a." + "e30" * MAX_TOKEN + ".c"]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenError):
        claimed_pod(text)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_causes_any_other_error(text: str, middle: str) -> None:
    for one in (text, f"a.{middle}.c", token(middle.encode(errors="replace"))):
        with pytest.raises(TokenError):
            claimed_pod(one)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "abc", "Token abc"])
def test_only_a_bearer_token_is_a_token(header: str) -> None:
    with pytest.raises(TokenError, match="bearer token"):
        bearer_token(header)


def test_the_scheme_can_be_written_in_any_case() -> None:
    assert bearer_token("bearer  abc ") == "abc"


EXTRA = {POD_NAME: ["blue-0"], POD_UID: ["1234"], "authentication.kubernetes.io/node-name": ["n1"]}


def test_a_user_with_pod_and_uid_is_that_pod() -> None:
    assert proven_pod("system:serviceaccount:site:gateway", EXTRA) == POD


@pytest.mark.parametrize(
    ("user", "extra"),
    [
        ("system:serviceaccount:site:gateway", {}),
        ("system:serviceaccount:site:gateway", {POD_NAME: ["blue-0"]}),
        ("system:serviceaccount:site:gateway", {POD_NAME: ["blue-0"], POD_UID: []}),
        ("system:serviceaccount:site:gateway", {POD_NAME: ["blue-0", "red-0"], POD_UID: ["1234"]}),
        ("system:serviceaccount:site:gateway", {POD_NAME: [""], POD_UID: ["1234"]}),
        ("system:serviceaccount:site:", EXTRA),
        ("system:serviceaccount:", EXTRA),
        ("system:node:n1", EXTRA),
        ("site:gateway", EXTRA),
        ("", EXTRA),
    ],
)
def test_any_other_user_is_no_pod(user: str, extra: dict[str, list[str]]) -> None:
    assert proven_pod(user, extra) is None
