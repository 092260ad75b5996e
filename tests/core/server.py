"""An API server as far as ConfigMaps and Secrets go: what a plan's writes meet, in memory.

JSON patches are applied as the real one does (a test that fails, a missing parent and a missing key refuse the whole
patch); a stale version, a changed UID, an edit of what is immutable, another type of a Secret and a key in both maps
are refused too.
"""

import copy
import itertools
from collections.abc import Mapping
from typing import Any

import msgspec

from syncline.core.marks import MarkKeys
from syncline.core.objects import Observed, Target
from syncline.core.wire import DataWire, to_observed

Json = dict[str, Any]
KEYS = MarkKeys([b"k" * 32])


class RefusedError(Exception):
    """The API server says no; nothing was changed."""


class ApiServer:
    def __init__(self) -> None:
        self.objects: dict[Target, Json] = {}
        self._numbers = itertools.count(1)

    def get(self, target: Target) -> Json | None:
        return copy.deepcopy(self.objects.get(target))

    def see(self, target: Target, *, body: bool = False) -> Observed | None:
        stored = self.objects.get(target)
        if stored is None:
            return None
        wire = msgspec.json.decode(msgspec.json.encode(stored), type=DataWire)
        return to_observed(wire, kind=target.kind, body=body, marks=KEYS)

    def snapshot(self) -> dict[Target, bytes]:
        return {target: msgspec.json.encode(stored, order="sorted") for target, stored in self.objects.items()}

    def create(self, body: Json) -> Json:
        made = copy.deepcopy(body)
        target = Target(made["metadata"]["namespace"], made["metadata"]["name"], made.get("kind", "ConfigMap"))
        if target in self.objects:
            raise RefusedError("AlreadyExists")
        made["metadata"]["uid"] = f"uid-{next(self._numbers)}"
        return self._store(target, made)

    def patch(self, target: Target, patch: list[Json]) -> Json:
        before = self.objects.get(target)
        if before is None:
            raise RefusedError("NotFound")
        after = copy.deepcopy(before)
        apply_json_patch(after, patch)
        return self._replace(target, before, after)

    def edit(self, target: Target, after: Json) -> Json:
        """Write as a person does who read the object just now."""
        return self._replace(target, self.objects[target], copy.deepcopy(after))

    def delete(self, target: Target, *, uid: str, version: str) -> None:
        stored = self.objects.get(target)
        if stored is None:
            raise RefusedError("NotFound")
        if (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]) != (uid, version):
            raise RefusedError("Conflict: a precondition of the delete does not hold")
        del self.objects[target]

    def remove(self, target: Target) -> None:
        """Delete as a person does, without a precondition."""
        del self.objects[target]

    def _replace(self, target: Target, before: Json, after: Json) -> Json:
        for field in ("uid", "name", "namespace"):
            if after["metadata"].get(field) != before["metadata"][field]:
                raise RefusedError(f"Invalid: metadata.{field} cannot be changed")
        if after["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
            raise RefusedError("Conflict: the object has been modified")
        _tidy(after)
        if before.get("immutable"):
            for field in ("data", "binaryData", "immutable"):
                if after.get(field) != before.get(field):
                    raise RefusedError(f"Invalid: {field} of an immutable ConfigMap cannot be changed")
        if after.get("type") != before.get("type"):
            raise RefusedError("Invalid: type of a Secret cannot be changed")
        return before if after == before else self._store(target, after)

    def _store(self, target: Target, made: Json) -> Json:
        _tidy(made)
        if target.kind == "Secret":
            made.setdefault("type", "Opaque")
        if both := made.get("data", {}).keys() & made.get("binaryData", {}).keys():
            raise RefusedError(f"Invalid: keys in data and in binaryData: {sorted(both)}")
        made["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[target] = made
        return made


def apply_json_patch(document: Json, patch: list[Json]) -> None:
    """RFC 6902 for documents of maps, as far as the product uses it."""
    for step in patch:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        parent: Any = document
        for part in way:
            if not isinstance(parent, Mapping) or part not in parent:
                raise RefusedError(f"Invalid: {step['op']} misses the parent of {step['path']}")
            parent = parent[part]
        if not isinstance(parent, dict):
            raise RefusedError(f"Invalid: {step['path']} is not in a map")
        match step["op"]:
            case "test" if last not in parent or parent[last] != step["value"]:
                raise RefusedError(f"Invalid: test of {step['path']} failed")
            case "test":
                pass
            case "add":
                parent[last] = copy.deepcopy(step["value"])
            case "replace" if last in parent:
                parent[last] = copy.deepcopy(step["value"])
            case "remove" if last in parent:
                del parent[last]
            case operation:
                raise RefusedError(f"Invalid: {operation} misses {step['path']}")


def _tidy(stored: Json) -> None:
    """Leave out empty maps, as the server's JSON does."""
    for part in ("data", "binaryData", "immutable"):
        if not stored.get(part):
            stored.pop(part, None)
    for part in ("labels", "annotations"):
        if not stored["metadata"].get(part):
            stored["metadata"].pop(part, None)
