"""The plan for one target, with its reason: `plan(desired, observed, ...) -> Action`. Pure and total.

It is the policy table of the API, in code. If a decision needs the body of the object, the action is `READ`, and the
caller plans again. If the object may have changed since it was observed, the write has a precondition, and is planned
again after a conflict.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field, structs

from syncline.api.common import GROUP, ManagementPolicy, TargetState
from syncline.core.digest import brief, combined_digest
from syncline.core.extra_values import extras_unknown, without_extras
from syncline.core.fields import extra_paths, is_ours, lost_paths
from syncline.core.ignored_fields import compared_values, remove_paths
from syncline.core.keypolicies import MOST_COMPARISONS, KeyedMerge, KeyPolicies, KeyPolicy, merge_by_key
from syncline.core.objects import Content, Desired, Marker, Observed, Target
from syncline.core.ownership import MARKER, Owner, Ownership, ownership_of, recognise
from syncline.core.sanitize import is_controller_state
from syncline.core.source_history import is_another
from syncline.core.strip import is_allocated

# The base is an annotation; Kubernetes allows 256 KiB for all annotations of an object together.
MAX_BASE = 64 * 1024
NAMED = 3
METADATA_DIFFERS = "labels, annotations or marks differ from what was sent"
MARK_UNPROVEN = "MarkUnproven"
REVISION_TRACKED = "RevisionTracked"
REVISION_MESSAGE = "the mark named an earlier revision of the source; the content is the same"
UNPROVEN_MESSAGE = (
    "restore the key of the marks, or run `syncline keys heal`; if the object is not this sync's, delete it: its mark "
    "is signed with a key that is not known, so it is neither changed nor removed"
)


class Verb(Enum):
    """The effect of an action on the object."""

    CREATE = "create"
    UPDATE = "update"
    ADOPT = "adopt"
    RECREATE = "recreate"
    DELETE = "delete"
    RELEASE = "release"
    READ = "read"
    LEAVE = "leave"


_OWN = frozenset({Ownership.OURS, Ownership.RENEWABLE, Ownership.PREVIOUS})
WRITES = frozenset(set(Verb) - {Verb.READ, Verb.LEAVE})


class Change(Struct, frozen=True, kw_only=True):
    """The change that a write makes: all content with `replace_all`, otherwise the values in `set` and `unset`."""

    replace_all: bool = True
    set: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    digest: str
    base: Mapping[str, str] | None = None
    mode: str = "Created"
    exact: bool = False
    """Whether the object becomes exactly what we send (Overwrite): all other fields are removed."""
    guard_version: bool = False
    """Whether the write must fail if the object has changed since it was observed."""
    metadata_only: bool = False
    """Whether the content needs no change."""
    marks_only: bool = False
    """Whether only the revision in the marker is written."""
    unkept: tuple[str, ...] = ()
    """Fields that the server is expected not to keep; the writer sets it."""
    resolved: str = ""
    """A digest of the annotation of the source that has resolved conflicts, if it is still there."""


class Action(Struct, frozen=True, kw_only=True):
    """One decision: what to do at a target, why, and the state of the target afterwards."""

    verb: Verb
    target: Target
    reason: str
    message: str
    state: TargetState = "Synced"
    change: Change | None = None
    drift: bool = False
    lost_fields: tuple[str, ...] = ()
    """For a repair of drift: the changed fields, if they are known."""
    conflicts: tuple[str, ...] = field(default=())
    uid: str = ""
    """For a removal: the UID of the object."""
    after: Mapping[str, Any] | None = None
    """For a preview of a pair: the copy as the write would send it."""


class Policy(Struct, frozen=True, kw_only=True):
    """How a sync treats existing objects and changes by others."""

    management: ManagementPolicy = "Sync"
    conflict: str = "SourceWins"
    key_policies: tuple[KeyPolicy, ...] = ()
    """The policies of single keys of ConfigMaps and Secrets, instead of `conflict`."""
    track_revision: bool = False
    """Whether the marker always names the present revision of the source, even if the content is the same."""
    keep_extras: bool = False
    """Whether keys of ConfigMaps and Secrets that others added stay; in other kinds such fields always stay."""
    exact: bool = False
    """Whether our own objects lose all fields that we do not send. Unlike Overwrite, it adopts no objects."""

    @property
    def takes_over(self) -> bool:
        """Whether unmanaged objects are taken over."""
        return self.management in ("Adopt", "Overwrite")

    @property
    def keeps_extras(self) -> bool:
        """Whether values that others added stay."""
        return self.keep_extras and not self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether an object becomes exactly what we send."""
        return self.exact or self.management == "Overwrite"

    @property
    def merges(self) -> bool:
        """Whether keys are decided one by one, which needs a record of what was sent for each."""
        return self.conflict == "Merge" or bool(self.key_policies)


def plan(
    desired: Desired,
    observed: Observed | None,
    owner: Owner,
    object_id: str,
    policy: Policy,
    *,
    competing_owner: str = "",
    created_once: bool = False,
) -> Action:
    """Decide what to do at one target.

    `object_id` names the target (`ownership.object_id_of`). `competing_owner` names the existing sync with the better
    claim, if there is one: the owner of the observed object, or an older sync that claims the same absent object.
    `created_once`: the target has had its object, with the policy Keep.
    """
    if observed is None:
        return _plan_absent(desired, policy, competing_owner, created_once=created_once)
    if (first := _plan_guards(desired, observed, policy)) is not None:
        return first
    whose = ownership_of(observed, owner, object_id)
    if (unknown := _plan_unknown(desired, observed, policy, whose)) is not None:
        return unknown
    observed = recognise(observed, owner, object_id)
    observed = _compared(desired, observed, policy)
    if whose in _OWN:
        return _plan_ours(desired, observed, policy, previous=whose is Ownership.PREVIOUS)
    if competing_owner:
        return _leave(
            desired,
            "OwnedByOther",
            f"the object belongs to {competing_owner}, which keeps it until it lets go",
            "Conflict",
        )
    if whose is Ownership.FOREIGN:
        # The marker or base of an unmanaged object was copied with it, and is not our record.
        observed = structs.replace(observed, marker=None, base=None)
    return _plan_foreign(desired, observed, policy)


def _plan_unknown(desired: Desired, observed: Observed, policy: Policy, whose: Ownership) -> Action | None:
    """Return the action for an object with too little cached state for a comparison; None for any other."""
    if whose is Ownership.UNPROVEN:
        return _leave(desired, MARK_UNPROVEN, UNPROVEN_MESSAGE, "Conflict")
    if observed.trimmed and (whose in _OWN or (whose is Ownership.FOREIGN and policy.takes_over)):
        return _read(desired, "not all of the object is cached")
    return None


def _plan_guards(desired: Desired, observed: Observed, policy: Policy) -> Action | None:
    """Return the action that precedes any comparison, if there is one."""
    if observed.deleting:
        return _leave(
            desired, "Terminating", "the object is being deleted; it is written again once it is gone", "Pending"
        )
    if observed.reconcile_disabled:
        return _leave(
            desired, "ReconcileDisabled", "left alone: it is annotated syncline.dev/reconcile: Disabled", "Skipped"
        )
    if desired.ignored and desired.body is None and observed.value_digests is None:
        return _read(desired, "some values are not compared")
    if policy.keeps_extras and extras_unknown(desired, observed):
        return _read(desired, "who added which value is not known")
    return None


def _read(desired: Desired, why: str) -> Action:
    return Action(verb=Verb.READ, target=desired.target, reason="Read", message=why)


def _compared(desired: Desired, observed: Observed, policy: Policy) -> Observed:
    """Return the object for the comparison: with its drift, or without the values that are left to others."""
    if desired.body is not None:
        return _detect_drift(desired, observed, exact=policy.is_exact)
    if desired.ignored:
        observed = _without_ignored(desired, observed)
    return without_extras(desired, observed) if policy.keeps_extras else observed


def _detect_drift(desired: Desired, observed: Observed, *, exact: bool) -> Observed:
    """Return the object with the fields that have drifted, for a kind that is not compared by content.

    Its digest is from the last write. It holds while the server counts every sent field as ours and, with `exact`,
    while others have added no field.
    """
    marker = observed.marker
    if marker is None or desired.body is None or marker.digest != desired.digest:
        return observed
    fields = observed.fields or b"{}"
    # A record that others have written is not our record.
    record = marker.unkept if marker.unkept and is_ours(fields, "metadata", "annotations", MARKER) else ()
    lost = lost_paths(remove_paths(desired.body.fields, desired.ignored), fields, record)
    if exact:
        lost += tuple(path for path in extra_paths(fields) if not is_allocated(observed.target.kind, path))
    return structs.replace(observed, digest="", lost_fields=lost) if lost else observed


def _without_ignored(desired: Desired, observed: Observed) -> Observed:
    """Return a ConfigMap or Secret without the ignored values."""
    digests = compared_values(observed.value_digests or {}, desired.ignored)
    return structs.replace(observed, value_digests=digests, digest=combined_digest(digests))


def _plan_absent(desired: Desired, policy: Policy, competing_owner: str, *, created_once: bool) -> Action:
    if competing_owner:
        message = f"{competing_owner} wants the same object, and is older: take the target out of one of the two"
        return _leave(desired, "ClaimedByOther", message, "Conflict")
    if policy.management == "Keep" and created_once:
        return _leave(desired, "Kept", "it had its copy; Keep does not create a copy again that was deleted", "Skipped")
    base = desired.digests_by_path() if policy.merges else None
    if base is not None and (refusal := base_too_large(desired, base)):
        return refusal
    return Action(
        verb=Verb.CREATE,
        target=desired.target,
        reason="Created",
        message="the target has no such object",
        change=Change(digest=desired.digest, base=base),
    )


def _plan_foreign(desired: Desired, observed: Observed, policy: Policy) -> Action:
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
            mode, message = "Adopted", "taken over from its former manager (Adopt)"
        case "Overwrite":
            mode, message = "Overwritten", "made exactly the source (Overwrite)"
    return _plan_update(desired, observed, policy, Verb.ADOPT, mode=mode, why=("Adopted", message))


def _plan_ours(desired: Desired, observed: Observed, policy: Policy, *, previous: bool) -> Action:
    marker = observed.marker
    assert marker is not None  # noqa: S101 - ours means that it has one
    # Digests with another key cannot be compared, so it is not known whether the copy was edited.
    readable = not desired.key or marker.key == desired.key
    edited = observed.digest != marker.digest and readable
    equal = observed.digest == desired.digest and observed.type == desired.content.type
    if policy.management == "Keep":
        if equal:
            return _leave(desired, "Synced", "equal to the source", "Synced")
        return _leave(desired, "Kept", "differs from the source; Keep leaves it as it is", "Skipped")
    skips = policy.conflict == "Skip" and not policy.key_policies
    stays = skips or (policy.conflict == "Report" and marker.digest == desired.digest)
    if stays and not equal and (edited or not readable):
        return _plan_edited(desired, observed, policy, readable=readable)
    if previous:
        reason, message = "Reowned", "written by an earlier sync of this name; owned again"
    elif edited and not equal and (policy.key_policies or policy.conflict != "Merge"):
        reason, message = "DriftRepaired", lost_message(observed.lost_fields, observed.changed_by)
    elif not equal:
        reason, message = "SourceChanged", "the source has changed"
    else:
        reason, message = "MetadataRepaired", METADATA_DIFFERS
    action = _plan_update(desired, observed, policy, Verb.UPDATE, mode=marker.mode, why=(reason, message))
    if previous or not _is_noop(action, desired, observed, marker):
        return action
    is_earlier = policy.track_revision and marker.revision != desired.revision
    if is_earlier or is_another(marker.source_version, desired.source_version):
        return _renewed(action)
    why = (action.reason, action.message) if action.conflicts else ("Synced", "agrees with the source")
    return _leave(desired, *why, action.state, action.conflicts)


def _plan_edited(desired: Desired, observed: Observed, policy: Policy, *, readable: bool) -> Action:
    if policy.conflict == "Report":
        drift = lost_message(observed.lost_fields, observed.changed_by)
        message = f"{drift}; driftPolicy Report leaves it until the source changes"
        return _leave(desired, "Drifted", message, "Conflict")
    if not readable:
        message = (
            "it differs from the source, and the record of what was sent cannot be read: its key is gone; delete the "
            "copy, or set conflictPolicy: SourceWins"
        )
        return _leave(desired, "RecordLost", message, "Conflict")
    by = f" by {observed.changed_by}" if observed.changed_by else ""
    message = f"the copy was changed{by}; conflictPolicy Skip leaves it until it equals the source or is deleted"
    return _leave(desired, "Edited", message, "Conflict")


def _is_noop(action: Action, desired: Desired, observed: Observed, marker: Marker) -> bool:
    """Whether the update changes nothing."""
    change = action.change
    return (
        action.verb is Verb.UPDATE
        and change is not None
        and change.metadata_only
        and (marker.digest == change.digest or change.base is not None)
        and (not desired.key or marker.key == desired.key)
        and observed.base == change.base
        and (observed.immutable or not desired.content.immutable)
        and not metadata_differs(desired, observed, exact=change.exact)
    )


def _renewed(action: Action) -> Action:
    """Return an update that changes nothing else as one that writes the revision into the mark."""
    assert action.change is not None  # noqa: S101 - every update has one
    why = (action.reason, action.message) if action.conflicts else (REVISION_TRACKED, REVISION_MESSAGE)
    change = structs.replace(action.change, marks_only=True, exact=False)
    return structs.replace(action, reason=why[0], message=why[1], change=change)


def _whole_edit(desired: Desired, observed: Observed, policy: Policy, verb: Verb, *, mode: str) -> Change:
    # SourceWins may overwrite a later edit. All other cases must not, and none may overwrite values that others add.
    lax = policy.conflict == "SourceWins" and verb is Verb.UPDATE and not policy.keeps_extras
    take, drop = _difference(desired, observed)
    return Change(
        replace_all=_replaces_all(desired, observed),
        set=take,
        unset=drop,
        digest=desired.digest,
        mode=mode,
        exact=policy.is_exact,
        guard_version=not lax,
        metadata_only=observed.digest == desired.digest,
    )


def _plan_update(
    desired: Desired, observed: Observed, policy: Policy, verb: Verb, *, mode: str, why: tuple[str, str]
) -> Action:
    """Plan a write that makes the object equal to the source, or merges the two."""
    reason, message = why
    extras = policy.is_exact
    merged: KeyedMerge | None = None
    if policy.merges:
        found = _merge(desired, observed, policy, adopting=verb is Verb.ADOPT)
        if isinstance(found, Action):
            return found
        merged = found
        change = Change(
            replace_all=False,
            set=merged.set,
            unset=merged.unset,
            digest=combined_digest(merged.result),
            base=merged.base,
            mode=mode,
            exact=extras,
            guard_version=True,
            metadata_only=not merged.set and not merged.unset,
        )
    else:
        change = _whole_edit(desired, observed, policy, verb, mode=mode)
    drift = reason == "DriftRepaired" and (merged is None or bool(merged.repaired))
    if merged is not None:
        reason, message = _merge_report((reason, message), merged, desired, observed)
    conflicts = (*merged.conflicts, *merged.edited) if merged is not None else ()
    state: TargetState = "Conflict" if conflicts else "Synced"
    retyped = observed.type != desired.content.type
    if retyped or (observed.immutable and not change.metadata_only):
        overwrites = policy.management == "Overwrite"
        return _plan_immutable(desired, observed, change, state, conflicts, overwrites=overwrites)
    return Action(
        verb=verb,
        target=desired.target,
        reason=reason,
        message=message,
        state=state,
        change=change,
        drift=drift,
        lost_fields=observed.lost_fields if drift else (),
        conflicts=conflicts,
    )


def _merge(desired: Desired, observed: Observed, policy: Policy, *, adopting: bool) -> KeyedMerge | Action:
    """Merge key by key; return an action if that needs the body, or is refused."""
    digests = observed.value_digests
    if digests is None and observed.content is not None:
        digests = observed.content.value_digests()
    if digests is None:
        return _read(desired, "a merge needs the object's values")
    policies, wanted = KeyPolicies(policy.conflict, policy.key_policies), desired.digests_by_path()
    if refusal := too_many_comparisons(desired, policies.globs, len(digests)):
        return refusal
    merged = merge_by_key(_base(desired, observed, digests), wanted, digests, policies, adopting=adopting)
    return base_too_large(desired, merged.base) or merged


def _merge_report(why: tuple[str, str], merged: KeyedMerge, desired: Desired, observed: Observed) -> tuple[str, str]:
    """Return reason and message of a merge."""
    reason, message = why
    changed = bool(merged.set or merged.unset)
    if reason == "DriftRepaired":
        message = lost_message(tuple(path.partition("/")[2] for path in merged.repaired), observed.changed_by)
        if not merged.repaired:
            reason, message = "SourceChanged", "the source has changed"
    if reason == "SourceChanged" and not changed:
        # The difference from the source is an edit of the copy, which a merge keeps.
        reason, message = "MetadataRepaired", METADATA_DIFFERS
    notes: list[str] = []
    if merged.edited:
        lost = observed.marker is not None and bool(desired.key) and observed.marker.key != desired.key
        reason = "RecordLost" if lost else "Edited"
        by = f" by {observed.changed_by}" if observed.changed_by else ""
        found = "differ from the source, and who changed them is not known" if lost else f"changed here{by}"
        notes.append(f"{found}; Skip leaves them until they equal the source: {names_of(merged.edited)}")
    if merged.conflicts:
        reason = "EditedOnBothSides"
        notes.insert(0, f"changed here and in the source, kept as it is here: {names_of(merged.conflicts)}")
    return reason, "; ".join(notes) or message


def _replaces_all(desired: Desired, observed: Observed) -> bool:
    """Whether a write replaces the whole content: no value is ignored, and none is another's."""
    return desired.body is not None or not (desired.ignored or observed.has_extras)


