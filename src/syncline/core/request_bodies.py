"""The request bodies of writes: create, update, apply, replace and release.

Updates are JSON patches that first test the object: its UID, and our label if it is ours. So an object that others have
re-created or released since it was observed is never changed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from syncline.core.digest import brief, combined_digest, short_digest
from syncline.core.objects import Body, Content, Desired, Marker, Observed
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL, Owner
from syncline.core.plan import Change, extra_keys

Json = dict[str, Any]


def create_body(
    desired: Desired, owner: Owner, object_id: str, change: Change, content: Content, *, made: int = 0
) -> Json:
    """Return the object to create; `made` is the time by the clock of the server, 0 if it is not known."""
    metadata = _metadata(desired, owner, object_id, change, made=made)
    if desired.body is not None:
        return _manifest(desired.body, metadata)
    body: Json = {"apiVersion": "v1", "kind": desired.target.kind, "metadata": metadata}
    if content.data:
        body["data"] = content.data
    if content.binary_data:
        body["binaryData"] = content.binary_data
    if content.immutable:
        body["immutable"] = True
    if content.type:
        body["type"] = content.type
    return body


def apply_body(
    desired: Desired, observed: Observed, owner: Owner, object_id: str, change: Change, *, version: str = ""
) -> Json:
    """Return the body of a server-side apply. Its UID makes the server refuse it for any other object.

    The server removes our labels, annotations and fields that are no longer sent, because they were ours.
    """
    assert desired.body is not None  # noqa: S101 - the others are patched
    metadata = {**_metadata(desired, owner, object_id, change, uid=observed.uid), "uid": observed.uid}
    if version:
        metadata["resourceVersion"] = version
    return _manifest(desired.body, metadata)


def replace_body(desired: Desired, live: Json, owner: Owner, object_id: str, change: Change) -> Json:
    """Return the object that makes the live one exactly the source.

    Finalizers and owner references stay. The caller restores the allocated values (`strip.preserve_allocated`).
    """
    assert desired.body is not None  # noqa: S101 - the others are patched
    kept = {
        key: value
        for key, value in live["metadata"].items()
        if key in ("uid", "resourceVersion", "finalizers", "ownerReferences", "creationTimestamp", "generation")
    }
    metadata = {**kept, **_metadata(desired, owner, object_id, change, uid=live["metadata"]["uid"])}
    if finalizers := list(dict.fromkeys((*kept.get("finalizers", ()), *desired.finalizers))):
        metadata["finalizers"] = finalizers
    body = _manifest(desired.body, metadata)
    return {**body, **({"status": live["status"]} if "status" in live else {})}


def _metadata(desired: Desired, owner: Owner, object_id: str, change: Change, *, uid: str = "", made: int = 0) -> Json:
    namespace = {"namespace": desired.target.namespace} if desired.target.namespace else {}
    finalizers = {"finalizers": list(desired.finalizers)} if desired.finalizers else {}
    return {
        **namespace,
        **finalizers,
        "name": desired.target.name,
        "labels": {**desired.labels, OWNER_LABEL: owner.label},
        "annotations": {**desired.annotations, **marks_of(desired, owner, object_id, change, uid=uid, made=made)},
    }


def _manifest(body: Body, metadata: Json) -> Json:
    return {**body.fields, "apiVersion": body.api_version, "kind": body.kind, "metadata": metadata}


def update_patch(desired: Desired, observed: Observed, owner: Owner, object_id: str, change: Change) -> list[Json]:
    """Return the JSON patch for a planned update."""
    patch = _guards(observed, version=change.guard_version)
    if not change.metadata_only:
        patch += _content_patch(desired, observed, change)
    if desired.content.immutable and not observed.immutable:
        patch.append({"op": "add", "path": "/immutable", "value": True})
    sent = observed.marker
    marks = marks_of(desired, owner, object_id, change, uid=observed.uid)
    patch += _map_patch(
        "/metadata/labels",
        desired.labels if observed.owner == owner.label else {**desired.labels, OWNER_LABEL: owner.label},
        observed.labels,
        there=observed.has_labels,
        gone=extra_keys(observed.labels) if change.exact else (sent.labels if sent else ()),
    )
    patch += _map_patch(
        "/metadata/annotations",
        {**desired.annotations, **marks},
        observed.annotations,
        there=observed.has_annotations,
        gone=extra_keys(observed.annotations) if change.exact else (sent.annotations if sent else ()),
    )
    if change.base is None and observed.base is not None:
        patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(BASE)}"})
    return patch


def marks_patch(desired: Desired, observed: Observed, owner: Owner, object_id: str, change: Change) -> list[Json]:
    """Return the JSON patch that writes our marks again, and nothing else."""
    values = marks_of(desired, owner, object_id, change, uid=observed.uid).items()
    marks: list[Json] = [
        {"op": "add", "path": f"/metadata/annotations/{escape(name)}", "value": value} for name, value in values
    ]
    return [*_guards(observed, version=False), *marks]


def renewal_patch(observed: Observed, owner: Owner) -> list[Json]:
    """Return the JSON patch that signs the marker of an object again, with the same content."""
    marker = observed.marker or observed.claim
    assert marker is not None  # noqa: S101 - the caller looked
    said = structs.replace(marker, sync=owner.ref, owner=owner.label, made=0, uid=short_digest(observed.uid), proof="")
    signed = owner.keys.write(said)
    patch = _guards(observed, version=True)
    patch.append({"op": "replace", "path": f"/metadata/annotations/{escape(MARKER)}", "value": signed})
    return patch


def release_patch(observed: Observed) -> list[Json]:
    """Return the JSON patch that removes our marks, and nothing else."""
    patch = _guards(observed, version=False)
    patch.append({"op": "remove", "path": f"/metadata/labels/{escape(OWNER_LABEL)}"})
    patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(MARKER)}"})
    if observed.base is not None:
        patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(BASE)}"})
    return patch


def _guards(observed: Observed, *, version: bool) -> list[Json]:
    guards: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": observed.uid}]
    if observed.owner:
        guards.append({"op": "test", "path": f"/metadata/labels/{escape(OWNER_LABEL)}", "value": observed.owner})
    if version:
        # Not a test: the server answers a stale version with a conflict, and a lost object with another error.
        guards.append({"op": "replace", "path": "/metadata/resourceVersion", "value": observed.version})
    return guards


def _content_patch(desired: Desired, observed: Observed, change: Change) -> list[Json]:
    content = desired.content
    if change.replace_all:
        # An empty map removes the last key, and is valid even if there is no map.
        whole: list[Json] = [{"op": "add", "path": "/data", "value": content.data}]
        if desired.target.kind != "Secret":
            whole.append({"op": "add", "path": "/binaryData", "value": content.binary_data})
        return whole
    there = (
        observed.value_digests
        if observed.value_digests is not None
        else (observed.content.value_digests() if observed.content is not None else {})
    )
    patch: list[Json] = [
        {"op": "add", "path": f"/{part}", "value": {}}
        for part in ("data", "binaryData")
        if any(path.startswith(part + "/") for path in change.set) and not any(p.startswith(part + "/") for p in there)
    ]
    for path in change.unset:
        part, _, name = path.partition("/")
        patch.append({"op": "remove", "path": f"/{part}/{escape(name)}"})
    for path in change.set:
        part, _, name = path.partition("/")
        patch.append({"op": "add", "path": f"/{part}/{escape(name)}", "value": content.value_at(path)})
    return patch


def _map_patch(
    path: str, wanted: Mapping[str, str], there_values: Mapping[str, str], *, there: bool, gone: Iterable[str]
) -> list[Json]:
    patch: list[Json] = [] if there or not wanted else [{"op": "add", "path": path, "value": {}}]
    patch.extend(
        {"op": "add", "path": f"{path}/{escape(key)}", "value": value}
        for key, value in wanted.items()
        if there_values.get(key) != brief(value)
    )
    stale = [key for key in gone if key not in wanted and key in there_values]
    patch.extend({"op": "remove", "path": f"{path}/{escape(key)}"} for key in stale)
    return patch


def write_digest(desired: Desired, owner: Owner, change: Change) -> str:
    """Return the digest of everything that a write sends, except the revision of the source."""
    content = desired.content
    maps = (desired.labels, desired.annotations, change.base or {})
    return short_digest(
        owner.label,
        change.digest,
        content.type,
        str(content.immutable),
        *(msgspec.json.encode(one, order="sorted").decode() for one in maps),
    )


def marks_of(
    desired: Desired, owner: Owner, object_id: str, change: Change, *, uid: str = "", made: int = 0
) -> dict[str, str]:
    """Return the annotations that make an object ours, and that record the sent content.

    They are valid for the object with this UID; without a UID, for an object that is created now.
    """
    base = msgspec.json.encode(change.base, order="sorted").decode() if change.base is not None else ""
    marker = Marker(
        sync=owner.ref,
        object_id=object_id,
        hub_uid=owner.hub_uid,
        source=desired.source,
        revision=desired.revision,
        source_version=desired.source_version,
        digest=change.digest,
        key=desired.key,
        mode=change.mode,
        labels=tuple(sorted(desired.labels)),
        annotations=tuple(sorted(desired.annotations)),
        unkept=change.unkept,
        base=base_seal(change.base),
        resolved=change.resolved,
        owner=owner.label,
        made=made,
        uid=short_digest(uid) if uid else "",
    )
    return {MARKER: owner.keys.write(marker)} | ({BASE: base} if base else {})


def base_seal(base: Mapping[str, str] | None) -> str:
    """Return the digest of a base for the marker, so that its signature covers the base too."""
    return combined_digest(base) if base is not None else ""


def escape(key: str) -> str:
    """Return a name as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
