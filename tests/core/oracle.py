"""What the documentation promises, written a second time and in another way than the product does it."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from tests.core.world import OWNER, here

from syncline.core.objects import Desired, Seen
from syncline.core.ownership import Standing, standing
from syncline.core.plan import Policy

Leaves = Mapping[str, str]


def is_ours(seen: Seen) -> bool:
    return standing(seen, OWNER, here(seen.target)) in (Standing.OURS, Standing.FORMER)


def content_by_the_book(desired: Desired, seen: Seen | None, policy: Policy) -> Leaves | None:
    """Return the content after a pass, or None where the object is left exactly as it is."""
    wanted = desired.content.leaves()
    if seen is None:
        return wanted
    assert seen.content is not None
    there = seen.content.leaves()
    if seen.reconcile_disabled or policy.management == "Keep":
        return None
    if is_ours(seen):
        assert seen.marker is not None
        edited = seen.marker.digest != seen.digest
        if policy.conflict == "Skip" and not policy.key_policies and edited and there != wanted:
            return None
        adopted = seen.marker.mode == "Adopted"
    elif policy.management == "Sync":
        return None
    else:
        adopted = policy.management == "Adopt"
    after: Leaves = {}
    for name in ("SourceWins", "Skip", "Merge"):
        base, source, destination = (
            {path: value for path, value in side.items() if conflict_by_the_book(path, policy) == name}
            for side in (_base(seen, there), wanted, there)
        )
        skipped = name == "Skip" and bool(policy.key_policies) and is_ours(seen) and destination not in (base, source)
        merged = merge_by_the_book(base, source, destination) if name == "Merge" else source
        after = {**after, **(destination if skipped else merged)}
    if seen.immutable and after != there and adopted and policy.management != "Overwrite":
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


def _base(seen: Seen, there: Leaves) -> Leaves:
    if standing(seen, OWNER, here(seen.target)) is Standing.FOREIGN:
        return {}  # whatever it says of itself
    if seen.base is not None:
        return seen.base
    untouched = seen.marker is not None and seen.marker.digest == seen.digest
    return there if untouched else {}
