"""What to do at one target, and why: `plan(desired, seen, ...) -> Action`. Pure and total.

The policy table of the API, in code. Where a decision needs the body of the object, the plan asks for it (`READ`) and
is made again; where the object may have changed meanwhile, the write carries a precondition and is planned again.
"""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field, structs

from syncline.api.common import GROUP, ManagementPolicy, TargetState
from syncline.core.carry import is_allocated
from syncline.core.digest import brief, leaves_digest
from syncline.core.fields import extra_paths, is_ours, lost_paths
from syncline.core.ignoring import compared_leaves, without
from syncline.core.keypolicies import KeyedMerge, KeyPolicies, KeyPolicy, merge_by_key
from syncline.core.objects import Content, Desired, Marker, Seen, Target
from syncline.core.ownership import MARKER, Owner, Standing, recognise, standing
from syncline.core.sanitize import is_state

# The base is an annotation; Kubernetes allows 256 KiB for all annotations of an object together.
MAX_BASE = 64 * 1024
NAMED = 3
METADATA_DIFFERS = "labels, annotations or marks differ from what was sent"
MARK_UNPROVEN = "MarkUnproven"
UNPROVEN_MESSAGE = (
    "restore the key of the marks, or run `syncline keys heal`; if the object is not this sync's, delete it: its mark "
    "is signed with a key that is not known, so it is neither changed nor removed"
)


class Verb(Enum):
    """What an action does to the object."""

    CREATE = "create"
    UPDATE = "update"
    ADOPT = "adopt"
    RECREATE = "recreate"
    DELETE = "delete"
    RELEASE = "release"
    READ = "read"
    LEAVE = "leave"


WRITES = frozenset(set(Verb) - {Verb.READ, Verb.LEAVE})


class Edit(Struct, frozen=True, kw_only=True):
    """The change that an update makes. `whole` replaces the content; otherwise `take` and `drop` name single values."""

    whole: bool = True
    take: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    digest: str
    base: Mapping[str, str] | None = None
    mode: str = "Created"
    extras: bool = False
    """Whether the object is ours to the last field (Overwrite): what we did not send is removed."""
    guard_version: bool = False
    """Whether the write must fail if anybody wrote since the object was seen."""
    metadata_only: bool = False
    """Whether the content is already as it should be."""
    unkept: tuple[str, ...] = ()
    """What is expected of the server not to keep of what is sent; the writer fills it in."""


class Action(Struct, frozen=True, kw_only=True):
    """One decision: what, where, why, and in which state the target is once it is done."""

    verb: Verb
    target: Target
    reason: str
    message: str
    state: TargetState = "Synced"
    edit: Edit | None = None
    drift: bool = False
    lost: tuple[str, ...] = ()
    """Of a repaired drift: the fields that somebody has taken, where they are known."""
    conflicts: tuple[str, ...] = field(default=())
    uid: str = ""
    """Of a removal: the very object that goes."""


class Policy(Struct, frozen=True, kw_only=True):
    """How a sync treats what it finds."""

    management: ManagementPolicy = "Sync"
    conflict: str = "SourceWins"
    key_policies: tuple[KeyPolicy, ...] = ()
    """For some keys of ConfigMaps and Secrets, in place of `conflict`."""

    @property
    def merges(self) -> bool:
        """Whether keys are decided one by one, which needs a record of what was sent for each."""
        return self.conflict == "Merge" or bool(self.key_policies)


