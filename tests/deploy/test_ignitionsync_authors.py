"""Who may write an IgnitionSync: real accounts with real roles try it on a real API server."""

from typing import Any

import pytest
from tests.deploy.authors import MAY, Apply, Authors, Eventually, Grant, StoredSync, namespaces

from syncline.api.common import ABANDON, CONFIRM_DELETION, REQUESTED_AT
from syncline.api.ignition_annotations import REQUESTED_REF, REQUESTED_REF_AT, REQUESTED_REF_BY
from syncline.api.kinds import IGNITION_SYNC
from syncline.sandbox import Sandbox

HOME = "igs-home"

Spec = dict[str, Any]


def get(name: str = "") -> Grant:
    return Grant(HOME, "secrets", ("get",), name)


AUTHORS: dict[str, tuple[Grant, ...]] = {
    "nobody": (),
    "key-reader": (get("gw"),),
    "reader-of-both": (get("gw"), get("git")),
    "reader-of-all-that-is-named": tuple(get(name) for name in ("gw", "git", "hosts", "ca", "hook", "s3")),
    "lister": (Grant(HOME, "secrets", ("list", "watch")),),
    "secret-reader": (get(),),
    "elsewhere": (Grant("default", "secrets", ("get",)),),
    "impersonator": (Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),),
    "token-maker": (Grant(HOME, "serviceaccounts/token", ("create",), "robot"),),
    "robot": (),
    "pod-maker": (Grant(HOME, "pods", ("create",)),),
    "impersonator-and-pod-maker": (
        Grant(HOME, "serviceaccounts", ("impersonate",), "robot"),
        Grant(HOME, "pods", ("create",)),
    ),
}
REPO = "https://git.example.com/plant.git"
TOKEN = {"token": {"secretRef": {"name": "git", "key": "token"}}}
APP = {"githubApp": {"appId": 1, "installationId": 2, "privateKeySecretRef": {"name": "git", "key": "pem"}}}
SSH = {
    "repo": "git@git.example.com:plant.git",
    "auth": {
        "sshKey": {
            "secretRef": {"name": "git", "key": "identity"},
            "knownHosts": {"secretRef": {"name": "hosts", "key": "known_hosts"}},
        }
    },
}
S3 = {
    "bucket": "b",
    "accessKeySecretRef": {"name": "s3", "key": "id"},
    "secretKeySecretRef": {"name": "s3", "key": "key"},
}


def sync(git: Spec | None = None, **more: Any) -> Spec:
    """Sync a public repository, by default, to gateways with an API key."""
    key = {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}}
    return {"git": {"repo": REPO, "ref": "main", **(git or {})}, "gateway": key, **more}


def headers(*names: str) -> Spec:
    given = [{"name": f"X-{name}", "secretRef": {"name": name, "key": "value"}} for name in names]
    return {
        "git": {"repo": REPO, "ref": "main"},
        "apply": {"type": "HTTP", "http": {"port": 9090, **({"headers": given} if given else {})}},
    }


ALL = sync(
    {**SSH},
    webhook={"secretRef": {"name": "hook", "key": "token"}},
    snapshots={"storage": {"type": "s3", "s3": S3}},
)


def refused(secret: str, field: str) -> str:
    return f"you may not get the Secret {secret} (spec.{field}) in namespace {HOME}, so no sync may use it for you"


