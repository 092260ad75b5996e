"""A scene of its own for one test: namespaces, ConfigMaps and syncs, with the verbs that the tests are told in."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from tests.acting import account_of_tests, acting, empower

from syncline.api.common import API_VERSION, FINALIZER, REQUESTED_AT
from syncline.api.configmapsync import KIND, PLURAL
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.sandbox import Access, RequestError, Sandbox
from syncline.testing.audit import OPERATOR, AuditLog, Entry

T = TypeVar("T")
Json = dict[str, Any]

SECONDS = 180.0
# A third of the requests of tests are such looks: a longer wait is looked at less often.
FIRST_POLL = 0.03
LAST_POLL = 0.3
POLL_GROWTH = 1.4


def until(look: Callable[[], T], holds: Callable[[T], object]) -> T:
    """Look until it holds, and return what was seen then."""
    deadline, pause = time.monotonic() + SECONDS, FIRST_POLL
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s; last seen: {seen}"
        time.sleep(pause)
        pause = min(LAST_POLL, pause * POLL_GROWTH)
    return seen


class Thing:
    """One object of the cluster, there or not."""

    def __init__(self, sandbox: Sandbox, folder: str, name: str) -> None:
        self.sandbox = sandbox
        self.name = name
        self.path = f"{folder}/{name}"
        self._folder = folder

    def create(self, body: Mapping[str, Any]) -> Json:
        return self.sandbox.request("POST", self._folder, body)

    def look(self) -> Json | None:
        try:
            return self.sandbox.request("GET", self.path)
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def read(self) -> Json:
        seen = self.look()
        assert seen is not None, f"{self.path} does not exist"
        return seen

    def edit(self, change: Callable[[Json], object], manager: str = "somebody") -> Json:
        """Change it as `kubectl edit` does; once more if somebody was faster."""
        while True:
            body = self.read()
            change(body)
            try:
                return self.sandbox.request("PUT", f"{self.path}?fieldManager={manager}", body)
            except RequestError as error:
                if error.status != 409:
                    raise

    def edit_if_there(self, change: Callable[[Json], object]) -> None:
        """Change it, unless it is gone or goes at this moment; once more if somebody was faster."""
        while (body := self.look()) is not None:
            change(body)
            try:
                self.sandbox.request("PUT", self.path, body)
            except RequestError as error:
                if error.status not in (404, 409):
                    raise
            else:
                return

    def release(self) -> None:
        """Delete it and take its finalizers away; an operator that still runs may be faster."""
        self.delete()
        self.edit_if_there(lambda body: body["metadata"].update(finalizers=[]))

    def label(self, **labels: str | None) -> None:
        self.edit(lambda body: _put(body, "labels", labels))

    def annotate(self, annotations: Mapping[str, str | None]) -> None:
        self.edit(lambda body: _put(body, "annotations", annotations))

    def delete(self) -> None:
        try:
            self.sandbox.request("DELETE", self.path)
        except RequestError as error:
            if error.status != 404:
                raise

    def gone(self) -> None:
        """Wait until it is not there."""
        until(self.look, lambda seen: seen is None)


class CopiedThing(Thing):
    """An object that may be a source, a copy, or neither."""

    @property
    def uid(self) -> str:
        return str(self.read()["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Labels but our own mark."""
        return {key: value for key, value in _meta(self.read(), "labels").items() if key != OWNER_LABEL}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations but our own mark."""
        return {key: value for key, value in _meta(self.read(), "annotations").items() if key != MARKER}

    @property
    def marked(self) -> bool:
        """Whether it carries the marks of a copy."""
        body = self.read()
        return OWNER_LABEL in _meta(body, "labels") and MARKER in _meta(body, "annotations")


class ConfigMap(CopiedThing):
    """A source, a copy, or neither."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, f"/api/v1/namespaces/{namespace}/configmaps", name)
        self.namespace = namespace

    @property
    def data(self) -> dict[str, str]:
        return dict(self.read().get("data", {}))

    def set(self, manager: str = "somebody", **data: str | None) -> None:
        """Set keys; None removes one."""

        def change(body: Json) -> None:
            body["data"] = {key: value for key, value in {**body.get("data", {}), **data}.items() if value is not None}

        self.edit(change, manager)

    def becomes(self, **data: str) -> None:
        """Wait until it holds exactly this."""
        until(self.look, lambda seen: seen is not None and seen.get("data", {}) == data)

    def wears(self, **labels: str) -> None:
        """Wait until it has exactly these labels, our own mark aside."""
        until(lambda: self.labels, lambda seen: seen == labels)

    def appears(self) -> None:
        until(self.look, lambda seen: seen is not None)


