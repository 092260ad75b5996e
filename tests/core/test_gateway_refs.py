"""The ref that gateways follow: which deliveries request one, which are allowed, and how long a request holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.ignition_annotations import NEWEST_EVENT, REQUESTED_REF, REQUESTED_REF_AT, REQUESTED_REF_BY
from syncline.api.ignition_git import RefWebhook
from syncline.api.ignition_status import RequestedRef
from syncline.core.gateway_refs import choose_ref, is_outdated, is_request, request_annotations, requested_ref
from syncline.core.pushes import Push, read_push

AT = "2026-01-01T00:00:00Z"


def delivery(body: object, **headers: str) -> Push:
    push = read_push({name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode())
    assert isinstance(push, Push), push
    return push


RELEASE = {"action": "published", "release": {"tag_name": "v2.0"}}
ARGO = {"app": {"metadata": {"annotations": {"git.ref": "v2.0"}}}}
KARGO = {"freight": {"commits": [{"tag": "v2.0", "id": "a" * 40}]}}
GENERIC = {"ref": "v2.0"}


class TestDeliveries:
    @pytest.mark.parametrize("body", [RELEASE, ARGO, KARGO, GENERIC], ids=["release", "argo", "kargo", "generic"])
    def test_a_tag_is_requested_by_its_full_name(self, body: object) -> None:
        assert requested_ref(RefWebhook(), "main", delivery(body)) == "refs/tags/v2.0"

    def test_a_release_of_github_is_a_request(self) -> None:
        assert requested_ref(RefWebhook(), "main", delivery(RELEASE, X_GitHub_Event="release")) == "refs/tags/v2.0"

    @pytest.mark.parametrize("action", ["deleted", "unpublished"])
    def test_a_release_that_is_withdrawn_requests_nothing(self, action: str) -> None:
        for headers in ({}, {"X_GitHub_Event": "release"}):
            push = delivery({**RELEASE, "action": action}, **headers)
            assert not is_request(push)
            assert requested_ref(RefWebhook(), "main", push) == ""

    def test_a_push_of_a_git_host_requests_nothing(self) -> None:
        body = {"ref": "refs/heads/other", "after": "a" * 40, "repository": {"full_name": "a/b"}}
        push = delivery(body, X_GitHub_Event="push")
        assert not is_request(push)
        assert requested_ref(RefWebhook(allowed_refs=["*"]), "main", push) == ""

    @pytest.mark.parametrize("ref", ["refs/heads/evil", "refs/pull/1/head", "refs/meta/config"])
    def test_other_refs_than_the_own_one_and_tags_need_to_be_listed(self, ref: str) -> None:
        push = delivery({"ref": ref})
        assert requested_ref(RefWebhook(), "main", push) == ""
        assert requested_ref(RefWebhook(allowed_refs=["refs/*"]), "main", push) == ref

    def test_a_name_without_prefix_never_means_a_branch_by_default(self) -> None:
        assert requested_ref(RefWebhook(), "main", delivery({"ref": "evil"})) == "refs/tags/evil"

    def test_the_own_ref_can_be_requested(self) -> None:
        assert requested_ref(RefWebhook(), "main", delivery({"ref": "refs/heads/main"})) == "main"

    @pytest.mark.parametrize(
        ("patterns", "ref", "allowed"),
        [
            (["release/*"], "release/1", True),
            (["release/*"], "refs/heads/release/1", True),
            (["release/*"], "main", False),
            (["v1.?"], "v1.2", True),
            (["v1.?"], "v1.22", False),
            (["refs/tags/*"], "v1", False),
        ],
    )
    def test_a_list_allows_what_it_has_and_nothing_else(self, patterns: list[str], ref: str, *, allowed: bool) -> None:
        found = requested_ref(RefWebhook(allowed_refs=patterns), "main", delivery({"ref": ref}))
        assert found == (ref if allowed else "")

    @pytest.mark.parametrize(
        "ref", ["v1.0 || >=2", "v1.0||v9.x", "v1.0, v9", "v1.0 - v9.0", "v1.0 !=1.0", "v1.*", ">=1", "^1", "~1", "!=1"]
    )
    def test_a_range_of_versions_does_not_get_past_the_list(self, ref: str) -> None:
        for patterns in (["v1*"], ["v1.?*"], ["*"]):
            assert requested_ref(RefWebhook(allowed_refs=patterns), "main", delivery({"ref": ref})) == ""
        assert requested_ref(RefWebhook(allowed_refs=["v1*", ref]), "main", delivery({"ref": ref})) == ref

    @pytest.mark.parametrize("ref", ["refs/heads/v1,new", "v1=2", "feature/v1.0-9"])
    def test_a_name_that_is_no_range_is_compared_with_the_list(self, ref: str) -> None:
        assert requested_ref(RefWebhook(allowed_refs=["v1*", "feature/*"]), "main", delivery({"ref": ref})) == ref

    def test_a_commit_must_be_listed(self) -> None:
        commit = "c" * 40
        push = delivery({"ref": commit})
        assert requested_ref(RefWebhook(), "main", push) == ""
        assert requested_ref(RefWebhook(allowed_refs=["*"]), "main", push) == commit

    def test_the_first_allowed_ref_counts(self) -> None:
        body = {"freight": {"commits": [{"branch": "main"}, {"tag": "v3"}]}}
        assert requested_ref(RefWebhook(allowed_refs=["v*"]), "stable", delivery(body)) == "v3"

    def test_a_ref_that_is_too_long_is_none(self) -> None:
        assert requested_ref(RefWebhook(allowed_refs=["*"]), "main", delivery({"ref": "r" * 300})) == ""


class TestEvents:
    """Deliveries that are sent again under another id: the signed body has the time of its event."""

    @pytest.mark.parametrize(
        ("body", "headers", "time"),
        [
            ({"release": {"tag_name": "v1", "published_at": "2026-01-02T03:04:05Z"}}, {}, "2026-01-02T03:04:05Z"),
            (
                {"release": {"tag_name": "v1", "published_at": "2026-01-02T03:04:05+01:00"}},
                {"X_Gitea_Event": "release"},
                "2026-01-02T02:04:05Z",
            ),
            (
                {"object_kind": "release", "tag": "v1", "released_at": "2026-01-02 03:04:05 UTC"},
                {"X_Gitlab_Event": "Release Hook"},
                "2026-01-02T03:04:05Z",
            ),
            ({"ref": "v1", "time": "2026-01-02T03:04:05Z"}, {}, "2026-01-02T03:04:05Z"),
            (
                {"specversion": "1.0", "id": "1", "time": "2026-01-02T03:04:05Z", "data": KARGO},
                {},
                "2026-01-02T03:04:05Z",
            ),
            (
                {"app": {"status": {"operationState": {"finishedAt": "2026-01-02T03:04:05Z"}}}},
                {},
                "2026-01-02T03:04:05Z",
            ),
            (GENERIC, {}, ""),
            ({"ref": "v1", "time": "yesterday"}, {}, ""),
            ({"ref": "v1", "time": "0001-01-01T00:00:00+23:00"}, {}, ""),
            ({"ref": "main", "after": "a" * 40, "time": "2026-01-02T03:04:05Z"}, {"X_GitHub_Event": "push"}, ""),
        ],
    )
    def test_an_event_has_the_time_that_its_body_says(self, body: object, headers: dict[str, str], time: str) -> None:
        assert delivery(body, **headers).time == time

    def test_an_event_is_outdated_once_it_or_a_newer_one_was_taken(self) -> None:
        one = delivery({**GENERIC, "time": "2026-01-02T00:00:00Z"})
        assert not is_outdated(one, {})
        assert not is_outdated(one, {NEWEST_EVENT: "2026-01-01T23:59:59Z"})
        assert is_outdated(one, {NEWEST_EVENT: "2026-01-02T00:00:00Z"})
        assert is_outdated(one, {NEWEST_EVENT: "2026-01-03T00:00:00Z"})
        assert not is_outdated(delivery(GENERIC), {NEWEST_EVENT: "2026-01-03T00:00:00Z"})

    @pytest.mark.parametrize(
        ("headers", "action"), [({"X_GitHub_Event": "release"}, "edited"), ({"X_Gitea_Event": "release"}, "updated")]
    )
    def test_an_edit_of_an_old_release_requests_nothing(self, headers: dict[str, str], action: str) -> None:
        for sent in (headers, {}):
            assert not is_request(delivery({**RELEASE, "action": action}, **sent))

    def test_a_draft_requests_nothing(self) -> None:
        body = {"action": "created", "release": {"tag_name": "v2.0", "draft": True}}
        assert not is_request(delivery(body, X_GitHub_Event="release"))


def wanting(ref: str, at: str = AT) -> dict[str, str]:
    return request_annotations(ref, at, "Kargo")


class TestRequests:
    def test_without_annotations_the_spec_counts(self) -> None:
        choice = choose_ref("main", {}, RequestedRef(ref="v1", at=AT))
        assert (choice.ref, choice.requested, choice.ended) == ("main", None, False)

    def test_a_request_beats_the_spec(self) -> None:
        choice = choose_ref("main", wanting("refs/tags/v2"), None)
        assert choice.ref == "refs/tags/v2"
        assert choice.requested == RequestedRef(ref="refs/tags/v2", at=AT, by="Kargo", instead_of="main")

    def test_a_request_holds_while_nothing_changes(self) -> None:
        first = choose_ref("main", wanting("v2"), None)
        assert choose_ref("main", wanting("v2"), first.requested) == first

    def test_a_request_ends_when_the_spec_changes(self) -> None:
        first = choose_ref("main", wanting("v2"), None)
        choice = choose_ref("stable", wanting("v2"), first.requested)
        assert (choice.ref, choice.requested, choice.ended) == ("stable", None, True)

    @pytest.mark.parametrize("requested", ["v2", "refs/tags/v2"])
    def test_a_request_ends_when_the_spec_names_the_same_ref(self, requested: str) -> None:
        choice = choose_ref("v2", wanting(requested), None)
        assert (choice.ref, choice.ended) == ("v2", True)

    def test_the_same_ref_requested_again_after_a_change_is_a_new_request(self) -> None:
        first = choose_ref("main", wanting("v2"), None)
        choice = choose_ref("stable", wanting("v2", "2026-02-02T00:00:00Z"), first.requested)
        assert (choice.ref, choice.ended) == ("v2", False)

    @pytest.mark.parametrize("left", [{REQUESTED_REF_AT: AT, REQUESTED_REF_BY: "me"}, {REQUESTED_REF: "  "}])
    def test_without_the_annotation_with_the_ref_the_others_go_too(self, left: dict[str, str]) -> None:
        choice = choose_ref("main", left, None)
        assert (choice.ref, choice.ended) == ("main", True)


@quick
@given(st.text(max_size=300), st.text(max_size=300), st.lists(st.text(min_size=1, max_size=10), max_size=3))
def test_any_text_is_either_refused_or_allowed(ref: str, spec_ref: str, patterns: list[str]) -> None:
    push = Push(host="Generic", refs=(ref,) if ref else ())
    found = requested_ref(RefWebhook(allowed_refs=patterns), spec_ref, push)
    assert found in ("", ref, spec_ref) or found.startswith("refs/tags/")
