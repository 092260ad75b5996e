"""Tables of kinds as CEL: an admission policy cannot find the resource of a kind."""


def cel(kinds: dict[str, str]) -> str:
    """Return a table as CEL."""
    return "{\n" + ",\n".join(f"'{kind}': '{resource}'" for kind, resource in kinds.items()) + "\n}"
