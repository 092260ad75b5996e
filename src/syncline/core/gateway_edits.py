"""Decides about the edits of a gateway: which are refused, their branch and paths, and the commit message. Pure.

A pod is not trusted: every path is checked against the plan that the operator composed for the pod.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from syncline.core.edit_paths import EditRules, path_clash
from syncline.core.gateway_plan import MAX_BLOB_BYTES, ChangedFile, ChangeRequest, GatewayPlan
from syncline.core.gateway_templates import TemplateError, is_template, render

MAX_NAMED_FILES = 50
"""The maximum number of files that a commit message names."""
_SHOWN = 120
_LONGEST_BRANCH = 200
# The rules of `git check-ref-format`, without names that look like another form of a revision.
_UNSAFE = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^/|/$|\.lock(?:/|$)|(?:^|/)[.-]|\.$|^@$|\.(?:/|$)")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_PLAIN = re.compile(r"[^\w .@+-]", re.ASCII)
_HEADS = "refs/heads/"


class EditsRefused(Exception):  # noqa: N818 - an answer, not a fault
    """Edits that are not committed. `status` is an HTTP status; the message is for people, and names the file."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AcceptedEdit(Struct, frozen=True):
    """A file that is committed."""

    path: str
    """Its path in the data folder."""
    place: str
    """Its path in the repository."""
    size: int
    deleted: bool = False
    executable: bool = False


def accept_edits(plan: GatewayPlan, request: ChangeRequest) -> tuple[AcceptedEdit, ...]:
    """Check all edits of a request, before their content is read. Raises `EditsRefused`."""
    if plan.send_back is None or plan.action != "Publish":
        raise EditsRefused(403, "the IgnitionSync takes no edits of this gateway now")
    if not plan.send_back.branch:
        raise EditsRefused(422, "there is no valid branch for the edits: see the condition BidirectionalReady")
    if request.plan != plan.id or request.commit != plan.commit:
        raise EditsRefused(409, "the plan is no longer the newest: ask for the plan again")
    rules = EditRules(plan)
    if len(request.files) > rules.limits.max_files:
        raise EditsRefused(
            413, f"{len(request.files)} files are more than guardrails.maxFilesPerPR ({rules.limits.max_files})"
        )
    most = min(rules.limits.max_file_bytes, MAX_BLOB_BYTES)
    accepted = [_accepted(rules, file, most) for file in request.files]
    if len({one.path for one in accepted}) != len(accepted) or len({one.place for one in accepted}) != len(accepted):
        raise EditsRefused(400, "two of the files have the same path")
    written = [one.path for one in accepted if not one.deleted]
    removed = [one.path for one in accepted if one.deleted]
    if clash := path_clash(written, removed, rules.files):
        raise EditsRefused(422, clash[: 2 * _SHOWN])
    return tuple(accepted)


def _accepted(rules: EditRules, file: ChangedFile, most: int) -> AcceptedEdit:
    shown = repr(file.path[:_SHOWN])
    if why := rules.refusal(file.path):
        raise EditsRefused(422, f"{shown} is not committed: {why}")
    if not 0 <= file.size <= most:
        raise EditsRefused(413, f"{shown} has more than {most} bytes (guardrails.maxFileSize)")
    planned = rules.files.get(file.path)
    if file.deleted and planned is None:
        raise EditsRefused(422, f"{shown} is not committed: the commit does not have the file that was deleted")
    place = rules.place(file.path)
    assert place is not None  # noqa: S101 - a path without a place is refused above
    return AcceptedEdit(
        path=file.path,
        place=place,
        size=file.size,
        deleted=file.deleted,
        executable=planned is not None and planned.executable,
    )


def target_branch(template: str, values: Mapping[str, str], followed: Sequence[str]) -> str:
    """Return the branch for the edits of a gateway. It cannot be one of the `followed` refs. Raises `EditsRefused`.

    A template must begin with a fixed text. Otherwise a user who names a pod could choose any branch of the repository.
    """
    if is_template(template) and not template.partition("{{")[0].strip():
        raise EditsRefused(
            422, "targetBranch begins with a template: write a fixed text first, such as gateway-changes/"
        )
    try:
        branch = render(template, values)
    except TemplateError as error:
        raise EditsRefused(422, f"targetBranch: {error}") from None
    if why := branch_problem(branch):
        raise EditsRefused(422, f"targetBranch means {branch[:_SHOWN]!r}, which {why}")
    if is_followed(branch, followed):
        raise EditsRefused(
            422, f"targetBranch means {branch[:_SHOWN]!r}, which gateways follow: write another targetBranch"
        )
    return branch


def branch_problem(branch: str) -> str:
    """Return why a name is no valid name of a branch, or an empty text."""
    if not branch or len(branch.encode(errors="replace")) > _LONGEST_BRANCH:
        return f"is empty, or longer than {_LONGEST_BRANCH} bytes"
    if not branch.isprintable() or _UNSAFE.search(branch):
        return "is not a valid name of a branch"
    if branch.casefold() == "head" or branch.casefold().startswith("refs/") or _COMMIT.fullmatch(branch):
        return "could be read as another revision"
    return ""


def is_followed(branch: str, refs: Sequence[str]) -> bool:
    """Whether one of these refs is, or could be, the branch. Some servers ignore case."""
    name = branch.casefold()
    return any(ref.casefold().removeprefix(_HEADS) == name for ref in refs if ref)


def commit_message(
    plan: GatewayPlan, namespace: str, pod: str, edits: Sequence[AcceptedEdit], *, limit: int = MAX_NAMED_FILES
) -> str:
    """Return the message of a commit with edits."""
    files = "1 file" if len(edits) == 1 else f"{len(edits)} files"
    lines = [f"Edits on gateway {plain(plan.gateway)}: {files}", ""]
    lines += [f"- {'deleted' if one.deleted else 'written'}: {plain_path(one.place)}" for one in edits[:limit]]
    if len(edits) > limit:
        lines.append(f"- and {len(edits) - limit} more")
    lines += ["", f"Gateway: {plain(plan.gateway)}", f"Pod: {namespace}/{plain(pod)}"]
    lines += [f"IgnitionSync: {namespace}/{plain(plan.sync)}", f"Base-Commit: {plan.commit}", ""]
    return "\n".join(lines)


def author_of(plan: GatewayPlan, namespace: str) -> tuple[str, str]:
    """Return the author of a commit: the gateway, with an address that cannot exist."""
    return f"gateway {plain(plan.gateway)}", f"gateway@{plain(namespace) or 'namespace'}.invalid"


def plain(text: str) -> str:
    """Return a text of a pod without special characters."""
    return _PLAIN.sub("-", text)[:100].strip(" .-@") or "unnamed"


def plain_path(path: str) -> str:
    """Return a path for a message, without special characters."""
    return re.sub(r"[^\w ./@+-]", "-", path)[:300]
