"""The labels and annotations that are copied.

Those of deployment tools are not copied: such a tool would prune or overwrite a copy with its labels, and kubectl's
last-applied annotation repeats the whole content. A user can include single ones. The recorded state of an object is
never copied: on another object it is wrong, and controllers would use it. Owner references are never copied: the
garbage collector would delete the copy.
"""

from collections.abc import Iterable, Mapping

from syncline.core.selectors import glob_matches

STRIPPED_PREFIXES = (
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "fluxcd.io/",
    "reconcile.fluxcd.io/",
    "applyset.kubernetes.io/",
    "addonmanager.kubernetes.io/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "cli-utils.sigs.k8s.io/",
    "configmanagement.gke.io/",
    "configsync.gke.io/",
    "kapp.k14s.io/",
    "objectset.rio.cattle.io/",
    "fleet.cattle.io/",
    "operators.coreos.com/",
    "generate.kyverno.io/",
    "hnc.x-k8s.io/",
    "controller.cert-manager.io/",
    "replicator.v1.mittwald.de/",
    "reflector.v1.k8s.emberstack.com/",
    "kubed.appscode.com/",
    "secret-generator.v1.mittwald.de/",  # it would write values of its own into the copy
    "reconcile.external-secrets.io/",
    "sealedsecrets.bitnami.com/",
)
STRIPPED_DOMAINS = (".toolkit.fluxcd.io", ".karmada.io")
"""Each part of Flux, and of Karmada, has its own name below these."""

STRIPPED = frozenset(
    {
        # Argo CD tracks by the instance label unless told otherwise; Helm claims an object by managed-by.
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "applyset.kubernetes.io",
        # Written by cert-manager on its Secrets. Annotations of users on an Ingress for cert-manager are copied.
        "cert-manager.io/alt-names",
        "cert-manager.io/certificate-name",
        "cert-manager.io/ip-sans",
        "cert-manager.io/issuer-name",
        "cert-manager.io/uri-sans",
        # Written by a backup or restore. `velero.io/exclude-from-backup` is a setting, and is copied.
        "velero.io/backup-name",
        "velero.io/restore-name",
        "velero.io/schedule-name",
        "velero.io/storage-location",
        "k8slens-edit-resource-version",
        "olm.managed",
        "olm.owner",
        "olm.owner.kind",
        "olm.owner.namespace",
    }
)

STATE_PREFIXES = (
    "batch.kubernetes.io/",
    "control-plane.alpha.kubernetes.io/",
    "deployment.kubernetes.io/",
    "endpoints.kubernetes.io/",
    "pv.kubernetes.io/",
    "kcp.io/",
)
STATE_DOMAINS = (".kcp.io",)
STATE = frozenset(
    {
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "cloud.google.com/neg-status",
        "controller-uid",
        "deprecated.daemonset.template.generation",
        "field.cattle.io/publicEndpoints",
        "ingress.kubernetes.io/backends",
        "ingress.kubernetes.io/forwarding-rule",
        "ingress.kubernetes.io/target-proxy",
        "ingress.kubernetes.io/url-map",
        "kubernetes.io/metadata.name",
        "openshift.io/sa.scc.mcs",
        "openshift.io/sa.scc.supplemental-groups",
        "openshift.io/sa.scc.uid-range",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-resizer",
    }
)
"""Annotations and labels that controllers write about the object itself."""

_OURS = "syncline.dev/"


def copied_metadata(
    entries: Mapping[str, str], include: Iterable[str] = (), exclude: Iterable[str] = ()
) -> dict[str, str]:
    """Return the labels or annotations that are copied.

    `include` and `exclude` are globs. A tool's entry that matches `include` is copied; an entry that matches `exclude`
    is not. Syncline's own marks and the state of one object are never copied.
    """
    include, exclude = tuple(include), tuple(exclude)
    return {
        key: value
        for key, value in entries.items()
        if not key.startswith(_OURS)
        and not is_controller_state(key)
        and (not _is_stripped(key) or _matches(include, key))
        and not _matches(exclude, key)
    }


def is_controller_state(key: str) -> bool:
    """Whether a label or annotation records the state of its own object."""
    return key in STATE or key.startswith(STATE_PREFIXES) or _domain(key).endswith(STATE_DOMAINS)


def _is_stripped(key: str) -> bool:
    return key in STRIPPED or key.startswith(STRIPPED_PREFIXES) or _domain(key).endswith(STRIPPED_DOMAINS)


def _matches(globs: Iterable[str], key: str) -> bool:
    return any(glob_matches(glob, key) for glob in globs)


def _domain(key: str) -> str:
    return key.rpartition("/")[0]
