"""Which labels and annotations travel with a copy.

Those of deployment tools must not: a copy that carries Argo CD's, Flux's or Helm's labels is pruned or fought over by
them, and kubectl's last-applied annotation repeats the whole content. Owner references never travel: the garbage
collector would delete the copy.
"""

from collections.abc import Mapping

STRIPPED_PREFIXES = (
    "syncline.dev/",
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "fluxcd.io/",
    "applyset.kubernetes.io/",
    "kapp.k14s.io/",
    "objectset.rio.cattle.io/",
    "velero.io/",
    "cert-manager.io/",
    "replicator.v1.mittwald.de/",
    "reflector.v1.k8s.emberstack.com/",
    "kubed.appscode.com/",
    "control-plane.alpha.kubernetes.io/",
)
# Argo CD tracks by the instance label unless told otherwise; Helm claims an object by managed-by.
STRIPPED = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "applyset.kubernetes.io"})


def travelling(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the labels or annotations that a copy carries too."""
    return {
        key: value for key, value in entries.items() if key not in STRIPPED and not key.startswith(STRIPPED_PREFIXES)
    }
