"""The changes that a webhook of a Git host or a delivery tool reports.

    push = read_push(headers, body)
    if isinstance(push, Push) and push.concerns("main"): ...

GitHub, GitLab, Gitea, Forgejo, Gogs, Bitbucket (Cloud and Data Center), Argo CD notifications, Kargo events, and a
generic form: `{"ref": "main"}`, or `revision` or `commit` instead of `ref`, and optionally `repository`. A CloudEvent
is read by its data. The headers identify the host; without them, the form of the message does.

A push is only a hint to check the repository. Nothing in it is ever applied, so it need not be true.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct, structs

Host = Literal["GitHub", "GitLab", "Gitea", "Forgejo", "Gogs", "Bitbucket", "ArgoCD", "Kargo", "Generic"]
PushKind = Literal["Push", "Ping", "Create", "Delete", "Release", "Promotion", "Notification"]

HEADS = "refs/heads/"
TAGS = "refs/tags/"
_MOST_REFS = 100
_FIRST_YEAR = 1970
_LONGEST = 1024
_DELIVERY_HEADERS = (
    "x-github-delivery",
    "x-gitea-delivery",
    "x-forgejo-delivery",
    "x-gogs-delivery",
    "idempotency-key",  # GitLab's, the same when it tries again
    "x-gitlab-event-uuid",
    "x-request-uuid",
    "webhook-id",
    "ce-id",
    "x-delivery-id",
    "x-request-id",
)
_EVENT_HEADERS: tuple[tuple[str, Host], ...] = (
    # Gitea and its forks also send the headers of the hosts before them.
    ("x-forgejo-event", "Forgejo"),
    ("x-gitea-event", "Gitea"),
    ("x-gogs-event", "Gogs"),
    ("x-github-event", "GitHub"),
    ("x-gitlab-event", "GitLab"),
    ("x-event-key", "Bitbucket"),
)
_URL_FIELDS = (
    "clone_url",
    "ssh_url",
    "git_http_url",
    "git_ssh_url",
    "html_url",
    "web_url",
    "url",
    "full_name",
    "path_with_namespace",
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}").fullmatch
_RANGE = re.compile(r"[\^~<>=*|\s]|(^|\.)[xX](\.|$)").search


class Push(Struct, frozen=True, kw_only=True):
    """A possible change, with its ref and repository if the message names them."""

    host: Host
    kind: PushKind = "Push"
    repositories: tuple[str, ...] = ()
    """URLs and names, as the host writes them."""
    refs: tuple[str, ...] = ()
    commit: str = ""
    delivery: str = ""
    """The id of the message at the host; a repeated message has the same one."""
    time: str = ""
    """When the event happened, as `2026-01-31T12:00:00Z`; empty if the message does not say. It is part of the body,
    which is signed, unlike the id of a delivery."""

    def concerns(self, revision: str) -> bool:
        """Whether a sync that follows a revision should check its repository. In doubt it should."""
        if self.kind == "Ping":
            return False
        if not self.refs or revision == "HEAD" or self.commit.startswith(revision):
            return True
        if any(is_same_ref(ref, revision) for ref in self.refs):
            return True
        # A range of versions may mean any tag, and a ref without its prefix may be one.
        return bool(_RANGE(revision)) and not all(ref.startswith(HEADS) for ref in self.refs)


class Unread(Struct, frozen=True):
    """A message without a change of a revision."""

    reason: str
    broken: bool = True
    """False for a known message that does not concern revisions."""


def short_ref(ref: str) -> str:
    """Return a branch or tag without its prefix."""
    return ref.removeprefix(HEADS).removeprefix(TAGS)


def is_same_ref(one: str, other: str) -> bool:
    """Whether two names may mean the same branch or tag."""
    both_full = one.startswith("refs/") and other.startswith("refs/")
    return one == other if both_full else short_ref(one) == short_ref(other)


def read_push(headers: Mapping[str, str], body: bytes) -> Push | Unread:
    """Read a message. Total; no reason quotes the message."""
    lower = {name.lower(): value for name, value in headers.items()}
    payload = _payload(lower.get("content-type", ""), body)
    if isinstance(payload, Unread):
        return payload
    delivery = next((lower[name][:_LONGEST] for name in _DELIVERY_HEADERS if lower.get(name)), "")
    time = ""
    if "specversion" in payload and isinstance(payload.get("data"), dict):
        delivery, time = delivery or _text(payload, "id"), _time(_text(payload, "time"))
        payload = payload["data"]
    known = next(((name, host) for name, host in _EVENT_HEADERS if lower.get(name)), None)
    push = _of_shape(payload, delivery) if known is None else _of_host(known[1], lower[known[0]], payload, delivery)
    return structs.replace(push, time=time) if time and isinstance(push, Push) else push


def _payload(content_type: str, body: bytes) -> dict[str, Any] | Unread:
    text: bytes | str = body
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        try:
            fields = parse_qs(body.decode(), max_num_fields=10)
        except ValueError:
            return Unread("the form cannot be read")
        text = fields.get("payload", [""])[0]
    try:
        payload = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Unread("the message is not JSON; set the content type of the webhook to application/json")
    return payload if isinstance(payload, dict) else Unread("the message is not a JSON object")


def _of_host(host: Host, event: str, payload: dict[str, Any], delivery: str) -> Push | Unread:
    if host == "GitLab":
        return _gitlab(event, payload, delivery)
    if host == "Bitbucket":
        return _bitbucket(event, payload, delivery)
    kinds: dict[str, PushKind] = {
        "push": "Push",
        "ping": "Ping",
        "create": "Create",
        "delete": "Delete",
        "release": "Release",
    }
    if event not in kinds:
        return _no_push(host)
    ref = _text(payload, "ref") or _text(payload, "release", "tag_name")
    if event in ("create", "delete") and ref and not ref.startswith("refs/"):
        ref = (TAGS if payload.get("ref_type") == "tag" else HEADS) + ref
    if event == "release" and ref:
        ref = TAGS + ref
    if event == "push" and not ref:
        return Unread(f"the message of {host} has no ref")
    return Push(
        host=host,
        kind="Delete" if payload.get("deleted") is True else _release_kind(payload, kinds[event]),
        repositories=_repositories(payload.get("repository")),
        refs=_refs([ref]),
        commit=_commit(_text(payload, "after") or _text(payload, "sha")),
        delivery=delivery,
        time=_release_time(payload) if event == "release" else "",
    )


def _gitlab(event: str, payload: dict[str, Any], delivery: str) -> Push | Unread:
    name = _text(payload, "object_kind") or _text(payload, "event_name")
    if name not in ("push", "tag_push", "repository_update", "release"):
        return _no_push("GitLab")
    refs = [_text(payload, "ref"), *_texts(payload.get("refs"))]
    changes = [change for change in _list(payload, "changes") if isinstance(change, dict)]
    refs += [_text(change, "ref") for change in changes]
    if name == "release":
        refs = [TAGS + _text(payload, "tag")]
    if not _refs(refs):
        return Unread(f"the message of GitLab ({event[:50]}) has no ref")
    after = _text(payload, "after") or _text(payload, "checkout_sha")
    gone = name != "release" and bool(after) and not after.strip("0")
    return Push(
        host="GitLab",
        kind="Delete" if gone else _release_kind(payload, "Release") if name == "release" else "Push",
        repositories=_repositories(payload.get("project"), payload.get("repository")),
        refs=_refs(refs),
        commit=_commit(after or _text(payload, "commit", "id")),
        delivery=delivery,
        time=_release_time(payload) if name == "release" else "",
    )


def _bitbucket(event: str, payload: dict[str, Any], delivery: str) -> Push | Unread:
    repositories = _repositories(payload.get("repository"))
    if event == "diagnostics:ping":
        return Push(host="Bitbucket", kind="Ping", delivery=delivery)
    if event == "repo:push":
        changes = [change for change in _list(payload, "push", "changes") if isinstance(change, dict)]
        sides = [_map(change, "new") or _map(change, "old") for change in changes]
        refs = [(TAGS if side.get("type") == "tag" else HEADS) + _text(side, "name") for side in sides if side]
        commits = [_text(_map(change, "new"), "target", "hash") for change in changes]
        gone = bool(changes) and not any(_map(change, "new") for change in changes)
    elif event in ("repo:refs_changed", "mirror:repo_synchronized"):
        changes = [change for change in _list(payload, "changes") if isinstance(change, dict)]
        refs = [_text(change, "ref", "id") or _text(change, "refId") for change in changes]
        commits = [_text(change, "toHash") for change in changes]
        gone = bool(changes) and all(change.get("type") == "DELETE" for change in changes)
    else:
        return _no_push("Bitbucket")
    return Push(
        host="Bitbucket",
        kind="Delete" if gone else "Push",
        repositories=repositories,
        refs=_refs(refs),
        commit=next((commit for commit in map(_commit, commits) if commit), ""),
        delivery=delivery,
    )


def _of_shape(payload: dict[str, Any], delivery: str) -> Push | Unread:
    """Read a message without an event header."""
    if isinstance(payload.get("app"), dict):
        return _argocd(payload["app"], delivery)
    if isinstance(payload.get("freight"), dict | list) or isinstance(payload.get("promotion"), dict):
        return _kargo(payload, delivery)
    if tag := _text(payload, "release", "tag_name"):
        refs, kind = [TAGS + tag], "Release"
    else:
        refs, kind = [_text(payload, "ref") or _text(payload, "revision")], "Push"
    commit = next((found for name in ("commit", "sha", "after") if (found := _commit(_text(payload, name)))), "")
    if not refs[0] and not commit:
        return Unread('no known message: send {"ref": "main"}, or set the event header of your Git host')
    if not commit and _COMMIT(refs[0]):
        refs, commit = [], refs[0]
    return Push(
        host="Generic",
        kind="Push" if kind == "Push" else _release_kind(payload, "Release"),
        repositories=_repositories(payload.get("repository"), payload.get("repo"), payload.get("repoURL")),
        refs=_refs(refs),
        commit=commit,
        delivery=delivery or _text(payload, "id") or _text(payload, "deliveryId"),
        time=_time(_text(payload, "time")) or (_release_time(payload) if kind == "Release" else ""),
    )


def _argocd(app: dict[str, Any], delivery: str) -> Push:
    sources = [_map(app, "spec", "source"), *(one for one in _list(app, "spec", "sources") if isinstance(one, dict))]
    wanted = _text(app, "metadata", "annotations", "git.ref")
    revision = _text(app, "status", "operationState", "syncResult", "revision") or _text(
        app, "status", "sync", "revision"
    )
    refs = [wanted] if wanted else [_text(source, "targetRevision") for source in sources]
    return Push(
        host="ArgoCD",
        kind="Notification",
        repositories=_repositories(*(source.get("repoURL") for source in sources)),
        refs=_refs(ref for ref in refs if ref != "HEAD"),
        commit=_commit(revision),
        delivery=delivery,
        time=_time(_text(app, "status", "operationState", "finishedAt")),
    )


def _kargo(payload: dict[str, Any], delivery: str) -> Push:
    freight = payload.get("freight") or _map(payload, "promotion").get("freight")
    pieces = [one for one in (freight if isinstance(freight, list) else [freight]) if isinstance(one, dict)]
    commits = [one for piece in pieces for one in _list(piece, "commits") if isinstance(one, dict)]
    refs = [_text(one, name) for one in commits for name in ("tag", "branch")]
    return Push(
        host="Kargo",
        kind="Promotion",
        repositories=_repositories(*(one.get("repoURL") for one in commits)),
        refs=_refs(refs),
        commit=next((found for one in commits if (found := _commit(_text(one, "id")))), ""),
        delivery=delivery or _text(payload, "id"),
    )


def _release_kind(payload: dict[str, Any], kind: PushKind) -> PushKind:
    """Return the kind of a message about a release: a deleted or edited release is not a new one."""
    action = _text(payload, "action")
    if action in ("deleted", "delete", "unpublished"):
        return "Delete"
    is_new = action not in ("edited", "updated", "update") and _map(payload, "release").get("draft") is not True
    return kind if kind != "Release" or is_new else "Create"


def _release_time(payload: dict[str, Any]) -> str:
    """Return when a release was published; it stays the same in later messages about it."""
    paths = (("release", "published_at"), ("release", "created_at"), ("released_at",), ("created_at",))
    return next((found for path in paths if (found := _time(_text(payload, *path)))), "")


def _time(text: str) -> str:
    """Return a time in UTC, so that times can be compared as texts; empty for anything else."""
    try:
        # GitLab writes 2026-01-31 12:00:00 UTC.
        read = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
        moment = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment.year >= _FIRST_YEAR else ""
    except (ValueError, OverflowError):
        return ""


def _no_push(host: Host) -> Unread:
    return Unread(f"not a push: {host} may send pushes only", broken=False)


def _repositories(*found: Any) -> tuple[str, ...]:
    """Return the URLs and names of a repository, which is a text, or an object with many of them."""
    return tuple(dict.fromkeys(name for one in found for name in _names(one)))[:_MOST_REFS]


def _names(one: Any) -> Iterator[str]:
    if isinstance(one, str) and one:
        yield one[:_LONGEST]
    if not isinstance(one, dict):
        return
    yield from (name for field in _URL_FIELDS if (name := _text(one, field)))
    yield from (
        name for link in _list(one, "links", "clone") if isinstance(link, dict) and (name := _text(link, "href"))
    )
    if name := _text(one, "links", "html", "href"):
        yield name
    if (key := _text(one, "project", "key")) and (slug := _text(one, "slug")):
        yield f"{key}/{slug}"


def _refs(found: Iterable[str]) -> tuple[str, ...]:
    named = (ref for ref in found if short_ref(ref))
    return tuple(dict.fromkeys(named))[:_MOST_REFS]


def _commit(text: str) -> str:
    return text if _COMMIT(text) and text.strip("0") else ""


def _text(found: Any, *path: str) -> str:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found[:_LONGEST] if isinstance(found, str) else ""


def _texts(found: Any) -> list[str]:
    return [one[:_LONGEST] for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _map(found: Any, *path: str) -> dict[str, Any]:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _list(found: Any, *path: str) -> list[Any]:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []
