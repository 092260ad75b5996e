"""Which labels and annotations travel with a copy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.sanitize import STATE_PREFIXES, STRIPPED, STRIPPED_PREFIXES, copied_metadata, is_controller_state

OF_TOOLS = {
    "Argo CD, by annotation": "argocd.argoproj.io/tracking-id",
    "Argo CD, by label": "argocd.argoproj.io/instance",
    "Argo CD, by the common label": "app.kubernetes.io/instance",
    "Flux, kustomize": "kustomize.toolkit.fluxcd.io/name",
    "Flux, helm": "helm.toolkit.fluxcd.io/namespace",
    "Flux, sources": "source.toolkit.fluxcd.io/name",
    "Flux, a request": "reconcile.fluxcd.io/requestedAt",
    "Karmada": "work.karmada.io/binding-name",
    "the addon manager": "addonmanager.kubernetes.io/mode",
    "an inventory": "config.k8s.io/owning-inventory",
    "kustomize": "internal.config.kubernetes.io/index",
    "Config Sync": "configsync.gke.io/resource-id",
    "Rancher Fleet": "objectset.rio.cattle.io/id",
    "cert-manager, on a Secret": "cert-manager.io/certificate-name",
    "another replicator": "replicator.v1.mittwald.de/replicate-to",
    "a generator of values": "secret-generator.v1.mittwald.de/autogenerate",
    "Helm, the release": "meta.helm.sh/release-name",
    "Helm, a hook": "helm.sh/hook",
    "Helm, the claim": "app.kubernetes.io/managed-by",
    "kubectl apply": "kubectl.kubernetes.io/last-applied-configuration",
    "kubectl apply --prune": "applyset.kubernetes.io/part-of",
    "kapp": "kapp.k14s.io/app",
    "Velero": "velero.io/restore-name",
}
OF_ONE_OBJECT = {
    "Syncline, the owner": "syncline.dev/owner",
    "Syncline, the marker": "syncline.dev/copy",
    "Syncline, the switches": "syncline.dev/prune",
    "a claim that is bound": "pv.kubernetes.io/bind-completed",
    "a claim and its node": "volume.kubernetes.io/selected-node",
    "a Deployment's revision": "deployment.kubernetes.io/revision",
    "a Job's pods": "batch.kubernetes.io/controller-uid",
    "a namespace's name": "kubernetes.io/metadata.name",
    "a leader": "control-plane.alpha.kubernetes.io/leader",
    "kcp, the workspace": "kcp.io/cluster",
    "kcp, a claim": "claimed.internal.apis.kcp.io/1a2b",
    "an autoscaler's view": "autoscaling.alpha.kubernetes.io/conditions",
}
ORDINARY = [
    "team",
    "app",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "example.com/argocd.argoproj.io",
    "helm",
    "cert-manager.io/cluster-issuer",
    "nginx.ingress.kubernetes.io/rewrite-target",
    "service.beta.kubernetes.io/aws-load-balancer-type",
    "volume.beta.kubernetes.io/storage-class",
    "reloader.stakater.com/match",
    "velero.io/exclude-from-backup",
    "pod-security.kubernetes.io/enforce",
    "notkcp.io/cluster",
]


@pytest.mark.parametrize("key", OF_TOOLS.values(), ids=OF_TOOLS)
def test_those_of_tools_stay_behind(key: str) -> None:
    assert copied_metadata({key: "value", "team": "red"}) == {"team": "red"}


@pytest.mark.parametrize("key", OF_TOOLS.values(), ids=OF_TOOLS)
def test_those_of_tools_travel_when_they_are_named(key: str) -> None:
    assert copied_metadata({key: "value"}, include=[key]) == {key: "value"}
    assert copied_metadata({key: "value"}, include=["*"]) == {key: "value"}
    assert copied_metadata({key: "value"}, include=["*"], exclude=[key]) == {}


@pytest.mark.parametrize("key", OF_ONE_OBJECT.values(), ids=OF_ONE_OBJECT)
def test_the_marks_of_one_object_never_travel(key: str) -> None:
    assert copied_metadata({key: "value"}) == {}
    assert copied_metadata({key: "value"}, include=["*", key]) == {}


def test_excluded_ones_stay_behind() -> None:
    entries = {"team": "red", "example.com/a": "1", "example.com/b": "2"}
    assert copied_metadata(entries, exclude=["example.com/*"]) == {"team": "red"}
    assert copied_metadata(entries, exclude=["example.com/?", "tea?"]) == {}
    assert copied_metadata(entries, include=["team"]) == entries, "to include is to add"


def test_our_marks_are_no_state_of_somebody_else() -> None:
    assert not is_controller_state("syncline.dev/owner")
    assert not is_controller_state("team")


@pytest.mark.parametrize("key", ORDINARY)
def test_ordinary_ones_travel(key: str) -> None:
    assert copied_metadata({key: "value"}) == {key: "value"}


def test_a_prefix_ends_where_its_name_ends() -> None:
    """Otherwise one tool's prefix would take the labels of others."""
    assert all(prefix.endswith("/") for prefix in (*STRIPPED_PREFIXES, *STATE_PREFIXES))


@quick
@given(
    st.dictionaries(
        st.sampled_from([*ORDINARY, *OF_TOOLS.values(), *OF_ONE_OBJECT.values(), *STRIPPED]), st.text(max_size=5)
    )
)
def test_values_travel_unchanged_and_once_is_enough(entries: dict[str, str]) -> None:
    kept = copied_metadata(entries)
    assert kept.items() <= entries.items()
    assert copied_metadata(kept) == kept
