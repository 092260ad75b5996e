"""Which labels and annotations travel with a copy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import quick

from syncline.core.sanitize import STRIPPED, STRIPPED_PREFIXES, travelling

OF_TOOLS = {
    "Argo CD, by annotation": "argocd.argoproj.io/tracking-id",
    "Argo CD, by label": "argocd.argoproj.io/instance",
    "Argo CD, by the common label": "app.kubernetes.io/instance",
    "Flux, kustomize": "kustomize.toolkit.fluxcd.io/name",
    "Flux, helm": "helm.toolkit.fluxcd.io/namespace",
    "Helm, the release": "meta.helm.sh/release-name",
    "Helm, a hook": "helm.sh/hook",
    "Helm, the claim": "app.kubernetes.io/managed-by",
    "kubectl apply": "kubectl.kubernetes.io/last-applied-configuration",
    "kubectl apply --prune": "applyset.kubernetes.io/part-of",
    "kapp": "kapp.k14s.io/app",
    "Velero": "velero.io/restore-name",
    "Syncline, the owner": "syncline.dev/owner",
    "Syncline, the marker": "syncline.dev/copy",
    "Syncline, the switches": "syncline.dev/prune",
}
ORDINARY = [
    "team",
    "app",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "example.com/argocd.argoproj.io",
    "helm",
]


@pytest.mark.parametrize("key", OF_TOOLS.values(), ids=OF_TOOLS)
def test_those_of_tools_stay_behind(key: str) -> None:
    assert travelling({key: "value", "team": "red"}) == {"team": "red"}


@pytest.mark.parametrize("key", ORDINARY)
def test_ordinary_ones_travel(key: str) -> None:
    assert travelling({key: "value"}) == {key: "value"}


def test_a_prefix_ends_where_its_name_ends() -> None:
    """Otherwise one tool's prefix would take the labels of others."""
    assert all(prefix.endswith("/") for prefix in STRIPPED_PREFIXES)


@quick
@given(st.dictionaries(st.sampled_from([*ORDINARY, *OF_TOOLS.values(), *STRIPPED]), st.text(max_size=5)))
def test_values_travel_unchanged_and_once_is_enough(entries: dict[str, str]) -> None:
    kept = travelling(entries)
    assert kept.items() <= entries.items()
    assert travelling(kept) == kept
