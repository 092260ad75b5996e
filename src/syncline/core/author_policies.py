"""The admission policies that check authors: whether they are in force, and the effect on a sync.

A policy is in force if it and its binding are as this version, or a newer one, ships them. Defaults of the API server
make no difference. Anything else does: a selector that excludes namespaces, or a binding that only warns.
"""

import re
from typing import Any, Literal

from msgspec import Struct

POLICY_UNKNOWN = "PolicyUnknown"
AUTHOR_UNCHECKED = "AuthorUnchecked"
VERSION_LABEL = "app.kubernetes.io/version"
INSTALL = "run `syncline install` of this version"

Manifest = dict[str, Any]
Verdict = Literal["Checked", "Confirm", "PolicyMissing", "PolicyUnknown", "AuthorUnchecked"]
Enforcement = Literal["InForce", "Missing", "Unknown"]
"""Whether the policies of a kind are in force. Unknown: the API server refuses to show them at the moment."""

UNJUDGED = frozenset({POLICY_UNKNOWN, AUTHOR_UNCHECKED})
"""The reasons of Ready with which the author of the observed generation counts as unchecked."""

# The defaults of the API server for a policy.
_DEFAULTS = {"matchPolicy": "Equivalent", "scope": "*"}


class Live(Struct, frozen=True):
    """A policy or binding in the cluster."""

    name: str
    uid: str
    generation: int
    created: str
    version: str
    spec: Manifest


class JudgedSpec(Struct, frozen=True):
    """The verdict of an earlier reconcile of this process about the author of a spec."""

    generation: int
    checked: bool
    epoch: int = 0
    """The epoch of the policies. It ends when they were replaced without a watch event in between."""


def is_replaced_unseen(old: Live | None, new: Live | None) -> bool:
    """Whether a policy was deleted, or changed twice, between two observed states."""
    if old is None or new is None:
        return False
    return old.uid != new.uid or new.generation > old.generation + 1


def is_about_authors(name: str) -> bool:
    """Whether a policy of ours checks authors. The operator itself checks the limits of TenantPolicies too."""
    return name.partition(".")[0].endswith(("-authors", "-removers"))


def effective(spec: Any) -> Any:
    """Return a spec without values that make no difference: defaults and empty values."""
    if isinstance(spec, dict):
        parts = {key: effective(value) for key, value in spec.items() if _DEFAULTS.get(key) != value}
        return {key: value for key, value in parts.items() if value not in (None, {}, [])}
    return [effective(item) for item in spec] if isinstance(spec, list) else spec


def find_problem(shipped: Manifest, live: Live | None, version: str) -> str:
    """Return the problem with a policy or binding, with the remedy; empty if it is in force."""
    what = f"{shipped['kind']} {shipped['metadata']['name']}"
    if live is None:
        return f"{INSTALL}: the {what} does not exist"
    ours, theirs = effective(shipped["spec"]), effective(live.spec)
    if ours == theirs:
        return ""
    if not _is_newer(live.version, version):
        return f"delete the {what} and {INSTALL}: it is not the one that version {version} of the operator ships"
    if shipped["kind"] == "ValidatingAdmissionPolicy" and _is_strict(ours, theirs):
        return ""
    return f"delete the {what} and {INSTALL}: of version {live.version}, it does not deny everything that it should"


def judge(
    *,
    generation: int,
    observed: int | None,
    reason: str,
    remembered: JudgedSpec | None,
    enforcement: Enforcement,
    epoch: int,
    predates: bool,
) -> Verdict:
    """Return whether the author of a spec was checked, for a sync that acts with the operator's own rights.

    `observed` and `reason` are from the status. `predates`: the sync is older than the policy, so an edit may be older
    too, unless a reconcile of this process has followed the sync in this epoch of the policies. `Confirm`: the author
    was checked if a live read shows that the policy is in force. `AuthorUnchecked` is final for a generation. Therefore
    a generation has no verdict while it is not known whether the policy is in force: that is `PolicyUnknown`.
    """
    if remembered is not None and remembered.generation == generation:
        known, refused = remembered.checked, not remembered.checked
    else:
        known = observed == generation and reason not in UNJUDGED
        refused = observed == generation and reason == AUTHOR_UNCHECKED
    if known:
        return "Checked" if enforcement == "InForce" else "PolicyMissing"
    if refused or enforcement == "Missing":
        return "AuthorUnchecked"
    if enforcement == "Unknown":
        return "PolicyUnknown"
    is_followed = remembered is not None and remembered.epoch == epoch
    return "AuthorUnchecked" if predates and not is_followed else "Confirm"


def _is_newer(theirs: str, ours: str) -> bool:
    return _numbers(theirs) > _numbers(ours)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(int(number) for number in found.groups()) if found else ()


def _is_strict(ours: Manifest, theirs: Manifest) -> bool:
    """Whether a policy of another version covers everything that ours covers, and denies what it cannot decide."""
    if not theirs.get("validations") or any(theirs.get(key) != ours.get(key) for key in ("failurePolicy", "paramKind")):
        return False
    constraints = theirs.get("matchConstraints") or {}
    if constraints.keys() - {"resourceRules"}:
        return False
    return all(
        any(
            all(set(rule.get(key, ())) <= set(other.get(key, ())) for key in rule)
            for other in constraints["resourceRules"]
        )
        for rule in ours["matchConstraints"]["resourceRules"]
    )
