"""The placement and the other fields of a WorkspaceSync: what a real API server refuses."""

import pytest
from tests.api.trial import Bad
from tests.api.workspacesync_specs import placement, refusal, spec, upstream

from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")

WEIGHTS = "strategy: Weighted needs weights, and other strategies take none: write weights with strategy: Weighted"
DELAY = "write a delay between 10ms and 1h"

RULES: dict[str, Bad] = {
    "addresses of many workspaces": (
        {**upstream(apiExport={"workspace": "root", "name": "apps"}), "endpoints": True},
        "spec.endpoints",
        "Endpoints are written to one upstream, and an APIExport has several: write upstream.workspace",
    ),
    "a delay that is none": (spec(retry={"delay": "1ms"}), "spec.retry.delay", DELAY),
    "a delay of a day": (spec(retry={"delay": "24h"}), "spec.retry.delay", DELAY),
    "spread over nobody knows": (
        placement(strategy="Spread"),
        "spec.placement.count",
        "strategy: Spread needs count: write the number of SyncTargets for each namespace",
    ),
    "all two": (
        placement(count=2),
        "spec.placement.count",
        "strategy: All uses all SyncTargets: remove count, or write strategy: Spread",
    ),
    "all by zone": (
        placement(spreadBy="zone"),
        "spec.placement.spreadBy",
        "spreadBy needs strategy: Spread: write strategy: Spread, or remove spreadBy",
    ),
    "weighted without weights": (placement(strategy="Weighted"), "spec.placement.weights", WEIGHTS),
    "weights for all": (
        placement(weights=[{"matchLabels": {"a": "b"}, "weight": 1}]),
        "spec.placement.weights",
        WEIGHTS,
    ),
    "eviction at once": (
        placement(evictAfter="1ms"),
        "spec.placement.evictAfter",
        "write an evictAfter of at least 1s",
    ),
}
SCHEMA: dict[str, Bad] = {
    "the policy of other kinds": (spec(sourceDeletionPolicy="Orphan"), "sourceDeletionPolicy", "unknown field"),
    "a weight of nothing": (
        placement(strategy="Weighted", weights=[{"matchLabels": {"a": "b"}, "weight": 0}]),
        "spec.placement.weights[0].weight",
        "greater than or equal to 1",
    ),
    "a weight for nobody": (
        placement(strategy="Weighted", weights=[{"matchLabels": {}, "weight": 1}]),
        "spec.placement.weights[0].matchLabels",
        "should have at least 1 properties",
    ),
    "spread over none": (
        placement(strategy="Spread", count=0),
        "spec.placement.count",
        "greater than or equal to 1",
    ),
    "status as a word": (spec(statusSync="yes"), "spec.statusSync", "must be of type boolean"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_placement_refusal_with_what_to_write_instead(sandbox: Sandbox, bad: Bad) -> None:
    given, where, words = bad
    told = refusal(sandbox, given)
    assert where in told
    assert words in told
