"""Removes the ConfigMaps of a deleted IgnitionSync: only those that Syncline created."""

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import CHANGES_CONFIG_MAP, METADATA_CONFIG_MAP
from syncline.controllers.gateways.owned_config_maps import (
    OBJECT_LABEL,
    config_map_name,
    delete,
    owner_of,
)
from syncline.controllers.gateways.reports import PURPOSE
from syncline.engine.cluster import Cluster
from syncline.engine.kind_informer import MetaWire
from syncline.kube.errors import Conflict, NotFound
from syncline.kube.resources import CONFIGMAPS


async def delete_config_maps(hub: Cluster, user: str | None, sync: ObjectMeta) -> None:
    """Delete the ConfigMaps of a sync. Raises the errors of any request."""
    client, keys = hub.acting_as(user), hub.marks.keys
    for prefix in (METADATA_CONFIG_MAP, CHANGES_CONFIG_MAP):
        await delete(client, keys, sync.namespace, config_map_name(prefix, sync.name), sync.uid)
    # The operator finds them, and the identity of the sync deletes them.
    pages = hub.client.pages(
        CONFIGMAPS, sync.namespace, labels=f"{OBJECT_LABEL}={PURPOSE}", type=MetaWire, metadata_only=True
    )
    async for page in pages:
        for one in page.items:
            meta = one.metadata
            if owner_of(meta, keys) != sync.uid:
                continue
            try:
                await client.delete(CONFIGMAPS, meta.name, meta.namespace, uid=meta.uid)
            except (Conflict, NotFound):  # it was deleted meanwhile, or replaced
                continue
