"""The access of an agent outside of its pod: it requests a token of the pod, and reads the metadata ConfigMap.

Imported only if a kubeconfig is set: agents in pods have no rights in the cluster, and need no client for it.
"""

import asyncio

from msgspec import Struct

from syncline.agent.access import AccessError
from syncline.agent.settings import AgentSettings
from syncline.core.gateway_plan import AUDIENCE, METADATA_DEPOT_CA, METADATA_DEPOT_URL, METADATA_PREFIX
from syncline.kube.account_token import TokenAnswer, seconds_left
from syncline.kube.client import Client
from syncline.kube.config import discover
from syncline.kube.errors import ConfigError, KubeError, NotFound
from syncline.kube.resources import CONFIGMAPS, PODS, SERVICEACCOUNTS

LIFETIME = 3600
RENEW_AFTER = 0.5


class _OwnPodMeta(Struct):
    uid: str


class _OwnPodSpec(Struct, rename="camel"):
    service_account_name: str = "default"


class _OwnPod(Struct):
    metadata: _OwnPodMeta
    spec: _OwnPodSpec


class _Metadata(Struct):
    data: dict[str, str] = {}


class ClusterAccess:
    """The access by a kubeconfig, which is used for one token and one ConfigMap."""

    def __init__(self, settings: AgentSettings) -> None:
        """Read the kubeconfig. Raises `AccessError`."""
        self._settings = settings
        try:
            self._client = Client(discover(settings.kubeconfig))
        except ConfigError as error:
            raise AccessError(str(error)) from None
        self._token = ""
        self._renew_at = 0.0
        self._depot: dict[str, str] = {}

    async def url(self) -> str:
        """Return the address of the flag, or that of the metadata ConfigMap."""
        return self._settings.depot_url or (await self._metadata())[METADATA_DEPOT_URL]

    async def ca(self) -> str:
        """Return the certificates of the metadata ConfigMap."""
        return (await self._metadata())[METADATA_DEPOT_CA]

    async def token(self) -> str:
        """Return a token that is bound to the pod."""
        if not self._token or _now() >= self._renew_at:
            await self._request_token()
        return self._token

    async def refresh(self) -> None:
        """Drop the cached token and metadata."""
        self._token, self._depot = "", {}

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._client.close()

    async def _metadata(self) -> dict[str, str]:
        if not self._depot:
            name = METADATA_PREFIX + self._settings.sync
            try:
                found = await self._client.get(CONFIGMAPS, name, self._settings.namespace, type=_Metadata)
            except NotFound:
                raise AccessError(
                    f"there is no ConfigMap {self._settings.namespace}/{name}: check that the IgnitionSync exists, and"
                    " that the operator runs with --depot-bind"
                ) from None
            except KubeError as error:
                raise AccessError(f"the ConfigMap {name} cannot be read: {error}") from None
            missing = [key for key in (METADATA_DEPOT_URL, METADATA_DEPOT_CA) if not found.data.get(key)]
            if missing:
                raise AccessError(f"the ConfigMap {name} has no {missing[0]}: run the operator with --depot-bind")
            self._depot = found.data
        return self._depot

    async def _request_token(self) -> None:
        namespace, name = self._settings.namespace, self._settings.pod
        try:
            pod = await self._client.get(PODS, name, namespace, type=_OwnPod)
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [AUDIENCE],
                    "expirationSeconds": LIFETIME,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid},
                },
            }
            account = pod.spec.service_account_name
            answer = await self._client.create_for(
                SERVICEACCOUNTS, account, namespace, "token", request, type=TokenAnswer
            )
        except NotFound as error:
            raise AccessError(f"the token of pod {namespace}/{name} cannot be requested: {error}") from None
        except KubeError as error:
            raise AccessError(
                f"the token of pod {namespace}/{name} cannot be requested; the kubeconfig needs the right"
                f" to get the pod and to create serviceaccounts/token: {error}"
            ) from None
        self._token = answer.status.token
        self._renew_at = _now() + seconds_left(answer) * RENEW_AFTER


def _now() -> float:
    return asyncio.get_running_loop().time()
