"""The metadata ConfigMap of a sync: the state of its gateways, for people and for agents with a kubeconfig.

It has no timestamps, so that it changes only when something has changed. Agents in pods do not read it.
"""

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from syncline.api.ignition_annotations import METADATA_CONFIG_MAP
from syncline.controllers.gateways.owned_config_maps import OwnedConfigMap, config_map_name, write
from syncline.controllers.gateways.plans import GatewaySync
from syncline.controllers.sources.references import Requester
from syncline.core.gateway_plan import METADATA_DEPOT_CA, METADATA_DEPOT_URL
from syncline.core.objects import Target
from syncline.engine.cluster import Cluster
from syncline.kube.cache import Key

PURPOSE = "metadata"


class FleetMetadata(Struct, frozen=True, kw_only=True):
    """The content of the ConfigMap."""

    ref: str
    commit: str
    profiles: Mapping[str, str]
    """The profile of each gateway, by pod."""
    depot_url: str = ""
    depot_ca: str = ""

    def data(self) -> dict[str, str]:
        """Return the data of the ConfigMap."""
        found = {
            "ref": self.ref,
            "commit": self.commit,
            "profiles": msgspec.json.encode(dict(self.profiles), order="sorted").decode(),
            METADATA_DEPOT_URL: self.depot_url,
            METADATA_DEPOT_CA: self.depot_ca,
        }
        return {name: value for name, value in found.items() if value}


def metadata_target(namespace: str, sync: str) -> Target:
    """Return the place of the ConfigMap of a sync."""
    return Target(namespace, config_map_name(METADATA_CONFIG_MAP, sync), "ConfigMap")


class MetadataConfigMaps:
    """Writes the ConfigMaps of all syncs, each only when it has to change."""

    def __init__(self, hub: Cluster) -> None:
        self._hub = hub
        self._written: dict[Key, tuple[bytes, str]] = {}
        """The digest of the last written data, and the version of the ConfigMap after that write."""

    async def write(self, sync: GatewaySync, requester: Requester, metadata: FleetMetadata) -> None:
        """Write the content of a ConfigMap. Raises `NotOurs` and the errors of any request."""
        meta, data = sync.metadata, metadata.data()
        target = metadata_target(meta.namespace, meta.name)
        digest = sha256(msgspec.json.encode([meta.uid, data], order="sorted")).digest()
        informer = await self._hub.open_kind(target.group_kind)
        version = informer.unmanaged.get(Key(target.namespace, target.name))
        if version is not None and self._written.get(requester.key) == (digest, version):
            return
        wanted = OwnedConfigMap(
            namespace=target.namespace,
            name=target.name,
            sync=meta.name,
            sync_uid=meta.uid,
            purpose=PURPOSE,
            data=data,
        )
        written = await write(self._hub.acting_as(requester.user), self._hub.marks.keys, wanted)
        informer.observe_unmanaged(written, requester.sync)
        self._written[requester.key] = digest, written.resource_version

    def forget(self, key: Key) -> None:
        """Forget a sync."""
        self._written.pop(key, None)