def _difference(desired: Desired, observed: Observed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values to write and to remove, if other values stay; else none, because all are replaced."""
    if _replaces_all(desired, observed):
        return (), ()
    wanted, there = desired.digests_by_path(), observed.value_digests or {}
    take = tuple(path for path, digest in wanted.items() if there.get(path) != digest)
    return take, tuple(path for path in there if path not in wanted)


def _plan_immutable(
    desired: Desired,
    observed: Observed,
    change: Change,
    state: TargetState,
    conflicts: tuple[str, ...],
    *,
    overwrites: bool,
) -> Action:
    """Recreate an immutable object, if we created it or may overwrite it."""
    what = (
        "immutable and differs"
        if observed.type == desired.content.type
        else f"of the unchangeable type {observed.type}"
    )
    if change.mode == "Adopted" and not overwrites:
        message = f"the adopted object is {what}; delete it, or set resourceManagementPolicy: Overwrite"
        return _leave(desired, "Immutable", message, "Failed")
    if not change.replace_all and observed.content is None:
        return _read(desired, "a merge needs the object's values")
    return Action(
        verb=Verb.RECREATE,
        target=desired.target,
        reason="Recreated",
        message=f"the object is {what}, so it is deleted and created again",
        state=state,
        change=change,
        conflicts=conflicts,
    )


def _base(desired: Desired, observed: Observed, digests: Mapping[str, str]) -> Mapping[str, str]:
    """Return the recorded base; without one, an unchanged object is its own base, and any other object has none."""
    marker = observed.marker
    if marker is None or (desired.key and marker.key != desired.key):
        return {}
    if observed.base is not None:
        return observed.base
    return digests if marker.digest == observed.digest else {}


def base_too_large(desired: Desired, base: Mapping[str, str]) -> Action | None:
    """Return the refusal of a base that is too large for an annotation; None if it fits."""
    size = sum(len(path) + len(digest) + 6 for path, digest in base.items())
    if size <= MAX_BASE:
        return None
    message = (
        "copy fewer keys, or write direction: OneWay and conflictPolicy: SourceWins or Skip without keyPolicies: the"
        f" record that a merge needs would have {size} bytes, more than {MAX_BASE}"
    )
    return _leave(desired, "BaseTooLarge", message, "Failed")


def too_many_comparisons(desired: Desired, globs: int, keys: int) -> Action | None:
    """Return the refusal of a copy with too many keys, which others may have added, for its globs; None if it fits."""
    if globs * keys <= MOST_COMPARISONS:
        return None
    message = (
        f"remove keys from the copy, which has {keys}, or write fewer globs than {globs}: together these are more than"
        f" {MOST_COMPARISONS} comparisons"
    )
    return _leave(desired, "InvalidContent", message, "Failed")


def metadata_differs(desired: Desired, observed: Observed, *, exact: bool) -> bool:
    """Whether labels or annotations that we send are missing or changed, or earlier ones still exist."""
    marker = observed.marker
    return _map_differs(desired.labels, observed.labels, marker.labels if marker else (), exact=exact) or _map_differs(
        desired.annotations, observed.annotations, marker.annotations if marker else (), exact=exact
    )


def _map_differs(wanted: Mapping[str, str], there: Mapping[str, str], sent: tuple[str, ...], *, exact: bool) -> bool:
    if any(there.get(key) != brief(value) for key, value in wanted.items()):
        return True
    gone = extra_keys(there) if exact else there.keys() & set(sent)
    return any(key not in wanted for key in gone) or set(sent) != wanted.keys()


def lost_message(lost: tuple[str, ...], by: str) -> str:
    """Return a message with the changed fields, and their manager."""
    rest = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    what = f"{', '.join(lost[:NAMED])}{rest} " if lost else ""
    return f"{what}changed by {by or 'somebody'}"


def extra_keys(there: Mapping[str, str]) -> set[str]:
    """Return the labels or annotations that Overwrite may remove.

    Annotations of controllers about the object itself stay, and so do requests of users to Syncline.
    """
    return {key for key in there if not is_controller_state(key) and not key.startswith(f"{GROUP}/")}


def names_of(paths: tuple[str, ...]) -> str:
    """Return the names of the keys of some paths, for messages."""
    names = [path.partition("/")[2] for path in paths]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")  # noqa: PLR2004


def _leave(desired: Desired, reason: str, message: str, state: TargetState, conflicts: tuple[str, ...] = ()) -> Action:
    return Action(
        verb=Verb.LEAVE, target=desired.target, reason=reason, message=message, state=state, conflicts=conflicts
    )


def merged_content(desired: Desired, observed: Observed, change: Change) -> Content:
    """Return the content that the target will have; a merge needs the body that was read."""
    if change.replace_all:
        return desired.content
    assert observed.content is not None  # noqa: S101 - the plan asked for it
    parts: dict[str, dict[str, str]] = {
        "data": dict(observed.content.data),
        "binaryData": dict(observed.content.binary_data),
    }
    for path in change.unset:
        part, _, name = path.partition("/")
        del parts[part][name]
    for path in change.set:
        part, _, name = path.partition("/")
        parts[part][name] = desired.content.value_at(path)
    wanted = desired.content
    return Content(data=parts["data"], binary_data=parts["binaryData"], immutable=wanted.immutable, type=wanted.type)