def plan(
    desired: Desired, seen: Seen | None, owner: Owner, here: str, policy: Policy, *, rival: str = "", kept: bool = False
) -> Action:
    """Decide what to do at one target.

    `here` names the place (`ownership.place`); `rival` names the living sync with the better claim, if there is one:
    the owner of what was seen, or an older sync that wants the same absent object; `kept` says that, under Keep, this
    place has had its copy.
    """
    if seen is None:
        return _plan_absent(desired, policy, rival, kept=kept)
    if (first := _plan_first(desired, seen)) is not None:
        return first
    whose = standing(seen, owner, here)
    if whose is Standing.UNPROVEN:
        return _leave(desired, MARK_UNPROVEN, UNPROVEN_MESSAGE, "Conflict")
    seen = recognise(seen, owner, here)
    if desired.body is not None:
        seen = _judged(desired, seen, extras=policy.management == "Overwrite")
    elif desired.ignored:
        seen = _without_ignored(desired, seen)
    if whose in (Standing.OURS, Standing.RENEWABLE, Standing.FORMER):
        return _plan_ours(desired, seen, policy, former=whose is Standing.FORMER)
    if rival:
        return _leave(
            desired, "OwnedByOther", f"the object belongs to {rival}, which keeps it until it lets go", "Conflict"
        )
    if whose is Standing.FOREIGN:
        # What a stranger says of itself, in a marker or a base that it was copied with, is no record of ours.
        seen = structs.replace(seen, marker=None, base=None)
    return _plan_foreign(desired, seen, policy)


def _plan_first(desired: Desired, seen: Seen) -> Action | None:
    """Decide what goes before any comparison."""
    if seen.deleting:
        return _leave(
            desired, "Terminating", "the object is being deleted; it is written again once it is gone", "Pending"
        )
    if seen.reconcile_disabled:
        return _leave(
            desired, "ReconcileDisabled", "left alone: it is annotated syncline.dev/reconcile: Disabled", "Skipped"
        )
    if desired.ignored and desired.body is None and seen.leaves is None:
        return Action(verb=Verb.READ, target=desired.target, reason="Read", message="some values are not compared")
    return None


def _judged(desired: Desired, seen: Seen, *, extras: bool) -> Seen:
    """Tell whether an object of a kind that is not compared by content is as we sent it.

    Its digest is that of what was sent: it holds as long as the server counts every field of it as ours; and, where
    the object is ours to the last field, as long as nobody has added any.
    """
    marker = seen.marker
    if marker is None or desired.body is None or marker.digest != desired.digest:
        return seen
    fields = seen.fields or b"{}"
    # A record that somebody else has written is no record of ours.
    record = marker.unkept if marker.unkept and is_ours(fields, "metadata", "annotations", MARKER) else ()
    lost = lost_paths(without(desired.body.fields, desired.ignored), fields, record)
    if extras:
        lost += tuple(path for path in extra_paths(fields) if not is_allocated(seen.target.kind, path))
    return structs.replace(seen, digest="", lost=lost) if lost else seen


def _without_ignored(desired: Desired, seen: Seen) -> Seen:
    """Take a ConfigMap or Secret for what it says beside the values that are left to others."""
    leaves = compared_leaves(seen.leaves or {}, desired.ignored)
    return structs.replace(seen, leaves=leaves, digest=leaves_digest(leaves))


def _plan_absent(desired: Desired, policy: Policy, rival: str, *, kept: bool) -> Action:
    if rival:
        message = f"{rival} wants the same object, and is older: take the target out of one of the two"
        return _leave(desired, "ClaimedByOther", message, "Conflict")
    if policy.management == "Keep" and kept:
        return _leave(desired, "Kept", "it had its copy; Keep does not create a copy again that was deleted", "Skipped")
    base = desired.values() if policy.merges else None
    if base is not None and (refusal := base_too_large(desired, base)):
        return refusal
    return Action(
        verb=Verb.CREATE,
        target=desired.target,
        reason="Created",
        message="the target has no such object",
        edit=Edit(digest=desired.digest, base=base),
    )


def _plan_foreign(desired: Desired, seen: Seen, policy: Policy) -> Action:
    match policy.management:
        case "Keep":
            return _leave(desired, "NotOurs", "an object that is not ours exists; Keep leaves it as it is", "Skipped")
        case "Sync":
            return _leave(
                desired,
                "NotOurs",
                "an object of this name exists and is not ours; delete it, or set resourceManagementPolicy to Adopt or "
                "Overwrite to take it over",
                "Conflict",
            )
        case "Adopt":
            mode, message = "Adopted", "taken over from whoever made it (Adopt)"
        case "Overwrite":
            mode, message = "Overwritten", "made exactly the source (Overwrite)"
    return _converge(desired, seen, policy, Verb.ADOPT, mode=mode, why=("Adopted", message))


