"""docs/requirements.md: each requirement has a test that exists, or a word on why it has none."""

import re

import pytest
from tests.examples.scene import ROOT

PAGE = ROOT / "docs" / "requirements.md"
KINDS = ("ConfigMapSync", "ConfigSync", "ManifestSync", "WorkspaceSync and SyncTarget", "IgnitionSync")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
# What may stand in the place of a test, or beside it, and says something of its own.
EXPLAINED = re.compile(r"\b(planned|differently: .{20,}|not by a test: .{20,})")


def sections() -> dict[str, list[list[str]]]:
    """Return the rows of the table of each document: requirement, place, proof."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("| ")]
        found[title] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return found


ROWS = [row for rows in sections().values() for row in rows]


def test_every_document_has_its_requirements() -> None:
    assert tuple(sections()) == KINDS
    assert all(len(rows) > 10 for rows in sections().values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_requirement_says_where_it_is_met_and_is_proven_or_explained(row: list[str]) -> None:
    assert len(row) == 3
    requirement, place, proof = row
    assert requirement
    assert place.startswith("[")
    assert NAMED.search(proof) or EXPLAINED.search(proof), "name a test, or say why there is none"
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(proof)
        if not (ROOT / path).exists() or f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert not missing


def test_no_test_is_named_in_a_way_that_is_not_checked() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("::") == len(NAMED.findall(text))
