"""Which side wrote last: what the managed fields tell, and what decides where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.last_write import WriteTime, later_side, write_time_of
from syncline.core.twoway import Side

NOW = 10_000.0


def entry(manager: str, time: str, fields: object, **more: str) -> dict[str, object]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "time": time,
        "fieldsV1": fields,
        **more,
    }


def data(*keys: str) -> dict[str, object]:
    return {"f:data": {".": {}, **{f"f:{key}": {} for key in keys}}}


MANAGED = [
    entry("kubectl-edit", "1970-01-01T00:10:00Z", data("a", "app.yaml")),
    entry("kubectl-patch", "1970-01-01T00:20:00Z", data("b")),
    entry("syncline", "1970-01-01T00:30:00Z", data("a", "c")),
    entry("controller", "1970-01-01T00:40:00Z", data("a"), subresource="status"),
]


@pytest.mark.parametrize(
    ("paths", "stamp"),
    [
        (["data/a"], WriteTime(600, "kubectl-edit")),
        (["data/app.yaml"], WriteTime(600, "kubectl-edit")),
        (["data/a", "data/b"], WriteTime(1200, "kubectl-patch")),
        (["data/c"], None),
        (["data/gone"], None),
        (["binaryData/a"], None),
        ([], None),
    ],
)
def test_the_latest_writer_of_a_changed_path_counts(paths: list[str], stamp: WriteTime | None) -> None:
    assert write_time_of(MANAGED, paths) == stamp
    assert write_time_of(reversed(MANAGED), paths) == stamp


def test_our_own_writes_go_by_the_name_that_we_give() -> None:
    assert write_time_of(MANAGED, ["data/a"], ours="kubectl-edit") == WriteTime(1800, "syncline")


def test_an_offset_of_time_zones_is_understood() -> None:
    assert write_time_of([entry("x", "1970-01-01T02:00:00+02:00", data("a"))], ["data/a"]) == WriteTime(0, "x")


@pytest.mark.parametrize(
    ("fields", "path", "owned"),
    [
        ({"f:spec": {"f:selector": {}}}, "spec/selector/matchLabels/app", True),
        ({"f:spec": {"f:selector": {}}}, "spec/replicas", False),
        ({"f:metadata": {"f:annotations": {"f:example.com/team": {}}}}, "metadata/annotations/example.com~1team", True),
        ({"f:spec": {"f:ports": {'k:{"port":80}': {"f:name": {}}}}}, "spec/ports/[port=80]/name", True),
        ({"f:spec": {"f:ports": {'k:{"port":80}': {"f:name": {}}}}}, "spec/ports/[port=81]/name", False),
        ({"f:spec": {"f:ports": {'k:{"port":80}': {}}}}, 'spec/ports/[port="80"]', False),
        ({"f:spec": {"f:tags": {'v:"a"': {}}}}, "spec/tags/[=a]", True),
        ({"f:spec": {"f:tags": {'v:"a"': {}}}}, "spec/tags/[=b]", False),
        ({"f:spec": {"f:ports": {"k:odd": {}}}}, "spec/ports/[port=80]", False),
        ({"f:data": {".": {}}}, "data/a", False),
    ],
)
def test_paths_of_any_object_are_found(fields: object, path: str, owned: bool) -> None:
    stamp = write_time_of([entry("x", "1970-01-01T00:00:09Z", fields)], [path])
    assert stamp == (WriteTime(9, "x") if owned else None)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"manager": "x"},
        entry("x", "", data("a")),
        entry("x", "yesterday", data("a")),
        entry("x", "1970-01-01T00:00:00", data("a")),
        entry("x", "1970-01-01T00:00:00Z", None),
        entry("x", "1970-01-01T00:00:00Z", "text"),
        entry("x", "1970-01-01T00:00:00Z", {"f:data": "text"}),
    ],
)
def test_what_cannot_be_read_is_no_time(odd: dict[str, object]) -> None:
    assert write_time_of([odd], ["data/a"]) is None


@pytest.mark.parametrize(
    ("up", "down", "later"),
    [
        (100, 106, "Downstream"),
        (106, 100, "Upstream"),
        (100, 105, None),
        (105, 100, None),
        (100, 100, None),
        (None, 100, None),
        (100, None, None),
        (None, None, None),
        (100, NOW + 6, None),
        (NOW + 6, 100, None),
        (100, NOW + 1, "Downstream"),
    ],
)
def test_times_decide_where_they_can(up: float | None, down: float | None, later: Side | None) -> None:
    times = (None if up is None else WriteTime(up), None if down is None else WriteTime(down))
    assert later_side(*times, now=NOW) == (later or "Upstream")
    for seen in (["Upstream", "Downstream"], ["Downstream", "Upstream"]):
        assert later_side(*times, now=NOW, seen_order=seen) == (later or seen[-1])


@quick
@given(st.integers(0, int(NOW)), st.integers(-5, 5), st.sampled_from(("Upstream", "Downstream")))
def test_within_the_tolerance_no_clock_decides(time: int, difference: int, seen: Side) -> None:
    assert later_side(WriteTime(time), WriteTime(time + difference), now=NOW, seen_order=[seen]) == seen


def test_a_narrower_tolerance_tells_closer_writes_apart() -> None:
    assert later_side(WriteTime(0), WriteTime(3), now=NOW) == "Upstream"
    assert later_side(WriteTime(0), WriteTime(3), now=NOW, tolerance=2) == "Downstream"


@pytest.mark.parametrize(
    ("skew", "later"), [(0.0, "Downstream"), (4.0, "Downstream"), (6.0, "Upstream"), (-6.0, "Upstream")]
)
def test_clocks_that_differ_are_trusted_less(skew: float, later: Side) -> None:
    assert later_side(WriteTime(100), WriteTime(110), now=NOW, skew=skew) == later