NO_KEY = refused("gw", "gateway.apiKeySecretRef")
NOT_THE_ACCOUNT = f"you may not impersonate the service account robot of namespace {HOME}"
NO_IMAGE = f"you may not create pods in namespace {HOME}, so you may not choose an image for them"
OWN_IMAGE = {"image": {"repository": "registry.example.com/own"}}
CASES = [
    ("nobody", {**headers(), "agent": OWN_IMAGE}, NO_IMAGE),
    ("nobody", {**headers(), "agent": {"image": {"tag": "own"}}}, NO_IMAGE),
    ("nobody", {**headers(), "agent": {"image": {"digest": f"sha256:{'0' * 64}"}}}, NO_IMAGE),
    ("nobody", {**headers(), "agent": {"image": {"pullPolicy": "Always"}}}, MAY),
    ("pod-maker", {**headers(), "agent": OWN_IMAGE}, MAY),
    ("impersonator", {**headers(), "agent": OWN_IMAGE, "serviceAccountName": "robot"}, NO_IMAGE),
    ("impersonator-and-pod-maker", {**headers(), "agent": OWN_IMAGE, "serviceAccountName": "robot"}, MAY),
    ("nobody", sync(), NO_KEY),
    ("lister", sync(), NO_KEY),
    ("elsewhere", sync(), NO_KEY),
    ("key-reader", sync(), MAY),
    ("secret-reader", sync(), MAY),
    ("key-reader", sync({"auth": TOKEN}), refused("git", "git.auth.token.secretRef")),
    ("key-reader", sync({"auth": APP}), refused("git", "git.auth.githubApp.privateKeySecretRef")),
    ("key-reader", sync(SSH), refused("git", "git.auth.sshKey.secretRef")),
    ("reader-of-both", sync({"auth": TOKEN}), MAY),
    ("reader-of-both", sync({"auth": APP}), MAY),
    ("reader-of-both", sync(SSH), refused("hosts", "git.auth.sshKey.knownHosts.secretRef")),
    ("reader-of-both", sync({"caSecretRef": {"name": "ca"}}), refused("ca", "git.caSecretRef")),
    ("reader-of-both", sync(webhook={"secretRef": {"name": "hook", "key": "a"}}), refused("hook", "webhook.secretRef")),
    (
        "reader-of-both",
        sync(snapshots={"storage": {"type": "s3", "s3": S3}}),
        refused("s3", "snapshots.storage.s3.accessKeySecretRef"),
    ),
    ("reader-of-all-that-is-named", ALL, MAY),
    ("secret-reader", ALL, MAY),
    ("nobody", headers(), MAY),
    ("nobody", headers("gw"), f"you may not get the Secret gw in namespace {HOME}"),
    ("key-reader", headers("gw", "gw"), MAY),
    ("reader-of-both", headers("gw", "git"), "you may not get every Secret (this sync names several)"),
    ("secret-reader", headers("gw", "git"), MAY),
    ("nobody", {**ALL, "serviceAccountName": "robot"}, NOT_THE_ACCOUNT),
    ("secret-reader", {**ALL, "serviceAccountName": "robot"}, NOT_THE_ACCOUNT),
    ("impersonator", {**ALL, "serviceAccountName": "robot"}, MAY),
    ("token-maker", {**ALL, "serviceAccountName": "robot"}, MAY),
    ("impersonator", {**ALL, "serviceAccountName": "admin"}, "you may not impersonate the service account admin"),
]


@pytest.fixture(scope="module")
def authors(sandbox: Sandbox, installed: None, apply: Apply, eventually: Eventually) -> Authors:  # noqa: ARG001
    """Everyone in the table, once all rights and the policy are in force."""
    apply(namespaces(HOME))
    authors = Authors(sandbox, HOME)
    authors.settle(AUTHORS, apply, eventually)
    eventually(lambda: NO_KEY in authors.attempt("nobody", IGNITION_SYNC, sync()))
    return authors


@pytest.mark.parametrize(("author", "spec", "told"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_an_author_may_only_name_secrets_that_they_may_get(
    authors: Authors, author: str, spec: Spec, told: str
) -> None:
    answer = authors.attempt(author, IGNITION_SYNC, spec)
    assert told in answer
    assert (" 403 " in answer) == (answer != MAY) == (told != MAY)


@pytest.mark.parametrize(
    ("spec", "author", "told"),
    [
        (sync({"auth": TOKEN}), "reader-of-both", refused("git", "git.auth.token.secretRef")),
        (sync({"auth": TOKEN}, serviceAccountName="robot"), "impersonator", NOT_THE_ACCOUNT),
    ],
    ids=["secrets", "account"],
)
def test_whoever_may_not_use_the_credentials_of_a_sync_does_not_have_it_follow_another_ref(
    sandbox: Sandbox, authors: Authors, spec: Spec, author: str, told: str
) -> None:
    stored = StoredSync(sandbox, authors, IGNITION_SYNC, spec)
    acting = (REQUESTED_REF, REQUESTED_REF_AT, REQUESTED_AT, CONFIRM_DELETION, ABANDON)
    strange = [stored.edited_by("key-reader", annotations={annotation: "evil"}) for annotation in acting]
    edit = stored.edited_by("key-reader", {**stored.body["spec"], "driftPolicy": "Report"})
    own = [stored.edited_by(author, annotations={annotation: "v2"}) for annotation in acting]
    harmless = stored.edited_by("key-reader", annotations={"note": "x", REQUESTED_REF_BY: "me"})
    sandbox.request("DELETE", stored.path)
    assert [told in answer for answer in (*strange, edit)] == [True] * 6
    assert (own, harmless) == ([MAY] * 5, MAY)


def test_the_end_of_a_sync_needs_none_of_its_secrets(sandbox: Sandbox, authors: Authors) -> None:
    stored = StoredSync(sandbox, authors, IGNITION_SYNC, sync({"auth": TOKEN}))
    answer = stored.deleted_by("nobody")
    sandbox.request("DELETE", stored.path)
    assert answer == MAY


def test_the_end_of_a_sync_with_an_account_needs_the_account(sandbox: Sandbox, authors: Authors) -> None:
    stored = StoredSync(sandbox, authors, IGNITION_SYNC, sync(serviceAccountName="robot"))
    strange, own = stored.deleted_by("secret-reader"), stored.deleted_by("impersonator")
    sandbox.request("DELETE", stored.path)
    assert NOT_THE_ACCOUNT in strange
    assert own == MAY
