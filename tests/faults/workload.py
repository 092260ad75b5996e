"""A short life of one sync, told in steps; after each, what is there can be compared between runs."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.faults.scene import NAME, Json, Scene

from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.testing.audit import OPERATOR

# What differs between two clean runs.
_MASKED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "lastSyncTime")
_MASKED_IN_MARKER = ("revision", "owner", "proof", "made", "uid")
_FOREIGN = "untouched"


class Workload:
    """The steps, in a scene of their own."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._began = scene.audit.mark()
        self.targets = [scene.namespace(short) for short in ("a", "b", "c")]
        outside = scene.namespace("outside", scene="other")
        scene.config_map(outside, NAME, value=_FOREIGN)
        scene.config_map(self.targets[0], "other", {OWNER_LABEL: "somebody"}, value=_FOREIGN)
        self._foreign = self._read_foreign()
        self.steps: list[tuple[str, Callable[[], None]]] = [
            ("create", self._create),
            ("edit the source", lambda: scene.source("2")),
            ("add a namespace", lambda: self.targets.append(scene.namespace("d"))),
            ("delete a copy", lambda: scene.delete_config_map(self.targets[1])),
            ("edit a copy", lambda: scene.config_map(self.targets[2], NAME, value="edited")),
            ("narrow the scope", self._narrow),
            ("delete the sync", self._delete),
        ]

    def is_done(self) -> bool:
        """Whether the last step has had its effect, in a run without faults."""
        if not self.targets:
            return self._scene.get_sync() is None and self._all_hold()
        # The copies may be there before the status says so.
        told = self._scene.status().get("targets", {}).get("summary")
        return told == f"{len(self.targets)}/{len(self.targets)}" and self._scene.is_settled() and self._all_hold()

    def snapshot(self) -> str:
        """Tell all that is there, without what differs between any two runs."""
        sync = self._scene.get_sync()
        told = [_config_map(item) for item in self._config_maps()] + ([_sync(sync)] if sync is not None else [])
        return json.dumps(sorted(told, key=str), indent=1, sort_keys=True).replace(self._scene.prefix, "scene")

    def counts(self) -> dict[str, Counter[str]]:
        """Count the ConfigMaps that the operator has created and deleted, by namespace."""
        entries = self._scene.audit.entries(OPERATOR, since=self._began, until=self._scene.audit.mark())
        done = [entry for entry in entries if entry.done and entry.resource == "configmaps"]
        return {
            verb: Counter(entry.namespace.removeprefix(self._scene.prefix) for entry in done if entry.verb == verb)
            for verb in ("create", "delete")
        }

    def check_foreign(self) -> None:
        """What is not ours has not even been touched."""
        assert self._read_foreign() == self._foreign

    def _create(self) -> None:
        self._scene.source("1")
        self._scene.sync()

    def _narrow(self) -> None:
        self.targets.pop(0)
        self._scene.sync(destinationNamespaces=self.targets)

    def _delete(self) -> None:
        self.targets.clear()
        self._scene.delete_sync()

    def _all_hold(self) -> bool:
        foreign = (f"{self._scene.prefix}-a", "other")
        values = {place: copy["data"] for place, copy in self._scene.copies().items() if place != foreign}
        source = self._scene.sandbox.request("GET", f"/api/v1/namespaces/{self._scene.home}/configmaps/{NAME}")
        return values == {(namespace, NAME): source["data"] for namespace in self.targets}

    def _read_foreign(self) -> list[tuple[str, str, str]]:
        found = [item["metadata"] for item in self._config_maps() if item["data"] == {"value": _FOREIGN}]
        return sorted((meta["namespace"], meta["uid"], meta["resourceVersion"]) for meta in found)

    def _config_maps(self) -> list[Json]:
        found = self._scene.sandbox.request("GET", "/api/v1/configmaps", timeout=60)["items"]
        return [item for item in found if item["metadata"]["namespace"].startswith(f"{self._scene.prefix}-")]


def _config_map(item: Json) -> Json:
    masked: Json = _masked(item)
    annotations = masked["metadata"].get("annotations", {})
    if MARKER in annotations:
        annotations[MARKER] = {**json.loads(annotations[MARKER]), **dict.fromkeys(_MASKED_IN_MARKER, "")}
    return masked


def _sync(item: Json) -> Any:
    status = {
        key: value for key, value in (item.get("status") or {}).items() if key not in ("history", "scope", "proof")
    }
    conditions = sorted(status.get("conditions", []), key=lambda condition: str(condition["type"]))
    return _masked({**item, "status": {**status, "conditions": conditions, "sourceRevision": ""}})


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {key: _masked(part) for key, part in value.items() if key not in _MASKED}
        return {key: "ours" if key == OWNER_LABEL and part != "somebody" else part for key, part in plain.items()}
    if isinstance(value, list):
        return [_masked(part) for part in value]
    return value
