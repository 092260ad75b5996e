"""What Git hosts and delivery tools send, as their documentation shows it, and what is made of it."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.pushes import Push, Unread, read_push

NEW = "6113728f27ae82c7b1a177c8d03f9e96e0adf246"
ZERO = "0" * 40
HTTPS = "https://git.example.com/team/config.git"
SSH = "git@git.example.com:team/config.git"

GITHUB_REPOSITORY = {"full_name": "team/config", "clone_url": HTTPS, "ssh_url": SSH, "id": 1}
GITHUB_PUSH = {"ref": "refs/heads/main", "before": ZERO, "after": NEW, "repository": GITHUB_REPOSITORY}
GITLAB_PROJECT = {"git_http_url": HTTPS, "git_ssh_url": SSH, "path_with_namespace": "team/config"}
GITLAB_PUSH = {
    "object_kind": "push",
    "event_name": "push",
    "ref": "refs/heads/main",
    "after": NEW,
    "checkout_sha": NEW,
    "project": GITLAB_PROJECT,
}
CLOUD_REPOSITORY = {"full_name": "team/config", "links": {"html": {"href": "https://git.example.com/team/config"}}}
SERVER_REPOSITORY = {
    "slug": "config",
    "project": {"key": "TEAM"},
    "links": {"clone": [{"href": "https://git.example.com/scm/team/config.git", "name": "http"}]},
}
FREIGHT = {"commits": [{"repoURL": HTTPS, "id": NEW, "tag": "v2.0.0", "branch": "main"}]}


def read(payload: Any, **headers: str) -> Push | Unread:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_push(names, json.dumps(payload).encode())


def push(payload: Any, **headers: str) -> Push:
    found = read(payload, **headers)
    assert isinstance(found, Push)
    return found


class TestHosts:
    @pytest.mark.parametrize(
        ("header", "host"),
        [("X-GitHub", "GitHub"), ("X-Gitea", "Gitea"), ("X-Forgejo", "Forgejo"), ("X-Gogs", "Gogs")],
    )
    def test_a_push_of_github_and_its_kin(self, header: str, host: str) -> None:
        headers = {f"{header}-Event": "push", f"{header}-Delivery": "d-1"}
        assert push(GITHUB_PUSH, **headers) == Push(
            host=host,  # type: ignore[arg-type]
            repositories=(HTTPS, SSH, "team/config"),
            refs=("refs/heads/main",),
            commit=NEW,
            delivery="d-1",
        )

    def test_gitea_sends_the_headers_of_others_too(self) -> None:
        headers = {"X-GitHub-Event": "push", "X-Gogs-Event": "push", "X-Gitea-Event": "push"}
        assert push(GITHUB_PUSH, **headers).host == "Gitea"

    def test_names_of_headers_ignore_case(self) -> None:
        assert push(GITHUB_PUSH, **{"x-github-event": "push", "X-GITHUB-DELIVERY": "d"}).delivery == "d"

    def test_a_ping_is_a_ping(self) -> None:
        assert push({"zen": "...", "hook_id": 1}, X_GitHub_Event="ping").kind == "Ping"

    def test_a_tag_of_github(self) -> None:
        assert push({**GITHUB_PUSH, "ref": "refs/tags/v1"}, X_GitHub_Event="push").refs == ("refs/tags/v1",)

    @pytest.mark.parametrize(("ref_type", "ref"), [("branch", "refs/heads/x"), ("tag", "refs/tags/x")])
    @pytest.mark.parametrize(("event", "kind"), [("create", "Create"), ("delete", "Delete")])
    def test_refs_that_come_and_go(self, ref_type: str, ref: str, event: str, kind: str) -> None:
        found = push({"ref": "x", "ref_type": ref_type, "repository": GITHUB_REPOSITORY}, X_GitHub_Event=event)
        assert (found.kind, found.refs, found.commit) == (kind, (ref,), "")

    def test_a_push_that_deletes_names_no_commit(self) -> None:
        found = push({**GITHUB_PUSH, "deleted": True, "after": ZERO}, X_GitHub_Event="push")
        assert (found.kind, found.commit) == ("Delete", "")

    def test_a_release_is_its_tag(self) -> None:
        found = push({"action": "published", "release": {"tag_name": "v1"}}, X_GitHub_Event="release")
        assert (found.kind, found.refs) == ("Release", ("refs/tags/v1",))

    def test_gitlab(self) -> None:
        found = push(GITLAB_PUSH, X_Gitlab_Event="Push Hook", Idempotency_Key="i-1", X_Gitlab_Event_UUID="not the one")
        assert found == Push(
            host="GitLab",
            repositories=(HTTPS, SSH, "team/config"),
            refs=("refs/heads/main",),
            commit=NEW,
            delivery="i-1",
        )

    def test_gitlab_tags_and_deletions(self) -> None:
        tag = push({**GITLAB_PUSH, "object_kind": "tag_push", "ref": "refs/tags/v1"}, X_Gitlab_Event="Tag Push Hook")
        assert (tag.kind, tag.refs) == ("Push", ("refs/tags/v1",))
        gone = push({**GITLAB_PUSH, "after": ZERO, "checkout_sha": None}, X_Gitlab_Event="Push Hook")
        assert (gone.kind, gone.commit) == ("Delete", "")

    def test_system_hooks_of_gitlab(self) -> None:
        system = {"event_name": "push", **{name: GITLAB_PUSH[name] for name in ("ref", "after", "project")}}
        assert push(system, X_Gitlab_Event="System Hook").refs == ("refs/heads/main",)
        update = {
            "event_name": "repository_update",
            "project": GITLAB_PROJECT,
            "changes": [{"ref": "refs/heads/a", "after": NEW}, {"ref": "refs/heads/b", "after": NEW}],
            "refs": ["refs/heads/a"],
        }
        assert push(update, X_Gitlab_Event="System Hook").refs == ("refs/heads/a", "refs/heads/b")

    def test_bitbucket_cloud(self) -> None:
        change = {"old": None, "new": {"type": "branch", "name": "main", "target": {"hash": NEW}}}
        payload = {"repository": CLOUD_REPOSITORY, "push": {"changes": [change]}}
        assert push(payload, X_Event_Key="repo:push", X_Request_UUID="u-1") == Push(
            host="Bitbucket",
            repositories=("team/config", "https://git.example.com/team/config"),
            refs=("refs/heads/main",),
            commit=NEW,
            delivery="u-1",
        )

    def test_bitbucket_cloud_deletes_a_tag(self) -> None:
        change = {"new": None, "old": {"type": "tag", "name": "v1"}}
        found = push({"repository": CLOUD_REPOSITORY, "push": {"changes": [change]}}, X_Event_Key="repo:push")
        assert (found.kind, found.refs) == ("Delete", ("refs/tags/v1",))

    def test_bitbucket_data_center(self) -> None:
        change = {"ref": {"id": "refs/heads/main", "displayId": "main"}, "toHash": NEW, "type": "UPDATE"}
        payload = {"repository": SERVER_REPOSITORY, "changes": [change]}
        found = push(payload, X_Event_Key="repo:refs_changed", X_Request_Id="r-1")
        assert (found.refs, found.commit, found.delivery) == (("refs/heads/main",), NEW, "r-1")
        assert found.repositories == ("https://git.example.com/scm/team/config.git", "TEAM/config")
        assert push({"test": True}, X_Event_Key="diagnostics:ping").kind == "Ping"

    def test_argo_cd(self) -> None:
        app = {
            "metadata": {"name": "web", "annotations": {"git.ref": "v2.0.0"}},
            "spec": {"source": {"repoURL": HTTPS, "targetRevision": "main"}},
            "status": {"sync": {"revision": NEW}},
        }
        assert push({"app": app}) == Push(
            host="ArgoCD", kind="Notification", repositories=(HTTPS,), refs=("v2.0.0",), commit=NEW
        )
        del app["metadata"]["annotations"]
        assert push({"app": app}).refs == ("main",)

    @pytest.mark.parametrize(
        "payload", [{"freight": FREIGHT}, {"freight": [FREIGHT]}, {"promotion": {"freight": FREIGHT}}]
    )
    def test_kargo(self, payload: Any) -> None:
        assert push(payload) == Push(
            host="Kargo", kind="Promotion", repositories=(HTTPS,), refs=("v2.0.0", "main"), commit=NEW
        )

    def test_a_cloud_event_is_read_by_its_data(self) -> None:
        event = {"specversion": "1.0", "id": "e-1", "type": "promotion", "data": {"freight": FREIGHT}}
        assert (push(event).host, push(event).delivery) == ("Kargo", "e-1")

    @pytest.mark.parametrize(
        ("payload", "refs", "commit"),
        [
            ({"ref": "main"}, ("main",), ""),
            ({"ref": "refs/heads/main", "after": NEW}, ("refs/heads/main",), NEW),
            ({"revision": "v1"}, ("v1",), ""),
            ({"revision": NEW}, (), NEW),
            ({"commit": NEW}, (), NEW),
            ({"sha": NEW[:8], "ref": "main"}, ("main",), NEW[:8]),
            ({"release": {"tag_name": "v1"}}, ("refs/tags/v1",), ""),
        ],
    )
    def test_a_generic_message(self, payload: Any, refs: tuple[str, ...], commit: str) -> None:
        found = push(payload)
        assert (found.host, found.refs, found.commit) == ("Generic", refs, commit)

    @pytest.mark.parametrize("repository", [HTTPS, {"url": HTTPS}, {"clone_url": HTTPS}])
    def test_a_generic_message_may_name_its_repository(self, repository: Any) -> None:
        assert push({"ref": "main", "repository": repository}).repositories == (HTTPS,)

    def test_a_form_is_read_by_its_payload(self) -> None:
        body = urlencode({"payload": json.dumps(GITHUB_PUSH)}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "X-GitHub-Event": "push"}
        found = read_push(headers, body)
        assert isinstance(found, Push)
        assert found.commit == NEW


class TestRefusals:
    @pytest.mark.parametrize("event", ["issues", "workflow_run", "star"])
    def test_another_event_of_a_known_host_is_no_fault(self, event: str) -> None:
        assert read({}, X_GitHub_Event=event) == Unread("not a push: GitHub may send pushes only", broken=False)

    def test_so_with_gitlab_and_bitbucket(self) -> None:
        gitlab = read({"object_kind": "issue"}, X_Gitlab_Event="Issue Hook")
        bitbucket = read({}, X_Event_Key="pullrequest:created")
        assert [isinstance(one, Unread) and not one.broken for one in (gitlab, bitbucket)] == [True, True]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"ref=main",
            b"\xff\xfe",
            b'{"ref": "\xff"}',
            pytest.param(b"[" * 100_000, id="deep list"),
            pytest.param(b'{"a":' * 50_000, id="deep map"),
        ],
    )
    def test_what_is_not_json_is_told_so(self, body: bytes) -> None:
        found = read_push({}, body)
        assert isinstance(found, Unread)
        assert found.broken
        assert "not JSON" in found.reason

    @pytest.mark.parametrize("payload", [[], "main", 7, None])
    def test_what_is_no_object_is_told_so(self, payload: Any) -> None:
        assert read(payload) == Unread("the message is not a JSON object")

    @pytest.mark.parametrize(
        "payload", [{}, {"hello": "world"}, {"ref": 7}, {"ref": ""}, {"commit": "not hexadecimal"}]
    )
    def test_what_names_no_revision_is_told_what_to_send(self, payload: Any) -> None:
        assert read(payload) == Unread(
            'no known message: send {"ref": "main"}, or set the event header of your Git host'
        )

    def test_a_push_without_a_ref_is_broken(self) -> None:
        assert read({}, X_GitHub_Event="push") == Unread("the message of GitHub has no ref")
        assert isinstance(read({"object_kind": "push"}, X_Gitlab_Event="Push Hook"), Unread)


class TestConcern:
    @pytest.mark.parametrize(
        ("refs", "revision", "concerned"),
        [
            (("refs/heads/main",), "main", True),
            (("refs/heads/main",), "refs/heads/main", True),
            (("main",), "refs/heads/main", True),
            (("main",), "main", True),
            (("refs/heads/feature/x",), "feature/x", True),
            (("refs/heads/feature/x",), "x", False),
            (("refs/heads/dev",), "main", False),
            (("refs/tags/v1",), "refs/heads/v1", False),
            (("refs/tags/v1.4.2",), "^1.4", True),
            (("refs/tags/v1.4.2",), ">=1.0 <2.0", True),
            (("v1.4.2",), "1.x", True),
            (("refs/heads/dev",), "^1.4", False),
            (("refs/heads/a", "refs/heads/b"), "b", True),
            ((), "main", True),
            (("refs/heads/dev",), "HEAD", True),
            (("refs/heads/dev",), NEW, True),
            (("refs/heads/dev",), NEW[:10], True),
            (("refs/heads/dev",), "abcdef0", False),
        ],
    )
    def test_a_push_concerns_those_who_follow_its_refs(
        self, refs: tuple[str, ...], revision: str, concerned: bool
    ) -> None:
        assert Push(host="Generic", refs=refs, commit=NEW).concerns(revision) is concerned

    def test_a_ping_concerns_nobody(self) -> None:
        assert not Push(host="GitHub", kind="Ping").concerns("main")


NAMES = (
    *("ref", "refs", "after", "app", "spec", "source", "sources", "freight", "commits", "promotion", "push"),
    *("changes", "new", "old", "repository", "project", "links", "clone", "release", "tag_name", "object_kind"),
    *("metadata", "annotations", "data", "specversion"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "main", NEW, ZERO, "refs/heads/"]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inside, max_size=4),
    max_leaves=8,
)
events = st.sampled_from(
    [("X-GitHub-Event", "push"), ("X-GitHub-Event", "delete"), ("X-Gitlab-Event", "Push Hook"), ("X-Other", "y")]
    + [("X-Event-Key", key) for key in ("repo:push", "repo:refs_changed")]
)


@quick
@given(values, events)
def test_no_message_is_too_strange_to_be_answered(payload: Any, event: tuple[str, str]) -> None:
    found = read_push(dict([event]), json.dumps(payload).encode())
    assert isinstance(found, Push | Unread)
    if isinstance(found, Push):
        assert all(isinstance(text, str) for text in (*found.refs, *found.repositories, found.commit))
        assert found.concerns("main") in (True, False)
