"""Requests of refs: a delivery names the ref that gateways are to follow, and it is written to the sync as annotations.

Any replica handles a delivery, and the annotations inform the leader. The spec, which another tool may manage, stays
unchanged.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import NEWEST_EVENT, REQUESTED_REF
from syncline.controllers.gateways.plans import GatewaySync
from syncline.core.gateway_refs import REQUEST_ANNOTATIONS, is_outdated, is_request, request_annotations, requested_ref
from syncline.core.pushes import Push
from syncline.engine.kind_informer import MetaWire
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid, NotFound
from syncline.kube.resources import Resource
from syncline.receiver import OutdatedRequestError, RequestRefusedError

FUTURE = timedelta(days=1)
"""How far the clock of a sender can be ahead."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class RefRequests:
    """Writes and removes requests."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource

    async def take(self, sync: GatewaySync, push: Push) -> bool:
        """Write what a delivery requests; return False if it requests nothing, or nothing new.

        Raises `RequestRefusedError` for a ref that the spec does not allow, `OutdatedRequestError` for an event that is
        older than one that was taken, and `KubeError`.
        """
        spec, meta = sync.spec, sync.metadata
        if spec is None or not is_request(push):
            return False
        ref = requested_ref(spec.webhook, spec.git.ref, push)
        if not ref:
            allowed = ", ".join(spec.webhook.allowed_refs[:5]) or "git.ref, and tags"
            raise RequestRefusedError(f"the sync does not allow the requested ref; webhook.allowedRefs has: {allowed}")
        for last in (False, False, True):  # two deliveries can come at the same time, to two replicas
            live = (await self._client.get(self._resource, meta.name, meta.namespace, type=MetaWire)).metadata
            if live.uid != meta.uid:
                return False
            is_known = ref == (live.annotations.get(REQUESTED_REF, "") or spec.git.ref)
            if is_outdated(push, live.annotations):
                if is_known:
                    return False
                raise OutdatedRequestError("not newer than the last event that requested a ref: ignored")
            try:
                await self._write(live, push, "" if is_known else ref)
            except Conflict:
                if last:
                    raise
            else:
                return not is_known
        return False

    async def _write(self, live: ObjectMeta, push: Push, ref: str) -> None:
        """Write a request, unless the ref is empty, and the time of its event."""
        now = datetime.now(UTC)
        # An event of the future would keep all later events from being taken.
        is_timed = bool(push.time) and push.time <= (now + FUTURE).strftime(_TIME)
        annotations = {NEWEST_EVENT: push.time} if is_timed else {}
        if ref:
            annotations |= request_annotations(ref, now.strftime(_TIME), push.host)
        if annotations:
            # The version makes sure that the annotations are still those that were read.
            meta = {"uid": live.uid, "resourceVersion": live.resource_version, "annotations": annotations}
            await self._client.patch(self._resource, live.name, live.namespace, {"metadata": meta}, PatchKind.MERGE)

    async def end(self, sync: GatewaySync) -> None:
        """Remove the annotations of a request that has ended, unless there is another request by now."""
        meta = sync.metadata
        patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
        for path, value in ((_path(name), meta.annotations.get(name)) for name in REQUEST_ANNOTATIONS):
            if value is not None:
                patch += [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
        try:
            await self._client.patch(self._resource, meta.name, meta.namespace, patch, PatchKind.JSON)
        except (Invalid, NotFound):  # somebody has changed it meanwhile, which enqueues the sync
            return


def _path(annotation: str) -> str:
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")
