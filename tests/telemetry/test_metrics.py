"""What Prometheus sees of syncs."""

import pytest
from prometheus_client import REGISTRY, generate_latest

import syncline
from syncline.api.common import TargetCounts
from syncline.telemetry import metrics


def value(series: str, /, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(series, labels)


def lines_with(text: str) -> list[str]:
    return [line for line in generate_latest(REGISTRY).decode().splitlines() if text in line]


def test_a_pass_over_a_sync_is_timed_and_counted() -> None:
    with metrics.sync_pass("KindA"):
        pass
    assert value("syncline_sync_total", kind="KindA", result="success") == 1
    assert value("syncline_sync_duration_seconds_count", kind="KindA") == 1


def test_a_pass_that_raises_is_a_failure() -> None:
    with pytest.raises(ValueError, match="no"), metrics.sync_pass("KindB"):
        raise ValueError("no")
    assert value("syncline_sync_total", kind="KindB", result="failure") == 1
    assert value("syncline_sync_total", kind="KindB", result="success") is None


def test_targets_are_shown_by_state() -> None:
    metrics.set_targets("KindC", "team", "counted", TargetCounts(desired=5, synced=3, failed=2))
    shown = {
        state: value("syncline_targets", kind="KindC", namespace="team", name="counted", state=state)
        for state in ("synced", "pending", "failed", "conflicted", "skipped", "unknown")
    }
    assert shown == {"synced": 3, "pending": 0, "failed": 2, "conflicted": 0, "skipped": 0, "unknown": 0}


def test_readiness_is_true_false_or_unknown() -> None:
    shown = []
    for status in ("True", "False", "Unknown"):
        metrics.set_ready("KindD", "team", "readied", status)
        shown.append(value("syncline_ready", kind="KindD", namespace="team", name="readied"))
    assert shown == [1, 0, -1]


def test_the_series_of_a_sync_go_with_it() -> None:
    metrics.set_targets("KindE", "team", "leaving", TargetCounts(desired=1, synced=1))
    metrics.set_ready("KindE", "team", "leaving", "True")
    metrics.set_ready("KindE", "team", "staying", "True")
    metrics.forget_sync("KindE", "team", "leaving")
    assert lines_with('name="leaving"') == []
    assert len(lines_with('name="staying"')) == 1


def test_forgetting_a_sync_that_was_never_seen_is_fine() -> None:
    metrics.set_ready("KindE", "team", "present", "True")
    metrics.forget_sync("KindE", "team", "never")
    assert lines_with('name="never"') == []
    assert len(lines_with('name="present"')) == 1


def test_writes_repairs_and_conflicts_are_counted() -> None:
    metrics.count_writes("KindF", "create", 1)
    metrics.count_writes("KindF", "create", 1)
    metrics.count_drift_repair("KindF")
    metrics.count_conflict("KindF")
    assert value("syncline_writes_total", kind="KindF", action="create") == 2
    assert value("syncline_drift_repairs_total", kind="KindF") == 1
    assert value("syncline_conflicts_total", kind="KindF") == 1


def test_statuses_that_go_upstream_are_counted_by_kind_and_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_target_kinds", set())  # other tests may have used up the number of kinds
    metrics.count_status_write("Gadget.metrics", "written")
    metrics.count_status_write("Gadget.metrics", "refused")
    series = "syncline_upstream_status_writes_total"
    assert value(series, target_kind="Gadget.metrics", result="written") == 1
    assert value(series, target_kind="Gadget.metrics", result="refused") == 1


def test_the_build_is_named() -> None:
    (line,) = lines_with("syncline_build_info{")
    assert f'version="{syncline.__version__}"' in line


def failures(name: str) -> dict[str, float]:
    """Return the failures of a sync by cluster."""
    return {
        sample.labels["cluster"]: sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "syncline_failures_total" and sample.labels["name"] == name
    }


def test_failures_are_counted_by_sync_and_cluster() -> None:
    metrics.count_failures("KindG", "team", "failing", "")
    metrics.count_failures("KindG", "team", "failing", "edge", 3)
    metrics.count_failures("KindG", "team", "failing", "edge")
    assert failures("failing") == {"": 1, "edge": 4}


def test_the_failures_in_a_cluster_go_when_the_sync_no_longer_writes_there() -> None:
    for cluster in ("", "edge", "old"):
        metrics.count_failures("KindH", "team", "moving", cluster)
    metrics.set_clusters("KindH", "team", "moving", {"edge"})
    assert failures("moving") == {"": 1, "edge": 1}
    metrics.set_clusters("KindH", "team", "never", {"edge"})


def test_the_failures_of_a_sync_go_with_it_and_start_anew_with_the_next_of_its_name() -> None:
    metrics.count_failures("KindI", "team", "again", "edge", 5)
    metrics.count_failures("KindI", "team", "staying", "edge", 2)
    metrics.forget_sync("KindI", "team", "again")
    assert lines_with('name="again"') == []
    assert failures("staying") == {"edge": 2}
    metrics.count_failures("KindI", "team", "again", "edge")
    assert failures("again") == {"edge": 1}
