"""What the operator logs and counts of targets that are not in agreement."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.telemetry.test_series import Scrape

from syncline.sandbox import Sandbox
from syncline.telemetry import metrics
from syncline.testing.operator import OperatorProcess

TAKEN = 12


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess) -> Iterator[Manifests]:
    """Namespaces of this test's own, in a cluster where the operator runs."""
    world = Manifests(sandbox)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


def lines(operator: OperatorProcess, world: Manifests, event: str) -> list[dict[str, Any]]:
    """Return the log lines of an event about the syncs of a world."""
    mine = (line for line in operator.events() if str(line.get("sync")).startswith(f"{world.home}/"))
    return [line for line in mine if line["event"] == event]


def test_a_line_about_one_target_names_kind_sync_target_and_revision(
    operator: OperatorProcess, world: Manifests
) -> None:
    taken = world.namespace("taken")
    world.secret(namespace=taken, password="theirs")
    source = world.secret()
    sync = world.msync("torn", source, into=[taken])
    sync.becomes("NotOurs")
    sync.tells("NotOurs")
    (line,) = lines(operator, world, "not ready")
    assert (line["kind"], line["sync"], line["reason"]) == ("ManifestSync", f"{world.home}/torn", "NotOurs")
    assert (line["target"], line["revision"]) == (f"Secret {taken}/app", source.at("metadata", "resourceVersion"))
    assert "cluster" not in line
    assert lines(operator, world, "target not synced") == []


def test_of_many_targets_the_first_ten_are_named_once(operator: OperatorProcess, world: Manifests) -> None:
    taken = world.namespaces(*(f"n{number:02}" for number in range(TAKEN)))
    for namespace in taken:
        world.secret(namespace=namespace, password="theirs")
    sync = world.msync("torn", world.secret(), into=taken)
    sync.becomes("NotOurs", conflicted=TAKEN)
    sync.now()
    sync.tells("NotOurs")
    named = lines(operator, world, "target not synced")
    assert len({line["target"] for line in named}) == len(named) == 10
    assert {line["state"] for line in named} == {"Conflict"}
    assert [line["number"] for line in lines(operator, world, "more targets not synced")] == [TAKEN - 10]
    assert len(lines(operator, world, "not ready")) == 1


def test_failures_are_counted_by_the_kind_of_the_target(operator: OperatorProcess, world: Manifests) -> None:
    def failed(kind: str) -> float:
        return Scrape(operator).value("syncline_target_failures_total", kind="ManifestSync", target_kind=kind) or 0

    before = failed("Secret"), failed("ConfigMap")
    limit = {"hard": {"count/secrets": "0"}}
    full = world.namespace("full")
    quotas = f"/api/v1/namespaces/{full}/resourcequotas"
    quota = world.sandbox.request("POST", quotas, {"metadata": {"name": "none"}, "spec": limit})
    world.sandbox.request("PUT", f"{quotas}/none/status", {**quota, "status": {**limit, "used": limit["hard"]}})
    world.msync("torn", world.secret(), into=[full]).becomes("Forbidden")
    until(lambda: failed("Secret"), lambda number: number > before[0])
    assert failed("ConfigMap") == before[1]


def test_kinds_that_users_make_up_do_not_fill_the_memory() -> None:
    for number in range(metrics.MAX_TARGET_KINDS + 50):
        metrics.count_target_failures("ConfigSync", f"Made{number}.example.com")
    samples = [sample for family in metrics._target_failures.collect() for sample in family.samples]
    counted = [sample for sample in samples if sample.name.endswith("_total")]
    assert len(counted) <= metrics.MAX_TARGET_KINDS + 1
    assert sum(sample.value for sample in counted if sample.labels["target_kind"] == metrics.OTHER_KINDS) >= 50
