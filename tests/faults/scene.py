"""A part of a cluster with Syncline installed, as these tests set it up and look at it: as admin, past any proxy."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.acting import account_of_tests, acting, empower
from tests.configmapsync.world import Thing

from syncline.api.common import API_VERSION
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.kube import CONFIGMAPS, NAMESPACES, Client, load_kubeconfig
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.audit import OPERATOR, AuditLog, Entry
from syncline.testing.operator import OperatorProcess

Json = dict[str, Any]
Place = tuple[str, str]

NAME = "settings"
LABEL = "scene"


def wait_until(
    check: Callable[[], object], what: str, seconds: float = 180.0, *, instead: Callable[[], object] = str
) -> None:
    """Wait until a check holds; when it does not in time, fail with what was expected and what is so instead."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what} {instead()}"
        time.sleep(0.05)


class Scene:
    """Namespaces of one test's own, a source `settings` in the first of them, and whatever syncs it makes of it."""

    def __init__(self, sandbox: Sandbox, kubeconfig: Path) -> None:
        self.sandbox = sandbox
        self.kubeconfig = kubeconfig
        self.audit = AuditLog(sandbox)
        self.prefix = f"s{secrets.token_hex(3)}"
        self.home = self.namespace("home", scene="home")
        self._syncs = f"/apis/{API_VERSION}/namespaces/{self.home}/configmapsyncs"
        self._account = account_of_tests()
        if self._account:
            empower(sandbox, self.home, self._account)

    def namespace(self, short: str, **labels: str) -> str:
        """Make a namespace and return its name; it is a target of `selector` unless its labels say otherwise."""
        name = f"{self.prefix}-{short}"
        body = {"metadata": {"labels": {LABEL: self.prefix, **labels}}}
        self._apply(f"/api/v1/namespaces/{name}", "v1", "Namespace", name, body)
        return name

    def namespaces(self, count: int) -> list[str]:
        """Make many targets at once."""
        names = [f"{self.prefix}-{number:04}" for number in range(count)]

        async def make() -> None:
            async with Client(load_kubeconfig(self.sandbox.kubeconfig), max_in_flight=16) as client:
                bodies = [{"metadata": {"name": name, "labels": {LABEL: self.prefix}}} for name in names]
                await asyncio.gather(*(client.create(NAMESPACES, body) for body in bodies))

        asyncio.run(make())
        return names

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and wait until nothing of it is left."""
        path = f"/api/v1/namespaces/{name}"
        self._delete(path)
        wait_until(lambda: self._get(path) is None, f"namespace {name} to be gone")

    @property
    def selector(self) -> Json:
        """The destination that means all namespaces of this scene but its home."""
        return {"destinationNamespaceSelector": {"matchLabels": {LABEL: self.prefix}}}

    def source(self, value: str) -> None:
        self.config_map(self.home, NAME, value=value)

    def config_map(self, namespace: str, name: str, labels: Mapping[str, str] | None = None, **data: str) -> None:
        body = {"metadata": {"labels": dict(labels or {})}, "data": data}
        self._apply(CONFIGMAPS.path(namespace, name), "v1", "ConfigMap", name, body)

    def delete_config_map(self, namespace: str, name: str = NAME) -> None:
        self._delete(CONFIGMAPS.path(namespace, name))

    def sync(self, name: str = NAME, **spec: Any) -> None:
        named = {"sourceNamespace": self.home, "configMapName": NAME, **(spec or self.selector)}
        body = {"spec": acting(self._account, named)}
        self._apply(f"{self._syncs}/{name}", API_VERSION, "ConfigMapSync", name, body)

    def delete_sync(self, name: str = NAME) -> None:
        self._delete(f"{self._syncs}/{name}")

    def get_sync(self, name: str = NAME) -> Json | None:
        return self._get(f"{self._syncs}/{name}")

    def status(self, name: str = NAME) -> Json:
        return dict((self.get_sync(name) or {}).get("status") or {})

    def ready(self, name: str = NAME) -> Json:
        """Return the Ready condition of a sync, empty where it has none."""
        conditions = self.status(name).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    def copies(self) -> dict[Place, Json]:
        """Return all objects of this scene that carry our label, by place."""
        found = self.sandbox.request("GET", f"/api/v1/configmaps?labelSelector={OWNER_LABEL}", timeout=60)["items"]
        return {place: item for item in found if (place := _place(item))[0].startswith(self.prefix)}

    def all_places(self) -> set[Place]:
        """Return where in this scene there are ConfigMaps at all."""
        found = self.sandbox.request("GET", "/api/v1/configmaps", timeout=60)["items"]
        return {place for item in found if (place := _place(item))[0].startswith(self.prefix)}

    def all_hold(self, namespaces: Iterable[str], value: str) -> bool:
        """Whether there are copies in exactly these namespaces, all with this value and nothing else."""
        held = {place: copy.get("data") for place, copy in self.copies().items()}
        return held == {(namespace, NAME): {"value": value} for namespace in namespaces}

    def wait_for(self, namespaces: Iterable[str], value: str, seconds: float = 180.0) -> None:
        """Wait until these namespaces, and no others, have copies with this value, and the sync says so."""
        expected = list(namespaces)
        what = f"{value!r} in {expected}"
        wait_until(lambda: self.all_hold(expected, value), what, seconds, instead=self.ready)
        wait_until(lambda: self.is_settled(len(expected)), "the sync to be ready", seconds, instead=self.ready)

    def wait_until_held(self, namespace: str, value: str) -> None:
        """Wait until this namespace has a copy with this value, whatever others have."""
        expected = {"value": value}
        held = lambda: self.copies().get((namespace, NAME), {}).get("data") == expected  # noqa: E731
        wait_until(held, f"{value!r} in {namespace}", instead=self.ready)

    def is_settled(self, copies: int | None = None) -> bool:
        """Whether the status speaks of the newest source and spec, and of so many copies, and says that all is well."""
        source = self.sandbox.request("GET", CONFIGMAPS.path(self.home, NAME))
        sync = self.get_sync() or {}
        status, ready = sync.get("status") or {}, self.ready()
        return (
            status.get("sourceRevision") == source["metadata"]["resourceVersion"]
            and status.get("observedGeneration") == sync["metadata"]["generation"]
            and ready.get("status") == "True"
            and copies in (None, (status.get("targets") or {}).get("synced"))
        )

    def version(self) -> int:
        """Return the newest version of the cluster."""
        return int(self.sandbox.request("GET", "/api/v1/configmaps?limit=1")["metadata"]["resourceVersion"])

    def writes(self, since: int) -> list[Entry]:
        """Return what the operator has written since a mark of `audit`, whether or not the server agreed."""
        return self.audit.writes(OPERATOR, since=since, until=self.audit.mark())

    def wait_until_quiet(self, seconds: float = 2.0) -> None:
        """Wait until nothing has been written for so many seconds: whoever writes on and on never comes to rest.

        The event about a change may come late.
        """

        last: list[str] = []

        def is_quiet() -> bool:
            last[:] = [entry for entry in self._written(seconds) if not entry.startswith("create events")]
            return not last

        wait_until(is_quiet, "an end of all writes", instead=lambda: last)

    def end(self) -> None:
        """Take syncs and copies away, with no operator's help; namespaces stay until the cluster goes."""
        for listed in self.sandbox.request("GET", self._syncs)["items"]:
            Thing(self.sandbox, self._syncs, listed["metadata"]["name"]).release()
        for namespace, name in self.copies():
            self.delete_config_map(namespace, name)

    def _written(self, seconds: float) -> list[str]:
        before = self.audit.mark()
        time.sleep(seconds)
        return [str(entry) for entry in self.writes(before) if entry.resource != "leases"]

    def _apply(self, path: str, version: str, kind: str, name: str, body: Json) -> None:
        full = {"apiVersion": version, "kind": kind, **body}
        full["metadata"] = {"name": name, **body.get("metadata", {})}
        self.sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", full)

    def _get(self, path: str) -> Json | None:
        try:
            return self.sandbox.request("GET", path)
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def _delete(self, path: str) -> None:
        try:
            self.sandbox.request("DELETE", path)
        except RequestError as error:
            if error.status != 404:
                raise


