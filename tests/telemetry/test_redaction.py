"""What never reaches a log line."""

import json
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.api.content import Transform
from syncline.telemetry.redaction import REDACTED, is_secret_name, mask, redact

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeW5jIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "Token",
        "access_token",
        "bearer-token",
        "password",
        "db.password",
        "clientSecretKey",
        "secret",
        "data",
        "stringData",
        "binaryData",
        "authorization",
        "Proxy-Authorization",
        "Set-Cookie",
        "api_key",
        "client-key-data",
        "privateKey",
        "kubeconfig",
        "credentials",
    ],
)
def test_a_value_under_a_telling_name_is_dropped(name: str) -> None:
    assert is_secret_name(name)
    assert redact({"outer": [{name: "canary"}]}) == {"outer": [{name: REDACTED}]}


@pytest.mark.parametrize(
    "name",
    ["sync", "target", "revision", "event", "namespace", "name", "kind", "secretName", "metadata", "key", "tokens"],
)
def test_a_value_under_an_ordinary_name_stays(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"),
        ("header Basic dXNlcjpwYXNz0w==", "header Basic [redacted]"),
        (f"got {JWT} from the file", "got [redacted] from the file"),
        ("https://user:pass@example.test/x", "https://[redacted]@example.test/x"),
        ("https://user:p@ss@example.test/x", "https://[redacted]@example.test/x"),
        ("ssh://git@example.test", "ssh://[redacted]@example.test"),
        ("GET /x?token=canary&y=1", "GET /x?token=[redacted]&y=1"),
        ("password=canary, next", "password=[redacted], next"),
        ('{"password": "canary", "user": "u"}', '{"password": "[redacted]", "user": "u"}'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx", "[redacted]\nx"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[redacted]"),
    ],
)
def test_credentials_in_a_string_are_masked(text: str, expected: str) -> None:
    assert mask(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "secret team/settings: not found",
        "the token expired",
        "basic authentication is not used",
        "https://example.test/path@2",
        "configmapsync team/settings synced to 3 targets",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert mask(text) == text


@dataclass
class Opaque:
    url: str


def test_objects_become_plain_data() -> None:
    assert redact(
        {
            "error": ValueError("https://u:p@host"),
            "struct": Transform(key="*", set="x"),
            "bytes": b"canary",
            "set": {"a"},
            "opaque": Opaque("https://u:p@host"),
            "nan": float("nan"),
            1: (None, True, 2, 2.5),
        }
    ) == {
        "error": "ValueError: https://[redacted]@host",
        "struct": {"key": "*", "set": "x", "replace": None, "template": None},
        "bytes": "[6 bytes]",
        "set": ["a"],
        "opaque": "Opaque(url='https://[redacted]@host')",
        "nan": "nan",
        "1": [None, True, 2, 2.5],
    }


def test_data_that_holds_itself_has_an_end() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert "..." in json.dumps(redact(endless))


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_masked_and_masking_twice_changes_nothing(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "piece",
    ["a", "://", "://a@", "Bearer ", "eyJ", "-----BEGIN PRIVATE KEY-----", "token=", 'token":"', "Basic A", " "],
)
def test_a_hostile_string_costs_little(piece: str) -> None:
    started = time.process_time()
    mask(piece * (200_000 // len(piece)))
    assert time.process_time() - started < 2