def _plan_ours(desired: Desired, seen: Seen, policy: Policy, *, former: bool) -> Action:
    marker = seen.marker
    assert marker is not None  # noqa: S101 - ours means that it has one
    # Digests of another key say nothing: whether somebody edited the copy is not known then.
    readable = not desired.key or marker.key == desired.key
    edited = seen.digest != marker.digest and readable
    equal = seen.digest == desired.digest and seen.type == desired.content.type
    if policy.management == "Keep":
        if equal:
            return _leave(desired, "Synced", "equal to the source", "Synced")
        return _leave(desired, "Kept", "differs from the source; Keep leaves it as it is", "Skipped")
    skips = policy.conflict == "Skip" and not policy.key_policies
    stays = skips or (policy.conflict == "Report" and marker.digest == desired.digest)
    if stays and not equal and (edited or not readable):
        return _plan_edited(desired, seen, policy, readable=readable)
    if former:
        reason, message = "Reowned", "written by an earlier sync of this name; owned again"
    elif edited and not equal and (policy.key_policies or policy.conflict != "Merge"):
        reason, message = "DriftRepaired", lost_message(seen.lost, seen.changed_by)
    elif not equal:
        reason, message = "SourceChanged", "the source has changed"
    else:
        reason, message = "MetadataRepaired", METADATA_DIFFERS
    action = _converge(desired, seen, policy, Verb.UPDATE, mode=marker.mode, why=(reason, message))
    if former or not _settled(action, desired, seen, marker):
        return action
    if action.conflicts:
        return _leave(desired, action.reason, action.message, action.state, action.conflicts)
    return _leave(desired, "Synced", "agrees with the source", "Synced")


def _plan_edited(desired: Desired, seen: Seen, policy: Policy, *, readable: bool) -> Action:
    if policy.conflict == "Report":
        message = f"{lost_message(seen.lost, seen.changed_by)}; driftPolicy Report leaves it until the source changes"
        return _leave(desired, "Drifted", message, "Conflict")
    if not readable:
        message = (
            "it differs from the source, and the record of what was sent cannot be read: its key is gone; delete the "
            "copy, or set conflictPolicy: SourceWins"
        )
        return _leave(desired, "RecordLost", message, "Conflict")
    by = f" by {seen.changed_by}" if seen.changed_by else ""
    message = f"the copy was changed{by}; conflictPolicy Skip leaves it until it equals the source or is deleted"
    return _leave(desired, "Edited", message, "Conflict")


def _settled(action: Action, desired: Desired, seen: Seen, marker: Marker) -> bool:
    """Whether the update would write what is there already."""
    edit = action.edit
    return (
        action.verb is Verb.UPDATE
        and edit is not None
        and edit.metadata_only
        and (marker.digest == edit.digest or edit.base is not None)
        and (not desired.key or marker.key == desired.key)
        and seen.base == edit.base
        and (seen.immutable or not desired.content.immutable)
        and not metadata_differs(desired, seen, extras=edit.extras)
    )


def _whole_edit(desired: Desired, seen: Seen, policy: Policy, verb: Verb, *, mode: str) -> Edit:
    # SourceWins may overwrite an edit made since; every other case must not.
    lax = policy.conflict == "SourceWins" and verb is Verb.UPDATE
    take, drop = _difference(desired, seen)
    return Edit(
        whole=not desired.ignored or desired.body is not None,
        take=take,
        drop=drop,
        digest=desired.digest,
        mode=mode,
        extras=policy.management == "Overwrite",
        guard_version=not lax,
        metadata_only=seen.digest == desired.digest,
    )


