"""What the documentation promises, written a second time and in another way than the product does it."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from tests.core.world import OWNER, here

from syncline.core.objects import Desired, Observed
from syncline.core.ownership import Ownership, ownership_of
from syncline.core.plan import Policy

Leaves = Mapping[str, str]


def is_ours(observed: Observed) -> bool:
    return ownership_of(observed, OWNER, here(observed.target)) in (Ownership.OURS, Ownership.PREVIOUS)


def content_by_the_book(desired: Desired, observed: Observed | None, policy: Policy) -> Leaves | None:
    """Return the content after a pass, or None where the object is left exactly as it is."""
    wanted = desired.content.value_digests()
    if observed is None:
        return wanted
    assert observed.content is not None
    there = observed.content.value_digests()
    if observed.reconcile_disabled or policy.management == "Keep":
        return None
    if is_ours(observed):
        assert observed.marker is not None
        edited = observed.marker.digest != observed.digest
        if policy.conflict == "Skip" and not policy.key_policies and edited and there != wanted:
            return None
        adopted = observed.marker.mode == "Adopted"
    elif policy.management == "Sync":
        return None
    else:
        adopted = policy.management == "Adopt"
    after: Leaves = {}
    for name in ("SourceWins", "Skip", "Merge"):
        base, source, destination = (
            {path: value for path, value in side.items() if conflict_by_the_book(path, policy) == name}
            for side in (_base(observed, there), wanted, there)
        )
        skipped = (
            name == "Skip" and bool(policy.key_policies) and is_ours(observed) and destination not in (base, source)
        )
        merged = merge_by_the_book(base, source, destination) if name == "Merge" else source
        after = {**after, **(destination if skipped else merged)}
    if observed.immutable and after != there and adopted and policy.management != "Overwrite":
        return None
    return after


def conflict_by_the_book(path: str, policy: Policy) -> str:
    """Return the conflict policy of one key."""
    for rule in policy.key_policies:
        if any(fnmatchcase(path.split("/")[1], glob) for glob in rule.keys):
            return rule.policy
    return policy.conflict


def merge_by_the_book(base: Leaves, source: Leaves, destination: Leaves) -> Leaves:
    """What was changed at the destination stays; everything else is the source's; a key is in one map at most."""
    edited = {path for path in {*base, *destination} if destination.get(path) != base.get(path)}
    kept = {path: value for path, value in destination.items() if path in edited}
    taken = {path: value for path, value in source.items() if path not in edited and other_map(path) not in kept}
    return kept | taken


def other_map(path: str) -> str:
    part, _, key = path.partition("/")
    return f"binaryData/{key}" if part == "data" else f"data/{key}"


def _base(observed: Observed, there: Leaves) -> Leaves:
    if ownership_of(observed, OWNER, here(observed.target)) is Ownership.FOREIGN:
        return {}  # whatever it says of itself
    if observed.base is not None:
        return observed.base
    untouched = observed.marker is not None and observed.marker.digest == observed.digest
    return there if untouched else {}
