"""Whose an object is, by the marks that the documentation describes."""

import hashlib
import json
from dataclasses import dataclass

from tests.churn.api import Json, Place, bare, is_far
from tests.churn.names import MARKER, OWNER
from tests.churn.snapshot import Snapshot

_KINDS = {"NetworkPolicy": "NetworkPolicy.networking.k8s.io", "Widget": "Widget.example.com"}


@dataclass(frozen=True)
class Mark:
    """What the marks of an object say."""

    ref: str
    owner: str
    mode: str
    source: str


def mark_of(snapshot: Snapshot, place: Place) -> Mark | None:
    """Return the marks of an object, or None where it is foreign: without marks, or with those of another object."""
    body = snapshot.objects.get(place)
    if body is None:
        return None
    meta = body["metadata"]
    owner = meta.get("labels", {}).get(OWNER)
    try:
        marker: Json = json.loads(meta.get("annotations", {}).get(MARKER, "null"))
    except ValueError:
        return None
    far = is_far(place[0])
    kind, namespace, name = bare(place[0]), *place[1:]
    here = f"{snapshot.far if far else snapshot.cluster}/{_KINDS.get(kind, kind)}/{namespace}/{name}"
    if not owner or not isinstance(marker, dict) or marker.get("at") != here or bool(marker.get("hub")) != far:
        return None
    return Mark(marker.get("sync", ""), owner, marker.get("mode", "Created"), marker.get("source", ""))


def owner_of(uid: str) -> str:
    """Return the label of all that a sync owns: a short hash of its UID."""
    return hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()
