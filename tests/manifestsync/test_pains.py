"""What users of other replicators have suffered from, where no other test is nearer; and that the list is true."""

import re
from pathlib import Path

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "comparison.md"
PAINS = 17 + 16
"""Those of people who copy, and those of people who follow Git."""


def test_a_change_of_the_source_costs_one_read_and_one_write_a_target_and_no_list(world: Manifests) -> None:
    source = world.secret()
    targets = world.namespaces(*(f"n{number}" for number in range(8)))
    sync = world.msync("sync", source, into=targets)
    sync.becomes("Synced", synced=8)
    costs = []
    for number, password in enumerate(("blue", "green"), start=2):
        mark = world.mark()
        source.keep(password=password)
        until(lambda: sync.status["history"], lambda history, number=number: len(history) == number)
        costs.append(sorted(entry.verb for entry in world.requests(mark) if entry.resource == "secrets"))
    # A kind that another test has just removed makes each sync look again, once.
    assert ["get", *["patch"] * 8] in costs


def test_a_copy_that_a_deployment_tool_empties_is_filled_again_though_its_marks_are_left(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    placeholder = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app"}, "data": {"password": ""}}
    copy.sandbox.request("PATCH", f"{copy.path}?fieldManager=argocd&force=true", placeholder)
    copy.holds(password="red")
    assert "changed by argocd" in sync.tells("DriftRepaired")["note"]
    world.stays_quiet(sync)


def test_namespaces_that_come_and_go_in_quick_succession_harm_nobody(world: Manifests) -> None:
    source = world.secret()
    sync = world.msync("sync", source, into=[f"{world.name}-n*"])
    sync.becomes("Synced", desired=0)
    for round_ in range(2):
        for number in range(12):
            world.namespace(f"n{round_}-{number}")
        for number in range(0, 12, 2):
            world.namespace_object(f"{world.name}-n{round_}-{number}").delete()
    for round_ in range(2):
        for number in range(1, 12, 2):
            world.find("Secret", f"{world.name}-n{round_}-{number}").holds(password="red")
    for round_ in range(2):
        for number in range(0, 12, 2):
            world.namespace_object(f"{world.name}-n{round_}-{number}").gone()
    sync.becomes("Synced", desired=12, synced=12)


def test_a_source_that_is_edited_and_deleted_at_once_is_not_copied_first(world: Manifests) -> None:
    source = world.secret()
    targets = world.namespaces("a", "b", "c")
    sync = world.msync("sync", source, into=targets)
    sync.becomes("Synced", synced=3)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.keep(password="blue")
    source.delete()
    mark = world.mark()
    sync.change(suspend=False)
    for target in targets:
        world.find("Secret", target).gone()
    assert [write.split()[0] for write in world.copying(mark)] == ["delete"] * 3


def test_every_pain_has_an_answer_and_every_test_that_proves_one_exists() -> None:
    table = TABLE.read_text(encoding="utf-8").partition("## Pains, and the test that proves the answer")[2]
    rows = [line for line in table.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) == PAINS
    for row in rows:
        proofs = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert proofs, row
        for file, name in proofs:
            assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{name}"
