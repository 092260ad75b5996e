"""The deletion guard: large deletions wait for the confirmation of a person."""

GUARD_COUNT = 10
GUARD_SHARE = 0.5


def needs_confirmation(removals: int, owned: int, recent: int = 0) -> bool:
    """Whether this many removals need a confirmation. `recent` removals count as part of the same deletion."""
    return bool(removals) and removals + recent > max(GUARD_COUNT, GUARD_SHARE * (owned + recent))