@contextmanager
def calm_operator(kubeconfig: Path, *flags: str, wait: bool = True) -> Iterator[OperatorProcess]:
    """Run an operator that must survive the test, end with 0, and never lose its composure."""
    with OperatorProcess(kubeconfig, *flags, wait=wait) as operator:
        try:
            yield operator
        except BaseException as failure:
            failure.add_note(f"The operator's log ends:\n{operator.log()[-4000:]}")
            raise
        assert operator.returncode is None, operator.log()[-4000:]
        events, log = operator.events(), operator.log()
        assert operator.stop() == 0, log[-4000:]
    assert "Traceback" not in log, log[-4000:]
    errors = [event for event in events if event.get("level") in ("error", "critical") or "exception" in event]
    assert not errors, errors


def marker_of(copy: Json) -> Json:
    """Return what the operator's annotation says."""
    marker: Json = json.loads(copy["metadata"]["annotations"][MARKER])
    return marker


def metric(operator: OperatorProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    _, text = operator.get("metrics", "/metrics")
    lines = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in wanted))


def turns(operator: OperatorProcess) -> float:
    """Return how many turns have ended."""
    return metric(operator, "syncline_sync_total")


def _place(item: Json) -> Place:
    return item["metadata"]["namespace"], item["metadata"]["name"]
