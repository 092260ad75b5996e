"""Cache sizes: estimates of the bytes that cache entries take, by the content that clusters send.

A cluster that a tenant names can send anything. An object that a sync has written counts only for its unusual size: the
number of such objects is known.
"""

from syncline.core.api_exports import Binding
from syncline.core.marks import UNSIGNED
from syncline.core.objects import Marker, Observed
from syncline.core.scope import Namespace
from syncline.kube.cache_budget import text_size, texts_size

OWN_BYTES = 16 * 1024
_STRUCT_BYTES = 500
_RESOURCE_BYTES = 200


def namespace_size(namespace: Namespace) -> int:
    """Estimate the bytes of a namespace."""
    return _STRUCT_BYTES + text_size(namespace.uid) + texts_size(namespace.labels)


def observed_size(observed: Observed) -> int:
    """Estimate the bytes of an object with our label; one with our signature is free up to a size."""
    size = _STRUCT_BYTES + sum(
        text_size(text) for text in (observed.digest, observed.owner, observed.type, observed.changed_by)
    )
    maps = (observed.labels, observed.annotations, observed.base, observed.value_digests)
    size += sum(texts_size(one) for one in maps if one)
    size += sum(len(one) for one in (observed.fields, observed.status) if one is not None)
    size += sum(_marker_size(one) for one in (observed.marker, observed.claim) if one is not None)
    is_ours = observed.marker is not None and observed.marker.proof != UNSIGNED
    return max(0, size - OWN_BYTES) if is_ours else size


def binding_size(binding: Binding) -> int:
    """Estimate the bytes of an APIBinding."""
    names = (*binding.workspace, binding.name, binding.uid, *binding.export)
    granted = (*binding.granted, *binding.proven)
    return _STRUCT_BYTES + sum(
        map(text_size, names), sum(_RESOURCE_BYTES + text_size(one.group) + text_size(one.resource) for one in granted)
    )


def _marker_size(marker: Marker) -> int:
    texts = (marker.sync, marker.object_id, marker.hub_uid, marker.source, marker.revision, marker.source_version)
    proofs = (marker.digest, marker.key, marker.mode, marker.base, marker.owner, marker.proof)
    lists = (*marker.labels, *marker.annotations, *marker.unkept)
    return _STRUCT_BYTES + sum(map(text_size, (*texts, *proofs, *lists)))
