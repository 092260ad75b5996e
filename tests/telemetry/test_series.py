"""What the operator shows of syncs while they live, and that nothing of it stays when they are gone."""

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess) -> Iterator[Manifests]:
    """Namespaces of this test's own, in a cluster where the operator runs."""
    world = Manifests(sandbox)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


class Scrape:
    """The metrics of the operator, as Prometheus gets them."""

    def __init__(self, operator: OperatorProcess) -> None:
        status, text = operator.get("metrics", "/metrics")
        assert status == 200
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, series: str, **labels: str) -> float | None:
        """Return the one sample with these labels."""
        found = [
            sample.value for sample in self.samples if sample.name == series and labels.items() <= sample.labels.items()
        ]
        assert len(found) < 2, f"{len(found)} samples of {series} with {labels}"
        return found[0] if found else None

    def names(self, namespace: str) -> set[str]:
        """Return the series that name a namespace."""
        return {sample.name for sample in self.samples if sample.labels.get("namespace") == namespace}


def test_the_series_of_a_sync_say_how_it_is_and_go_with_it(operator: OperatorProcess, world: Manifests) -> None:
    target, taken = world.namespaces("a", "taken")
    world.secret(namespace=taken, password="theirs")
    synced = world.msync("fine", world.secret(), into=[target])
    synced.becomes("Synced")
    torn = world.msync("torn", world.secret("other"), into=[target, f"{world.name}-missing"])
    torn.becomes("NamespaceNotFound")
    lost = world.sync("lost", destinationNamespace=target)
    lost.becomes("SourceNotFound")

    scrape = Scrape(operator)
    mine = {"kind": "ManifestSync", "namespace": world.home}
    assert scrape.value("syncline_ready", name="fine", **mine) == 1
    assert scrape.value("syncline_targets", name="fine", state="synced", **mine) == 1
    assert scrape.value("syncline_failures_total", name="fine", **mine) is None
    assert scrape.value("syncline_ready", name="torn", **mine) == 0
    assert scrape.value("syncline_targets", name="torn", state="pending", **mine) == 1
    assert scrape.value("syncline_ready", namespace=world.home, name="lost") == 0
    assert (scrape.value("syncline_failures_total", namespace=world.home, name="lost", cluster="") or 0) >= 1

    for sync in (synced, torn, lost):
        sync.delete()
        sync.gone()
    until(lambda: Scrape(operator).names(world.home), lambda names: not names)


def test_each_kind_has_a_queue_of_its_own(operator: OperatorProcess, world: Manifests) -> None:  # noqa: ARG001
    scrape = Scrape(operator)
    for kind in ("ConfigMapSync", "ManifestSync"):
        assert scrape.value("syncline_queue_depth", queue=kind) is not None
        assert scrape.value("syncline_queue_oldest_seconds", queue=kind) is not None


def test_repairs_conflicts_and_requests_are_counted(operator: OperatorProcess, world: Manifests) -> None:
    target, taken = world.namespaces("a", "taken")
    world.secret(namespace=taken, password="theirs")
    before = Scrape(operator)
    world.msync("sync", world.secret(), into=[target, taken]).becomes("NotOurs")
    copy = world.find("Secret", target)
    copy.keep(password="edited")
    copy.holds(password="red")
    # The counts follow the write: with the status, and with the end of the reconcile.
    after = until(
        lambda: Scrape(operator),
        lambda now: (
            _grown(before, now, "syncline_drift_repairs_total", kind="ManifestSync") == 1
            and _grown(before, now, "syncline_sync_duration_seconds_count", kind="ManifestSync") >= 2
        ),
    )
    assert _grown(before, after, "syncline_conflicts_total", kind="ManifestSync") == 1
    assert _grown(before, after, "syncline_writes_total", kind="ManifestSync", action="create") == 1
    assert _grown(before, after, "syncline_api_requests_total", verb="create", resource="secrets", code="201") >= 1


def _grown(before: Scrape, after: Scrape, series: str, **labels: str) -> float:
    return (after.value(series, **labels) or 0) - (before.value(series, **labels) or 0)