def _converge(desired: Desired, seen: Seen, policy: Policy, verb: Verb, *, mode: str, why: tuple[str, str]) -> Action:
    """Make the object agree with the source, in whole or merged."""
    reason, message = why
    extras = policy.management == "Overwrite"
    merged: KeyedMerge | None = None
    if policy.merges:
        leaves = (
            seen.leaves if seen.leaves is not None else (seen.content.leaves() if seen.content is not None else None)
        )
        if leaves is None:
            return Action(
                verb=Verb.READ, target=desired.target, reason="Read", message="a merge needs the object's values"
            )
        merged = merge_by_key(
            _base(desired, seen, leaves),
            desired.values(),
            leaves,
            KeyPolicies(policy.conflict, policy.key_policies),
            adopting=verb is Verb.ADOPT,
        )
        if refusal := base_too_large(desired, merged.base):
            return refusal
        edit = Edit(
            whole=False,
            take=merged.take,
            drop=merged.drop,
            digest=leaves_digest(merged.result),
            base=merged.base,
            mode=mode,
            extras=extras,
            guard_version=True,
            metadata_only=not merged.take and not merged.drop,
        )
    else:
        edit = _whole_edit(desired, seen, policy, verb, mode=mode)
    drift = reason == "DriftRepaired" and (merged is None or bool(merged.repaired))
    if merged is not None:
        reason, message = _merge_report((reason, message), merged, desired, seen)
    conflicts = (*merged.conflicts, *merged.edited) if merged is not None else ()
    state: TargetState = "Conflict" if conflicts else "Synced"
    retyped = seen.type != desired.content.type
    if retyped or (seen.immutable and not edit.metadata_only):
        return _plan_immutable(desired, seen, edit, state, conflicts)
    return Action(
        verb=verb,
        target=desired.target,
        reason=reason,
        message=message,
        state=state,
        edit=edit,
        drift=drift,
        lost=seen.lost if drift else (),
        conflicts=conflicts,
    )


def _merge_report(why: tuple[str, str], merged: KeyedMerge, desired: Desired, seen: Seen) -> tuple[str, str]:
    """Return reason and message of a merge."""
    reason, message = why
    changed = bool(merged.take or merged.drop)
    if reason == "DriftRepaired":
        message = lost_message(tuple(path.partition("/")[2] for path in merged.repaired), seen.changed_by)
        if not merged.repaired:
            reason, message = "SourceChanged", "the source has changed"
    if reason == "SourceChanged" and not changed:
        # The difference from the source is an edit made here, which a merge keeps.
        reason, message = "MetadataRepaired", METADATA_DIFFERS
    notes: list[str] = []
    if merged.edited:
        lost = seen.marker is not None and bool(desired.key) and seen.marker.key != desired.key
        reason = "RecordLost" if lost else "Edited"
        by = f" by {seen.changed_by}" if seen.changed_by else ""
        found = "differ from the source, and who changed them is not known" if lost else f"changed here{by}"
        notes.append(f"{found}; Skip leaves them until they equal the source: {names_of(merged.edited)}")
    if merged.conflicts:
        reason = "EditedOnBothSides"
        notes.insert(0, f"changed here and in the source, kept as it is here: {names_of(merged.conflicts)}")
    return reason, "; ".join(notes) or message