class Sync(Thing):
    """A ConfigMapSync."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}", name)
        self.namespace = namespace

    @property
    def status(self) -> Json:
        return dict(self.read().get("status", {}))

    @property
    def conditions(self) -> dict[str, Json]:
        return conditions(self.read())

    @property
    def message(self) -> str:
        return str(self.conditions["Ready"]["message"])

    @property
    def counts(self) -> dict[str, int]:
        """How many targets are in which state; none are left out."""
        return {state: number for state, number in self.status["targets"].items() if state != "summary" and number}

    def target(self, namespace: str) -> Json:
        """Return what the status says of the target in a namespace."""
        found = [entry for entry in self.status["targetStatuses"] if entry["namespace"] == namespace]
        assert len(found) == 1, f"{len(found)} targets in {namespace}"
        return dict(found[0])

    def becomes(self, reason: str, **wanted: object) -> Json:
        """Wait until Ready has this reason for the spec as it is now, and counts are as wanted; return Ready."""

        def holds(body: Json) -> bool:
            status = body.get("status", {})
            ready = conditions(body).get("Ready", {})
            counts = status.get("targets", {})
            return (
                ready.get("reason") == reason
                and ready.get("observedGeneration") == body["metadata"]["generation"]
                and all(counts.get(state) == number for state, number in wanted.items())
            )

        return conditions(until(self.read, holds))["Ready"]

    def becomes_held(self) -> None:
        """Wait until our finalizer is on it: the moment before the first write."""
        until(self.read, lambda body: FINALIZER in body["metadata"].get("finalizers", ()))

    def says(self, namespace: str, reason: str) -> Json:
        """Wait until the status gives this reason for the target in a namespace; "" for one that is synced."""

        def entries(body: Json) -> list[Json]:
            found = body.get("status", {}).get("targetStatuses", [])
            return [entry for entry in found if entry["namespace"] == namespace and entry.get("reason", "") == reason]

        return entries(until(self.read, entries))[0]

    def did(self, changes: str) -> Json:
        """Wait until the last change in the history is this one."""
        latest = until(lambda: self.status.get("history", [])[:1], lambda seen: seen and seen[0]["changes"] == changes)
        return dict(latest[0])

    def change(self, **spec: object) -> None:
        """Edit the spec; None removes a field."""

        def apply(body: Json) -> None:
            body["spec"] = {key: value for key, value in {**body["spec"], **spec}.items() if value is not None}

        self.edit(apply)

    def now(self) -> None:
        """Ask for a turn and wait for its end."""
        request = uuid4().hex
        self.annotate({REQUESTED_AT: request})
        until(self.read, lambda body: body.get("status", {}).get("lastHandledRequest") == request)

    def events(self) -> list[Json]:
        found = self.sandbox.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        mine = [event for event in found if event["regarding"]["name"] == self.name]
        return sorted(mine, key=lambda event: str(event["eventTime"]))

    def tells(self, reason: str) -> Json:
        """Wait for an event with this reason."""
        seen = until(self.events, lambda events: any(event["reason"] == reason for event in events))
        return next(event for event in seen if event["reason"] == reason)


def edit_at(access: Access, path: str, change: Callable[[Json], object], part: str) -> None:
    """Change an object, or a part of it such as `/status`; once more if somebody was faster."""
    while True:
        body = access.request("GET", path)
        body["metadata"].pop("managedFields", None)
        change(body)
        try:
            access.request("PUT", f"{path}{part}", body)
        except RequestError as error:
            if error.status != 409:
                raise
        else:
            return


class World:
    """All that one test makes. Syncs and sources live in `home`.

    With an `account`, syncs that name none name this one, which may do everything.
    """

    def __init__(self, sandbox: Sandbox, *, account: str | None = None) -> None:
        self.sandbox = sandbox
        self.account = account_of_tests() if account is None else account
        self.name = f"w{uuid4().hex[:8]}"
        self.home = f"{self.name}-home"
        self._syncs: list[Sync] = []
        self._audit = AuditLog(sandbox)
        self.namespace("home")
        if self.account:
            empower(sandbox, self.home, self.account)

    def acting(self, spec: Mapping[str, Any]) -> Json:
        """Return a spec that names the account, if this world has one and the spec names none."""
        return acting(self.account, spec)

    def namespace(self, short: str, **labels: str) -> str:
        """Create a namespace and return its full name."""
        name = f"{self.name}-{short}"
        self.namespace_object(name).create({"metadata": {"name": name, "labels": labels}})
        return name

    def namespaces(self, *shorts: str, **labels: str) -> list[str]:
        return [self.namespace(short, **labels) for short in shorts]

    def namespace_object(self, name: str) -> Thing:
        return Thing(self.sandbox, "/api/v1/namespaces", name)

    def config_map(self, namespace: str, name: str = "app") -> ConfigMap:
        """Return a ConfigMap, there or not."""
        return ConfigMap(self.sandbox, namespace, name)

    def source(self, name: str = "app", **data: str) -> ConfigMap:
        """Create a source at home."""
        return self.put(self.home, name, **(data or {"colour": "red"}))

    def put(
        self,
        namespace: str,
        name: str = "app",
        *,
        body: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **data: str,
    ) -> ConfigMap:
        """Create a ConfigMap as somebody who is not us."""
        found = self.config_map(namespace, name)
        found.create({"metadata": {**(metadata or {}), "name": name}, "data": data, **(body or {})})
        return found

    def sync(self, name: str = "sync", *, metadata: Mapping[str, Any] | None = None, **spec: object) -> Sync:
        """Create a sync of `app` at home."""
        made = Sync(self.sandbox, self.home, name)
        self._syncs.append(made)
        made.create(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {**(metadata or {}), "name": name},
                "spec": self.acting({"sourceNamespace": self.home, "configMapName": "app", **spec}),
            }
        )
        return made

    def remember(self, sync: Sync) -> None:
        """Delete a sync that somebody else has made when the test ends."""
        self._syncs.append(sync)

    @contextmanager
    def refusing_deletes(self, namespace: str, name: str = "app") -> Iterator[None]:
        """Have a policy of the API server refuse for a while that ConfigMaps of this name are deleted there."""
        folder = "/apis/admissionregistration.k8s.io/v1"
        policy = Thing(self.sandbox, f"{folder}/validatingadmissionpolicies", f"{namespace}-{name}")
        binding = Thing(self.sandbox, f"{folder}/validatingadmissionpolicybindings", policy.name)
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        policy.create(
            {
                "metadata": {"name": policy.name},
                "spec": {
                    "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
                    "validations": [{"expression": f"oldObject.metadata.name != '{name}'", "reason": "Forbidden"}],
                },
            }
        )
        spec = {"policyName": policy.name, "validationActions": ["Deny"]}
        binding.create({"metadata": {"name": binding.name}, "spec": spec})
        until(lambda: self._is_delete_refused(namespace, name), bool)
        try:
            yield
        finally:
            binding.delete()
            policy.delete()
            until(lambda: self._is_delete_refused(namespace, name), lambda refused: not refused)

    def _is_delete_refused(self, namespace: str, name: str) -> bool:
        try:
            self.sandbox.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}?dryRun=All")
        except RequestError as error:
            return error.status == 403
        return False

    def copies(self) -> list[Json]:
        """Return all objects in the namespaces of this world that carry our label."""
        found = self.sandbox.request("GET", f"/api/v1/configmaps?labelSelector={quote(OWNER_LABEL)}")["items"]
        return [copy for copy in found if copy["metadata"]["namespace"].startswith(self.name)]

    def mark(self) -> int:
        """Return this moment, for `requests` and `writes`."""
        return self._audit.mark()

    def requests(self, since: int) -> list[Entry]:
        """Return what the operator has asked of the API server since then, in the namespaces of this world."""
        return [
            entry
            for entry in self._audit.entries(OPERATOR, since=since, until=self.mark())
            if entry.namespace.startswith(self.name)
        ]

    def writes(self, since: int) -> list[str]:
        """Return the operator's writes in the namespaces of this world since then."""
        return [str(entry) for entry in self.requests(since) if entry.changes]

    def end(self) -> None:
        """Delete all syncs. Namespaces stay until the cluster goes: to delete one costs more than most tests."""
        for sync in self._syncs:
            sync.delete()

    def end_alone(self) -> None:
        """Delete all syncs, whether or not an operator runs that lets go of them; what they have copied may stay."""
        for sync in self._syncs:
            sync.release()


def conditions(body: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in body.get("status", {}).get("conditions", [])}


def _meta(body: Json, part: str) -> dict[str, str]:
    return dict(body["metadata"].get(part) or {})


def _put(body: Json, part: str, values: Mapping[str, str | None]) -> None:
    merged = {**_meta(body, part), **values}
    body["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
