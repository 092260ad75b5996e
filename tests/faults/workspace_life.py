"""A short life of one WorkspaceSync, told in steps; after each, what is on both sides can be compared between runs."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.configmapsync.world import conditions, until
from tests.fleet.world import Remote
from tests.workspacesync.world import Cluster, Json, Workspaces, report, resource

from syncline.core.ownership import BASE, MARKER, OWNER_LABEL
from syncline.sandbox import RequestError, Sandbox

# What differs between two clean runs.
_MASKED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_MARKS = (OWNER_LABEL, MARKER, BASE)


class WorkspaceLife:
    """Two namespaces upstream, ConfigMaps that go both ways, and a Widget that reports its status."""

    def __init__(self, hub: Sandbox, upstream: Remote, below: Remote) -> None:
        self.world = Workspaces(hub, upstream, east=below)
        for cluster in (upstream, below):
            self.world.define_widgets(cluster)
            until(lambda: self._widgets(cluster), lambda found: found is not None)  # noqa: B023 - called at once
        self._below = below
        self._began = self.world.mark_at(below)
        self._sync: Any = None
        self.shop = self.world.above("shop")
        self.later = f"{self.world.name}-later"
        self.steps: list[tuple[str, Callable[[], object]]] = [
            ("create", self._create),
            ("edit the source", lambda: self.world.up("ConfigMap", self.shop, "a").put("data", "colour", value="blue")),
            ("edit the copy", lambda: self.world.down("ConfigMap", self.shop, "b").put("data", "size", value="large")),
            ("report a status", lambda: report(self.world.down("Widget", self.shop), phase="Running")),
            ("add a namespace", self._add_namespace),
            ("delete a source", lambda: self.world.up("ConfigMap", self.shop, "a").delete()),
            ("leave a namespace", self._leave_namespace),
            ("delete the sync", self._delete),
        ]

    def is_done(self, step: str) -> bool:
        """Whether a step has had its effect, in a run without faults."""
        if step == "delete the sync":
            return self._sync.look() is None and self.shop not in self.world.namespaces_at()
        names = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in self._objects("below")}
        effects: dict[str, Callable[[], bool]] = {
            "create": lambda: len(names) == 3,
            "edit the source": lambda: self._shows("below", "ConfigMap", "a", ("data", "colour"), "blue"),
            "edit the copy": lambda: self._shows("above", "ConfigMap", "b", ("data", "size"), "large"),
            "report a status": lambda: self._shows("above", "Widget", "app", ("status", "phase"), "Running"),
            "add a namespace": lambda: (self.later, "c") in names,
            "delete a source": lambda: (self.shop, "a") not in names,
            "leave a namespace": lambda: self.later not in self.world.namespaces_at(),
        }
        return effects[step]() and self._is_settled(len(names))

    def snapshot(self) -> str:
        """Tell all that is on both sides, and what the sync says of it, without what differs between any two runs."""
        body = self._sync.look() if self._sync is not None else None
        told = {
            "above": self._shapes("above"),
            "below": self._shapes("below"),
            "namespaces": self.world.namespaces_at(),
            "sync": _told(body) if body is not None else None,
        }
        return json.dumps(told, indent=1, sort_keys=True).replace(self.world.name, "world")

    def counts(self) -> dict[str, Counter[str]]:
        """Count what was created and deleted below, by resource and place."""
        entries = [entry for entry in self.world.written_at(self._below, self._began) if entry.done]
        return {
            verb: Counter(
                f"{entry.resource} {entry.namespace}/{entry.name}".replace(self.world.name, "world")
                for entry in entries
                if entry.verb == verb and not entry.subresource
            )
            for verb in ("create", "delete")
        }

    def check_upstream(self) -> None:
        """Nothing of ours is on upstream objects."""
        for one in self._objects("above"):
            meta = one["metadata"]
            keys = {*meta.get("labels", {}), *meta.get("annotations", {})}
            assert not keys & set(_MARKS)
            assert not meta.get("finalizers")

    def _create(self) -> None:
        self.world.data(self.shop, "a")
        self.world.data(self.shop, "b")
        self.world.widget(self.shop, size=1)
        self._sync = self.world.wsync(
            "sync",
            resource("configmaps", direction="Bidirectional", conflictStrategy="MergeChanges"),
            self.world.widgets(),
            deletePropagation="Both",
            statusSync=True,
        )

    def _add_namespace(self) -> None:
        self.world.above("later")
        self.world.data(self.later, "c")

    def _delete(self) -> None:
        self._sync.delete()

    def _leave_namespace(self) -> None:
        self.world.up("Namespace", "", self.later).label(world=None)

    def _is_settled(self, copies: int) -> bool:
        body = self._sync.look()
        if body is None:
            return False
        status, ready = body.get("status", {}), conditions(body).get("Ready", {})
        known = {one["upstream"] for one in status.get("namespaces", [])}
        recorded = {entry.partition("=")[0] for entry in status.get("recordedNamespaces", [])}
        return (
            ready.get("status") == "True"
            and ready.get("observedGeneration") == body["metadata"]["generation"]
            and status.get("targets", {}).get("summary") == f"{copies}/{copies}"
            and (self.later in self.world.namespaces_at()) == (self.later in known) == (self.later in recorded)
        )

    def _shows(self, side: str, kind: str, name: str, path: tuple[str, str], value: str) -> bool:
        thing = (self.world.up if side == "above" else self.world.down)(kind, self.shop, name).look()
        return thing is not None and (thing.get(path[0]) or {}).get(path[1]) == value

    def _shapes(self, side: str) -> list[Json]:
        return sorted((_masked(one) for one in self._objects(side)), key=str)

    def _objects(self, side: str) -> list[Json]:
        """Return the objects of this life on one side; below only those with our label."""
        cluster = self.world.upstream if side == "above" else self._below
        found = cluster.sandbox.request("GET", "/api/v1/configmaps", timeout=60)["items"]
        found += self._widgets(cluster) or []
        mine = [one for one in found if one["metadata"]["namespace"] in (self.shop, self.later)]
        mine = [one for one in mine if one["metadata"]["name"] != "kube-root-ca.crt"]
        if side == "above":
            return mine
        return [one for one in mine if OWNER_LABEL in one["metadata"].get("labels", {})]

    def _widgets(self, cluster: Cluster) -> list[Json] | None:
        """Return the Widgets of a cluster; None while it does not serve them yet."""
        try:
            found = cluster.sandbox.request("GET", f"/apis/{self.world.group}/v1/widgets", timeout=60)["items"]
        except RequestError as error:
            if error.status not in (404, 429):
                raise
            return None
        return list(found)


def _told(body: Json) -> Json:
    status = body.get("status", {})
    kept = ("targets", "namespaces", "resources", "conflicts", "copiesSkipped", "recordedNamespaces")
    states = sorted((one["type"], one["status"], one["reason"]) for one in status.get("conditions", []))
    return {"conditions": states, **{key: status.get(key) for key in kept}}


def _masked(body: Json) -> Json:
    meta = {key: value for key, value in body["metadata"].items() if key not in _MASKED}
    for part in ("labels", "annotations"):
        if part in meta:
            meta[part] = {key: "ours" if key in _MARKS else value for key, value in meta[part].items()}
    return {**{key: value for key, value in body.items() if key not in ("apiVersion", "kind")}, "metadata": meta}