def _difference(desired: Desired, seen: Seen) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which values to write and to remove, where some are left to others; else all are."""
    if not desired.ignored or desired.body is not None:
        return (), ()
    wanted, there = desired.values(), seen.leaves or {}
    take = tuple(path for path, digest in wanted.items() if there.get(path) != digest)
    return take, tuple(path for path in there if path not in wanted)


def _plan_immutable(desired: Desired, seen: Seen, edit: Edit, state: TargetState, conflicts: tuple[str, ...]) -> Action:
    """Replace what cannot be changed, where we made it or may overwrite it."""
    what = "immutable and differs" if seen.type == desired.content.type else f"of the unchangeable type {seen.type}"
    if edit.mode == "Adopted" and not edit.extras:
        message = f"the adopted object is {what}; delete it, or set resourceManagementPolicy: Overwrite"
        return _leave(desired, "Immutable", message, "Failed")
    if not edit.whole and seen.content is None:
        return Action(verb=Verb.READ, target=desired.target, reason="Read", message="a merge needs the object's values")
    return Action(
        verb=Verb.RECREATE,
        target=desired.target,
        reason="Recreated",
        message=f"the object is {what}, so it is deleted and created again",
        state=state,
        edit=edit,
        conflicts=conflicts,
    )


def _base(desired: Desired, seen: Seen, leaves: Mapping[str, str]) -> Mapping[str, str]:
    """Return the recorded base; without one, an untouched copy is its own base, and anything else has none."""
    marker = seen.marker
    if marker is None or (desired.key and marker.key != desired.key):
        return {}
    if seen.base is not None:
        return seen.base
    return leaves if marker.digest == seen.digest else {}


def base_too_large(desired: Desired, base: Mapping[str, str]) -> Action | None:
    """Return the refusal to record a base that does not fit into an annotation; None where it fits."""
    size = sum(len(path) + len(digest) + 6 for path, digest in base.items())
    if size <= MAX_BASE:
        return None
    message = (
        "copy fewer keys, or write direction: OneWay and conflictPolicy: SourceWins or Skip without keyPolicies: the"
        f" record that a merge needs would have {size} bytes, more than {MAX_BASE}"
    )
    return _leave(desired, "BaseTooLarge", message, "Failed")


def metadata_differs(desired: Desired, seen: Seen, *, extras: bool) -> bool:
    """Whether labels or annotations that we send are missing or changed, or ones that we no longer send are there."""
    marker = seen.marker
    return _map_differs(desired.labels, seen.labels, marker.labels if marker else (), extras=extras) or _map_differs(
        desired.annotations, seen.annotations, marker.annotations if marker else (), extras=extras
    )


def _map_differs(wanted: Mapping[str, str], there: Mapping[str, str], sent: tuple[str, ...], *, extras: bool) -> bool:
    if any(there.get(key) != brief(value) for key, value in wanted.items()):
        return True
    gone = extra_keys(there) if extras else there.keys() & set(sent)
    return any(key not in wanted for key in gone) or set(sent) != wanted.keys()


def lost_message(lost: tuple[str, ...], by: str) -> str:
    """Say which fields were found changed, and by whom."""
    rest = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    what = f"{', '.join(lost[:NAMED])}{rest} " if lost else ""
    return f"{what}changed by {by or 'somebody'}"


def extra_keys(there: Mapping[str, str]) -> set[str]:
    """Return the labels or annotations that Overwrite may remove.

    Not what controllers note about the object itself, nor what its users tell us there.
    """
    return {key for key in there if not is_state(key) and not key.startswith(f"{GROUP}/")}


def names_of(paths: tuple[str, ...]) -> str:
    """Name the keys of some paths, for a person."""
    names = [path.partition("/")[2] for path in paths]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")  # noqa: PLR2004


def _leave(desired: Desired, reason: str, message: str, state: TargetState, conflicts: tuple[str, ...] = ()) -> Action:
    return Action(
        verb=Verb.LEAVE, target=desired.target, reason=reason, message=message, state=state, conflicts=conflicts
    )


def merged_content(desired: Desired, seen: Seen, edit: Edit) -> Content:
    """Return the content that the target is to have; a merge needs the body that was read."""
    if edit.whole:
        return desired.content
    assert seen.content is not None  # noqa: S101 - the plan asked for it
    parts: dict[str, dict[str, str]] = {"data": dict(seen.content.data), "binaryData": dict(seen.content.binary_data)}
    for path in edit.drop:
        part, _, name = path.partition("/")
        del parts[part][name]
    for path in edit.take:
        part, _, name = path.partition("/")
        parts[part][name] = desired.content.at(path)
    wanted = desired.content
    return Content(data=parts["data"], binary_data=parts["binaryData"], immutable=wanted.immutable, type=wanted.type)
