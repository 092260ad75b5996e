import json

import pytest

from syncline.kube import errors
from syncline.kube.errors import ApiError, from_response


def refusal(
    code: int, reason: str = "", message: str = "", *, resource: str = "configmaps", **more: object
) -> ApiError:
    body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message, **more}).encode()
    return from_response(code, body, verb="create", resource=resource, namespace="team", name="settings")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Gone", errors.Gone),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.ServerError),
        (307, "", ApiError),
        (405, "MethodNotAllowed", ApiError),
    ],
)
def test_each_refusal_has_its_class(code: int, reason: str, kind: type[ApiError]) -> None:
    error = refusal(code, reason)
    assert type(error) is kind
    assert error.status == code


def test_an_error_reads_as_a_sentence() -> None:
    error = refusal(403, "Forbidden", 'User "bob" cannot create resource "configmaps"')
    assert str(error) == (
        "cannot create configmaps 'settings' in namespace 'team': 403 Forbidden: "
        'User "bob" cannot create resource "configmaps"'
    )


def test_a_refusal_without_a_status_is_named_by_its_code() -> None:
    error = from_response(404, b"404 page not found", verb="list", resource="widgets")
    assert isinstance(error, errors.NotFound)
    assert str(error) == "cannot list widgets: 404 NotFound"


@pytest.mark.parametrize("reason", ["no more than 3 replicas, says the board", "x" * 65, "Ready\n", "3Times"])
def test_a_reason_that_is_no_word_is_part_of_the_message(reason: str) -> None:
    error = refusal(403, reason, "denied")
    assert error.reason == "Forbidden"
    assert error.message == f"{reason}: denied"
    assert refusal(422, reason).reason == "Invalid"
    assert refusal(403, reason, f"denied: {reason}").message == f"denied: {reason}"


def test_a_reason_that_is_no_word_may_quote_a_secret() -> None:
    error = refusal(403, "canary is no good password", "denied", resource="secrets")
    assert "canary" not in f"{error}{error!r}{error.message}{error.args}"


def test_nothing_that_a_server_says_about_a_secret_is_repeated_but_field_names() -> None:
    causes = [{"field": "data[password]", "message": "Invalid value: canary", "reason": "FieldValueInvalid"}]
    error = refusal(422, "Invalid", "data: Invalid value: canary", resource="secrets", details={"causes": causes})
    assert "canary" not in f"{error}{error!r}{error.message}{error.args}"
    assert str(error).endswith("422 Invalid: see data[password]")


def test_a_refusal_that_quotes_a_whole_object_is_cut_to_what_is_wrong() -> None:
    quoted = json.dumps({"containers": [{"env": [{"name": f"E{number}", "value": "x"} for number in range(50)]}]})
    causes = [
        {
            "field": "spec.template",
            "message": f"Invalid value: {quoted}: field is immutable",
            "reason": "FieldValueInvalid",
        },
        {"field": "spec", "message": "Forbidden: cannot be changed\n@@ -1,6 +1,6 @@", "reason": "FieldValueForbidden"},
    ]
    error = refusal(422, "Invalid", f"Job is invalid: {quoted}", resource="jobs", details={"causes": causes})
    assert str(error).endswith(
        "422 Invalid: spec.template: Invalid value: field is immutable; spec: Forbidden: cannot be changed"
    )


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("7", {}, 7.0),
        (None, {"retryAfterSeconds": 3}, 3.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {"retryAfterSeconds": 2}, 2.0),
        (None, {}, None),
        ("0", {}, None),
        ("-5", {}, None),
        ("nan", {}, None),
    ],
)
def test_retry_after_comes_from_the_header_or_the_details(
    header: str | None, details: dict[str, int], seconds: float | None
) -> None:
    body = json.dumps({"code": 429, "details": details}).encode()
    assert from_response(429, body, verb="get", resource="pods", retry_after=header).retry_after == seconds


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'secrets "s" is forbidden: exceeded quota: q, requested: count/secrets=1, used: pods=2, limited: pods=2',
            "exceeded quota: q",
        ),
        (
            "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: canary",
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
        ),
        ('admission webhook "w.example.com" denied the request: canary', 'webhook "w.example.com" denied the request'),
        ('secrets "s" is forbidden: exceeded quota: q, requested: canary here', "Forbidden"),
        ("canary: exceeded quota: q", "Forbidden"),
    ],
)
def test_who_refuses_a_secret_is_told_and_its_values_are_not(said: str, told: str) -> None:
    error = refusal(403, "Forbidden", said, resource="secrets")
    assert told in str(error)
    assert "canary" not in str(error)
