"""The bodies of writes: what a create sends, what an update patches, what a release takes away.

Updates are JSON patches that first test whose the object is: the UID, and our label where it is ours. An object
re-created or let go by somebody else since we saw it is therefore never hit.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from syncline.core.digest import brief, short_digest
from syncline.core.objects import Body, Content, Desired, Marker, Seen
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL, Owner
from syncline.core.plan import Edit, extra_keys

Json = dict[str, Any]


def create_body(desired: Desired, owner: Owner, here: str, edit: Edit, content: Content) -> Json:
    """Return the object to create."""
    metadata = _metadata(desired, owner, here, edit)
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


def apply_body(desired: Desired, seen: Seen, owner: Owner, here: str, edit: Edit, *, version: str = "") -> Json:
    """Return what a server-side apply sends; the UID makes the server refuse it on any other object.

    Our labels, annotations and fields that are no longer sent go by themselves: the server knows that they were ours.
    """
    assert desired.body is not None  # noqa: S101 - the others are patched
    metadata = {**_metadata(desired, owner, here, edit), "uid": seen.uid}
    if version:
        metadata["resourceVersion"] = version
    return _manifest(desired.body, metadata)


def replace_body(desired: Desired, live: Json, owner: Owner, here: str, edit: Edit) -> Json:
    """Return the object that makes the live one exactly the source.

    Finalizers and owner references stay; what the server has allocated is put back by the caller (`carry.allocated`).
    """
    assert desired.body is not None  # noqa: S101 - the others are patched
    kept = {
        key: value
        for key, value in live["metadata"].items()
        if key in ("uid", "resourceVersion", "finalizers", "ownerReferences", "creationTimestamp", "generation")
    }
    metadata = {**kept, **_metadata(desired, owner, here, edit)}
    if finalizers := list(dict.fromkeys((*kept.get("finalizers", ()), *desired.finalizers))):
        metadata["finalizers"] = finalizers
    body = _manifest(desired.body, metadata)
    return {**body, **({"status": live["status"]} if "status" in live else {})}


def _metadata(desired: Desired, owner: Owner, here: str, edit: Edit) -> Json:
    namespace = {"namespace": desired.target.namespace} if desired.target.namespace else {}
    finalizers = {"finalizers": list(desired.finalizers)} if desired.finalizers else {}
    return {
        **namespace,
        **finalizers,
        "name": desired.target.name,
        "labels": {**desired.labels, OWNER_LABEL: owner.label},
        "annotations": {**desired.annotations, **_marks(desired, owner, here, edit)},
    }


def _manifest(body: Body, metadata: Json) -> Json:
    return {**body.fields, "apiVersion": body.api_version, "kind": body.kind, "metadata": metadata}


def update_patch(desired: Desired, seen: Seen, owner: Owner, here: str, edit: Edit) -> list[Json]:
    """Return the JSON patch that makes the object what the plan wants."""
    patch = _guards(seen, version=edit.guard_version)
    if not edit.metadata_only:
        patch += _content_patch(desired, seen, edit)
    if desired.content.immutable and not seen.immutable:
        patch.append({"op": "add", "path": "/immutable", "value": True})
    sent = seen.marker
    marks = _marks(desired, owner, here, edit)
    patch += _map_patch(
        "/metadata/labels",
        desired.labels if seen.owner == owner.label else {**desired.labels, OWNER_LABEL: owner.label},
        seen.labels,
        there=seen.has_labels,
        gone=extra_keys(seen.labels) if edit.extras else (sent.labels if sent else ()),
    )
    patch += _map_patch(
        "/metadata/annotations",
        {**desired.annotations, **marks},
        seen.annotations,
        there=seen.has_annotations,
        gone=extra_keys(seen.annotations) if edit.extras else (sent.annotations if sent else ()),
    )
    if edit.base is None and seen.base is not None:
        patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(BASE)}"})
    return patch


def marks_patch(desired: Desired, seen: Seen, owner: Owner, here: str, edit: Edit) -> list[Json]:
    """Return the JSON patch that writes our marks anew, and nothing else."""
    values = _marks(desired, owner, here, edit).items()
    marks: list[Json] = [
        {"op": "add", "path": f"/metadata/annotations/{escape(name)}", "value": value} for name, value in values
    ]
    return [*_guards(seen, version=False), *marks]


def renewal_patch(seen: Seen, owner: Owner) -> list[Json]:
    """Return the JSON patch that signs the marker of an object anew; it says the same as before."""
    marker = seen.marker or seen.claim
    assert marker is not None  # noqa: S101 - the caller looked
    signed = owner.keys.write(structs.replace(marker, sync=owner.ref, owner=owner.label, proof=""))
    patch = _guards(seen, version=True)
    patch.append({"op": "replace", "path": f"/metadata/annotations/{escape(MARKER)}", "value": signed})
    return patch


def release_patch(seen: Seen) -> list[Json]:
    """Return the JSON patch that takes our marks off and leaves everything else."""
    patch = _guards(seen, version=False)
    patch.append({"op": "remove", "path": f"/metadata/labels/{escape(OWNER_LABEL)}"})
    patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(MARKER)}"})
    if seen.base is not None:
        patch.append({"op": "remove", "path": f"/metadata/annotations/{escape(BASE)}"})
    return patch


def _guards(seen: Seen, *, version: bool) -> list[Json]:
    guards: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": seen.uid}]
    if seen.owner:
        guards.append({"op": "test", "path": f"/metadata/labels/{escape(OWNER_LABEL)}", "value": seen.owner})
    if version:
        # Not a test: the server answers a stale version with a conflict, which tells it from a lost object.
        guards.append({"op": "replace", "path": "/metadata/resourceVersion", "value": seen.version})
    return guards


def _content_patch(desired: Desired, seen: Seen, edit: Edit) -> list[Json]:
    content = desired.content
    if edit.whole:
        # Setting an empty map removes the last key, and works whether or not the map is there.
        whole: list[Json] = [{"op": "add", "path": "/data", "value": content.data}]
        if desired.target.kind != "Secret":
            whole.append({"op": "add", "path": "/binaryData", "value": content.binary_data})
        return whole
    there = seen.leaves if seen.leaves is not None else (seen.content.leaves() if seen.content is not None else {})
    patch: list[Json] = [
        {"op": "add", "path": f"/{part}", "value": {}}
        for part in ("data", "binaryData")
        if any(path.startswith(part + "/") for path in edit.take) and not any(p.startswith(part + "/") for p in there)
    ]
    for path in edit.drop:
        part, _, name = path.partition("/")
        patch.append({"op": "remove", "path": f"/{part}/{escape(name)}"})
    for path in edit.take:
        part, _, name = path.partition("/")
        patch.append({"op": "add", "path": f"/{part}/{escape(name)}", "value": content.at(path)})
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


def write_digest(desired: Desired, owner: Owner, edit: Edit) -> str:
    """Name everything that a write sends, except the revision of the source: equal digests, equal writes."""
    content = desired.content
    maps = (desired.labels, desired.annotations, edit.base or {})
    return short_digest(
        owner.label,
        edit.digest,
        content.type,
        str(content.immutable),
        *(msgspec.json.encode(one, order="sorted").decode() for one in maps),
    )


def _marks(desired: Desired, owner: Owner, here: str, edit: Edit) -> dict[str, str]:
    marker = Marker(
        sync=owner.ref,
        at=here,
        hub=owner.hub,
        source=desired.source,
        revision=desired.revision,
        digest=edit.digest,
        key=desired.key,
        mode=edit.mode,
        labels=tuple(sorted(desired.labels)),
        annotations=tuple(sorted(desired.annotations)),
        unkept=edit.unkept,
        owner=owner.label,
    )
    marks = {MARKER: owner.keys.write(marker)}
    if edit.base is not None:
        marks[BASE] = msgspec.json.encode(edit.base, order="sorted").decode()
    return marks


def escape(key: str) -> str:
    """Write a name as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
