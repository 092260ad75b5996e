"""Whether the admission policies that check authors are in force, and what that means for a sync.

A policy is in force when it and its binding are those that this version ships, or those of a newer version. What the
API server fills in by itself makes no difference; anything else does: a selector that leaves namespaces out, a binding
that only warns.
"""

import re
from typing import Any, Literal

from msgspec import Struct

POLICY_MISSING = "PolicyMissing"
AUTHOR_UNCHECKED = "AuthorUnchecked"
VERSION_LABEL = "app.kubernetes.io/version"
INSTALL = "run `syncline install` of this version"

Manifest = dict[str, Any]
Verdict = Literal["Checked", "Confirm", "PolicyMissing", "AuthorUnchecked"]

# What the API server adds to a policy that does not say it.
_DEFAULTS = {"matchPolicy": "Equivalent", "scope": "*"}


class Live(Struct, frozen=True):
    """A policy or a binding as it is in the cluster."""

    name: str
    uid: str
    generation: int
    created: str
    version: str
    spec: Manifest


def is_about_authors(name: str) -> bool:
    """Whether a policy of ours says what authors may do. What a TenantPolicy says is checked by the operator too."""
    return name.partition(".")[0].endswith(("-authors", "-removers"))


def effective(spec: Any) -> Any:
    """Return a spec without what makes no difference: defaults and what is empty."""
    if isinstance(spec, dict):
        parts = {key: effective(value) for key, value in spec.items() if _DEFAULTS.get(key) != value}
        return {key: value for key, value in parts.items() if value not in (None, {}, [])}
    return [effective(item) for item in spec] if isinstance(spec, list) else spec


def find_problem(shipped: Manifest, live: Live | None, version: str) -> str:
    """Say what is wrong with a policy or binding, and what to do; nothing where it is in force."""
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
    remembered: tuple[int, bool] | None,
    in_force: bool,
    predates: bool,
) -> Verdict:
    """Say whether the author of a spec was checked, of a sync that acts with the operator's own rights.

    `observed` and `reason` are what the status says, `remembered` is what an earlier pass of this process found: for
    which generation, and whether it was checked. `predates`: the sync is older than the policy, so that an edit which
    no pass of this process has followed may be older too. `Confirm`: it was checked if the policy is in force right
    now, read live.
    """
    if remembered is not None and remembered[0] == generation:
        known, refused = remembered[1], not remembered[1]
    else:
        known = observed == generation and reason != AUTHOR_UNCHECKED
        refused = observed == generation and reason == AUTHOR_UNCHECKED
    if known:
        return "Checked" if in_force else "PolicyMissing"
    if refused or not in_force or (predates and remembered is None):
        return "AuthorUnchecked"
    return "Confirm"


def _is_newer(theirs: str, ours: str) -> bool:
    return _numbers(theirs) > _numbers(ours)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(int(number) for number in found.groups()) if found else ()


def _is_strict(ours: Manifest, theirs: Manifest) -> bool:
    """Whether a policy of another version looks at all that ours does, and denies where it cannot decide."""
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
