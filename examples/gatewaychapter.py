"""The chapters of the demo about files in running pods: a pod object, an agent process, a folder, and a gateway.

Nothing here runs pods, so the agent runs beside them, with a kubeconfig. The gateway is a double of the documented
interface of Ignition.
"""

import asyncio
import hashlib
import hmac
import json
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stage import PATIENCE, Manifest, Stage, StageError, load, pick
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.gateway import GatewayDouble
from syncline.testing.gitserver import GitServer, Repository
from syncline.testing.operator import execute
from telling import Teller

EXAMPLES = Path(__file__).parent
EXAMPLE = EXAMPLES / "ignitionsync" / "01-projects.yaml"
CONTENT = EXAMPLES / "ignitionsync" / "repository"
HOME, NAME, KIND, POD = "oak-site", "plant", "IgnitionSync", "blue-0"
VIEW = "projects/site/project.json"
API_KEY, HOOK = "agent:a-key-of-the-demo", "the hook of the demo"
SHOWN = 10


class GatewayChapter:
    """Follows a repository into the data folder of a gateway."""

    def __init__(self, stage: Stage, teller: Teller, sandbox: Sandbox, webhook: Callable[[], str]) -> None:
        self._stage = stage
        self._tell = teller
        self._sandbox = sandbox
        self._webhook = webhook

    async def play(self) -> None:
        """Tell the chapters, with a Git server, a gateway and an agent that end with them."""
        with ExitStack() as ends:
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="syncline-demo-")))
            server = ends.enter_context(GitServer())
            data = folder / "data"
            data.mkdir()
            gateway = ends.enter_context(GatewayDouble(data, api_key=API_KEY))
            repository = server.repository(NAME)
            await self.bring_files(server, repository, gateway, folder, ends)
            await self.push(repository, gateway)
            await self._stage.delete(KIND, NAME, HOME)
            await self._stage.until("the sync to go", lambda: not self._stage.has_sync(HOME, NAME, KIND))

    async def bring_files(
        self, server: GitServer, repository: Repository, gateway: GatewayDouble, folder: Path, ends: ExitStack
    ) -> None:
        tell, stage = self._tell, self._stage
        tell.chapter("Bring files into a running pod")
        await self._commit(repository, None)
        tell.you(f"kubectl apply -f {EXAMPLE.relative_to(EXAMPLES.parent)}, with a repository of this machine")
        example = load(EXAMPLE)
        sync = pick(example, KIND)
        sync["spec"]["git"] |= {"repo": server.url(NAME), "caSecretRef": {"name": "git-ca"}}
        sync["spec"]["webhook"] = {"secretRef": {"name": "hook", "key": "token"}}
        secrets = (
            _secret("git-ca", **{"ca.crt": server.ca.decode()}),
            _secret("gateway", apiKey=API_KEY),
            _secret("hook", token=HOOK),
        )
        await stage.apply(pick(example, "Namespace"), *secrets, sync)
        tell.you(f"create the pod {POD}, and start its agent beside it")
        started = stage.now()
        await asyncio.to_thread(self._create_pod)
        ends.enter_context(self._agent(folder, gateway))
        await _until("the files", lambda: (gateway.data or folder) / VIEW, lambda path: path.exists())
        tell.syncline(f"the data folder of the gateway has {VIEW}", stage.now() - started)
        await _until("the scan", lambda: gateway.projects, lambda projects: projects == ["site"])
        tell.syncline("the gateway has scanned it, and lists the project site", stage.now() - started)
        end = await self._is_ready(started)
        tell.done("files of Git are in the pod, and taken up", end - started)

    async def push(self, repository: Repository, gateway: GatewayDouble) -> None:
        tell, stage = self._tell, self._stage
        tell.chapter("Push to a running gateway")
        tell.you("push a commit that renames the project; the Git host signs its webhook and sends it")
        commit = await self._commit(repository, "Oak")
        scans, started = len(gateway.scans), stage.now()
        await asyncio.to_thread(self._send, commit)
        await _until("the scan", lambda: len(gateway.scans), lambda seen: seen > scans)
        tell.syncline(f"one file of {VIEW.partition('/')[0]} is new, and the gateway was told", stage.now() - started)
        await stage.until("the report", lambda: self._synced() == commit)
        end = await self._is_ready(started)
        tell.syncline(f"the agent reports commit {commit[:SHOWN]}", end - started)
        tell.done("on the gateway, by one fetch", end - started)

    async def _commit(self, repository: Repository, title: str | None) -> str:
        files = {str(path.relative_to(CONTENT)): path.read_text() for path in CONTENT.rglob("*") if path.is_file()}
        if title is not None:
            files[VIEW] = json.dumps({**json.loads(files[VIEW]), "title": title})
        return await asyncio.to_thread(repository.commit, files)

    def _create_pod(self) -> None:
        """Create the pod, once the control plane has made its service account, and say that it runs."""
        path = f"/api/v1/namespaces/{HOME}/pods/{POD}"
        annotations = {"ignition-sync.io/cr-name": NAME, "ignition-sync.io/gateway-name": "blue"}
        spec = {"containers": [{"name": "gateway", "image": "inductiveautomation/ignition:8.3"}]}
        pod: Manifest = {"metadata": {"name": POD, "annotations": annotations}, "spec": spec}
        deadline = Stage.now() + PATIENCE
        while True:
            try:
                made = self._sandbox.request("POST", f"/api/v1/namespaces/{HOME}/pods", pod)
                break
            except RequestError as error:
                if error.status != 403 or Stage.now() > deadline:
                    raise
                time.sleep(0.02)
        made["status"] = {**made.get("status", {}), "phase": "Running"}
        self._sandbox.request("PUT", f"{path}/status", made)

    @contextmanager
    def _agent(self, folder: Path, gateway: GatewayDouble) -> Iterator[None]:
        (folder / "key").write_text(API_KEY, encoding="ascii")
        arguments = [
            *("agent", "--kubeconfig", str(self._sandbox.kubeconfig), "--namespace", HOME, "--sync", NAME),
            *("--pod", POD, "--data", str(gateway.data), "--gateway-url", gateway.url),
            *("--api-key-file", str(folder / "key")),
        ]
        agent = execute(arguments, folder / "agent.log")
        try:
            yield
        finally:
            agent.kill()
            agent.wait()

    def _send(self, commit: str) -> None:
        body = json.dumps({"ref": "refs/heads/main", "after": commit}).encode()
        signature = "sha256=" + hmac.new(HOOK.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-Hub-Signature-256": signature,
        }
        url = f"http://{self._webhook()}/webhook/{HOME}/{NAME}"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers), timeout=10):
            pass

    def _synced(self) -> str:
        return self._stage.gateway_commit(HOME, NAME)

    async def _is_ready(self, started: float) -> float:
        stage = self._stage
        end = await stage.until("Ready", lambda: stage.ready(HOME, NAME, KIND)[0] == "True")
        self._tell.syncline(f"Ready is True: {stage.counts(HOME, NAME, KIND)} gateways", end - started)
        return end


async def _until(what: str, look: Callable[[], Any], holds: Callable[[Any], bool]) -> None:
    deadline = Stage.now() + PATIENCE
    while not holds(look()):
        if Stage.now() > deadline:
            raise StageError(f"waited {PATIENCE:.0f} s for {what}")
        await asyncio.sleep(0.01)


def _secret(name: str, **values: str) -> Manifest:
    metadata = {"name": name, "namespace": HOME}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
