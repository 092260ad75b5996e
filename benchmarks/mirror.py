"""Syncline's requests for the bare loop to send: the same verbs and the same bytes, made before the clock starts."""

from collections.abc import Sequence

import msgspec

from benchmarks.stage import HOME, Stage
from benchmarks.subject import Subject
from syncline.core.digest import DigestKey
from syncline.core.marks import MarkKeys
from syncline.core.objects import Desired, Marker, Observed, Target
from syncline.core.ownership import OWNER_LABEL, Owner, object_id_of
from syncline.core.plan import Change
from syncline.core.request_bodies import create_body, update_patch
from syncline.kube.resources import NAMESPACES

Request = tuple[str, bytes]

# The marks are of the same length but their own, so that the copies of the bare loop are foreign to the operator.
_OURS, _THEIRS = b"syncline.dev", b"barebone.dev"
LABEL = OWNER_LABEL.replace(_OURS.decode(), _THEIRS.decode())
_QUERY = "?fieldManager=syncline"
_KEY = DigestKey(b"a key of the same length as the operator's own")


class Mirror:
    """The requests of one sync of this name to these namespaces."""

    def __init__(self, subject: Subject, name: str, namespaces: Sequence[str], cluster: str) -> None:
        self._subject = subject
        self._targets = [Target(namespace, name, subject.kind) for namespace in namespaces]
        self._owner = Owner(subject.syncs.kind, HOME, name, name, keys=MarkKeys([bytes(32)]))
        self._cluster = cluster

    @classmethod
    async def of(cls, scene: Stage, subject: Subject, name: str, namespaces: Sequence[str]) -> "Mirror":
        system = await scene.client.get(NAMESPACES, "kube-system")
        return cls(subject, name, namespaces, system["metadata"]["uid"])

    def creates(self, token: str) -> list[Request]:
        return [
            (self._subject.resource.path(target.namespace) + _QUERY, encode(self._body(target, token)))
            for target in self._targets
        ]

    async def updates(self, scene: Stage, token: str) -> list[Request]:
        return [
            (self._path(target) + _QUERY, encode(self._patch(target, uid, token)))
            for target, uid, _ in await self._there(scene)
        ]

    async def deletes(self, scene: Stage) -> list[Request]:
        return [
            (self._path(target), msgspec.json.encode(_precondition(uid, version)))
            for target, uid, version in await self._there(scene)
        ]

    async def _there(self, scene: Stage) -> list[tuple[Target, str, str]]:
        found, _ = await scene.client.list(self._subject.resource, labels=LABEL, metadata_only=True)
        metas = {
            meta["namespace"]: meta for item in found if (meta := item["metadata"])["name"] == self._targets[0].name
        }
        return [
            (target, metas[target.namespace]["uid"], metas[target.namespace]["resourceVersion"])
            for target in self._targets
        ]

    def _body(self, target: Target, token: str) -> object:
        desired = self._desired(target, token)
        change = Change(digest=desired.digest)
        return create_body(desired, self._owner, object_id_of(self._cluster, target), change, desired.content)

    def _patch(self, target: Target, uid: str, token: str) -> object:
        desired = self._desired(target, token)
        object_id = object_id_of(self._cluster, target)
        marker = Marker(sync=self._owner.ref, object_id=object_id)
        observed = Observed(target=target, uid=uid, version="", digest="", owner=self._owner.label, marker=marker)
        return update_patch(desired, observed, self._owner, object_id, Change(digest=desired.digest))

    def _desired(self, target: Target, token: str) -> Desired:
        content = self._subject.content(token)
        source = f"{target.kind}/{HOME}/{target.name}"
        digest = content.digest(_KEY)
        return Desired(target=target, content=content, digest=digest, key=_KEY.id, source=source, revision="10000")

    def _path(self, target: Target) -> str:
        return self._subject.resource.path(target.namespace, target.name)


def encode(body: object) -> bytes:
    """Encode what the operator would send, under the marks of the bare loop."""
    return msgspec.json.encode(body).replace(_OURS, _THEIRS)


def _precondition(uid: str, version: str) -> dict[str, object]:
    return {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": uid, "resourceVersion": version},
    }
