"""A repository beside the stage: served over https, pushed to, and told about by its webhook."""

import asyncio
import hmac
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.stage import HOME, Stage, stage
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.deploy.names import AGGREGATE_LABEL
from syncline.kube.resources import SECRETS, Resource
from syncline.testing.audit import OPERATOR, Entry
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

_POLL = 0.05
_PATIENCE = 300.0

Json = dict[str, Any]

NAME = "bench"
AUTHORITY = "git-authority"
_SECRET = b"what the host of the repository and the operator know"
_CLUSTERROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
_VERBS = ["get", "list", "watch", "create", "patch", "update", "delete"]


class GitStage:
    """A stage, and a repository."""

    def __init__(self, scene: Stage, server: GitServer, folder: Path) -> None:
        self.scene = scene
        self.server = server
        self._folder = folder
        self._repository = server.repository(NAME)
        (folder / "secret").write_bytes(_SECRET)

    def push(self, files: Mapping[str, str | None]) -> str:
        """Commit, and return the commit."""
        return self._repository.commit(dict(files))

    def sync(self, name: str, path: str, **spec: object) -> Json:
        """Return a sync of a path of the repository."""
        git = {"repo": self.server.url(NAME), "path": path, "caSecretRef": {"name": AUTHORITY}}
        metadata = {"namespace": HOME, "name": name}
        return {
            "apiVersion": CONFIGSYNCS.api_version,
            "kind": CONFIGSYNCS.kind,
            "metadata": metadata,
            "spec": {"source": {"git": git}, **spec},
        }

    @property
    def asked(self) -> tuple[int, int]:
        """How often the server was asked what it has, and for objects."""
        return self.server.checks(NAME), self.server.fetches(NAME)

    def operator(self, *flags: str) -> OperatorProcess:
        """Start the operator, with a cache of its own, and wait until it is ready."""
        cache = tempfile.mkdtemp(prefix="cache-", dir=self._folder)
        return OperatorProcess(
            self.scene.kubeconfig,
            *("--allow-loopback", "--git-cache", cache),
            *("--webhook-bind", "127.0.0.1:0", "--webhook-secret-file", str(self._folder / "secret")),
            *flags,
        )

    async def tell(self, operator: OperatorProcess, name: str) -> None:
        """Tell the operator of a push, as the host of a repository does."""
        body = b'{"ref": "refs/heads/main"}'
        serving = next(event for event in operator.events() if "webhooks" in event)
        port = str(serving["webhooks"]).rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/webhook/{HOME}/{name}"
        headers = {"X-Hub-Signature-256": "sha256=" + hmac.new(_SECRET, body, sha256).hexdigest()}
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            if response.status != 202:
                raise RuntimeError(f"the webhook was answered {response.status}: {await response.text()}")

    def requests(self, mark: int) -> list[Entry]:
        """Return what the operator has asked of the API server since a mark, watches aside."""
        audit = self.scene.audit
        return [one for one in audit.entries(OPERATOR, since=mark, until=audit.mark()) if one.verb != "watch"]

    async def grant(self, *kinds: tuple[str, str]) -> None:
        """Let the operator write more kinds, each by group and plural, as a cluster admin does."""
        rules = [{"apiGroups": [group], "resources": [plural], "verbs": _VERBS} for group, plural in kinds]
        metadata = {"name": "bench-kinds", "labels": {AGGREGATE_LABEL: "true"}}
        await self.scene.client.create(_CLUSTERROLES, {"metadata": metadata, "rules": rules}, None)


@asynccontextmanager
async def git_stage() -> AsyncIterator[GitStage]:
    """Set a stage with a repository, and leave nothing of it."""
    with tempfile.TemporaryDirectory(prefix="syncline-bench-") as folder, GitServer() as server:
        async with stage() as scene:
            authority = {
                "metadata": {"namespace": HOME, "name": AUTHORITY},
                "stringData": {"ca.crt": server.ca.decode()},
            }
            await scene.create(SECRETS, [authority])
            yield GitStage(scene, server, Path(folder))


async def until(check: Callable[[], bool]) -> None:
    """Wait for something that only looking tells."""
    async with asyncio.timeout(_PATIENCE):
        while not check():  # noqa: ASYNC110 - neither the operator nor the server can tell us
            await asyncio.sleep(_POLL)


class Meter:
    """What the operator itself has counted since this was made."""

    def __init__(self, operator: OperatorProcess) -> None:
        self._operator = operator
        self._before = _counts(operator)

    def count(self, name: str, **labels: str) -> int:
        """Return by how much a counter has grown, over all series with these labels."""
        return round(_sum(_counts(self._operator), name, labels) - _sum(self._before, name, labels))


Counts = list[tuple[str, dict[str, str], float]]


def _counts(operator: OperatorProcess) -> Counts:
    code, text = operator.get("metrics", "/metrics")
    if code != 200:
        raise RuntimeError(f"the metrics were answered {code}")
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def _sum(counts: Counts, name: str, labels: Mapping[str, str]) -> float:
    return sum(value for found, has, value in counts if found == name and labels.items() <= has.items())
