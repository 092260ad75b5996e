"""What a cluster sends counts for what it takes in memory; what a sync has written does not count."""

import tracemalloc
from typing import Any

import pytest

from syncline.core.api_exports import BindingMeta, BindingWire, PermissionClaim, read_binding
from syncline.core.marks import UNSIGNED
from syncline.core.objects import Marker, Observed, Target
from syncline.core.scope import Namespace
from syncline.engine.cache_sizes import OWN_BYTES, binding_size, namespace_size, observed_size

MARKER = Marker(sync="ConfigMapSync/fleet/one", object_id="id", proof="key-1")
CLAIM = Marker(sync="ConfigMapSync/fleet/one", object_id="id", source="x" * 5000)


def _observed(**more: Any) -> Observed:
    return Observed(target=Target("shop", "app"), uid="uid", version="1", digest="digest", **more)


def test_an_object_that_a_sync_has_written_is_free() -> None:
    assert observed_size(_observed(marker=MARKER, labels={"app": "web"})) == 0


@pytest.mark.parametrize("more", [{}, {"claim": CLAIM}, {"marker": Marker(sync="s", object_id="o", proof=UNSIGNED)}])
def test_an_object_whose_mark_anybody_can_write_counts(more: dict[str, Any]) -> None:
    assert observed_size(_observed(**more)) > 500


@pytest.mark.parametrize(
    "large",
    [
        {"labels": {"label": "x" * 100_000}},
        {"annotations": {f"key-{number}": "x" for number in range(1000)}},
        {"base": {f"/path/{number}": "x" * 20 for number in range(1000)}},
        {"fields": b"x" * 100_000},
        {"status": b"x" * 100_000},
        {"changed_by": "x" * 100_000},
    ],
)
def test_an_object_that_others_have_made_large_counts(large: dict[str, Any]) -> None:
    assert observed_size(_observed(marker=MARKER, **large)) > 100_000 - 2 * OWN_BYTES


def test_labels_of_a_namespace_count() -> None:
    assert namespace_size(Namespace("shop", "uid", {"label": "x" * 10_000})) > 10_000
    assert namespace_size(Namespace("shop", "uid", {"label": "\N{SNOWMAN}" * 10_000})) > 40_000


def test_claims_of_a_binding_count() -> None:
    wire = BindingWire(metadata=BindingMeta(name="apps", annotations={"kcp.io/cluster": "c1"}))
    claims = [PermissionClaim(resource="x" * 100, group=f"g{number}", state="Accepted") for number in range(100)]
    wire.spec.permission_claims, wire.status.applied_permission_claims = claims, claims
    assert binding_size(read_binding(wire)) > 100 * 100


def test_namespaces_and_objects_take_no_more_memory_than_is_counted() -> None:
    tracemalloc.start()
    try:
        kept: list[Any] = [
            Namespace(f"namespace-{number}", f"uid-{number:030}", {f"label-{number}": f"value-{number}"})
            for number in range(5000)
        ]
        namespaces, _ = tracemalloc.get_traced_memory()
        counted = sum(map(namespace_size, kept))
        kept += (found := [_observed(annotations={f"key-{number}": f"value-{number}"}) for number in range(5000)])
        both, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert namespaces < counted
    assert both - namespaces < sum(map(observed_size, found))
