"""Gateways with their agents, as processes: they are served by the depot of a real operator."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.agent.scene import AgentProgram, until
from tests.configsync.test_webhooks import post
from tests.ignitionsync.world import IgnitionSync, PlantWorld, Pod

from syncline.sandbox import Sandbox
from syncline.testing.gateway import GatewayDouble
from syncline.testing.operator import OperatorProcess


class ClusterAgent(AgentProgram):
    """An agent outside of its pod: it finds the depot with a kubeconfig."""

    def __init__(self, folder: Path, pod: Pod, sync: str = "plant", gateway: GatewayDouble | None = None) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, gateway)
        self.pod = pod
        self._flags = (
            *("--kubeconfig", str(pod.sandbox.kubeconfig), "--namespace", pod.namespace),
            *("--sync", sync, "--pod", pod.name),
        )

    def start(self, *flags: str, **options: Any) -> Self:
        return super().start(*self._flags, *flags, **options)


class PodAgent(AgentProgram):
    """An agent as it is in a pod: with a token of the pod, and with the address and the certificates of the depot."""

    def __init__(self, folder: Path, pod: Pod, depot: Mapping[str, str], gateway: GatewayDouble | None = None) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, gateway)
        self.depot = depot
        (folder / "token").write_text(token_of(pod))
        (folder / "ca.crt").write_text(depot["depotCA"])

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "SYNCLINE_DEPOT_URL": self.depot["depotURL"],
            "SYNCLINE_CA_FILE": str(self.folder / "ca.crt"),
            "SYNCLINE_TOKEN_FILE": str(self.folder / "token"),
        }


def token_of(pod: Pod, *, bound: bool = True, audience: str = "syncline") -> str:
    """Request a token of the service account of a pod, bound to the pod unless told otherwise."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    spec = {"audiences": [audience], "expirationSeconds": 3600, **({"boundObjectRef": reference} if bound else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    sandbox: Sandbox = pod.sandbox
    answer = sandbox.request("POST", f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/default/token", body)
    return str(answer["status"]["token"])


class PlantGateway:
    """A pod object, a gateway that listens, its folder, and the agent between them."""

    def __init__(self, world: PlantWorld, folder: Path, name: str, **pod: Any) -> None:
        (folder / "data").mkdir(parents=True)
        self.double = GatewayDouble(folder / "data", api_key="agent:wQ7pUz3nB5k8xYt2")
        self.pod = world.pod(name, **pod)
        self.agent = ClusterAgent(folder, self.pod, gateway=self.double)

    @property
    def files(self) -> dict[str, str]:
        """The files of the data folder."""
        return self.agent.files()

    def until_files(self, **contents: str | None) -> None:
        """Wait until these views have a content; None for a view that is not there."""
        wanted = {f"projects/Plant/views/{name}.json": content for name, content in contents.items()}
        until(
            lambda: all(self.files.get(path) == content for path, content in wanted.items()),
            lambda: f"{self.files}\n{self.agent.log()[-3000:]}",
        )


class Plant:
    """Gateways of one sync, for as long as its `with` block lasts."""

    HOOK = "kR4vN8sJ2mX6qTb9"

    def __init__(self, world: PlantWorld, folder: Path, operator: OperatorProcess) -> None:
        self.world = world
        self.operator = operator
        self.commit = ""
        """The first commit."""
        self.gateways: dict[str, PlantGateway] = {}
        self._folder = folder
        self._held = ExitStack()
        world.secret("hook", token=self.HOOK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def sync(self) -> IgnitionSync:
        """The sync of these gateways."""
        return IgnitionSync(self.world.sandbox, self.world.home, "plant")

    def create(self, **spec: Any) -> IgnitionSync:
        """Create the sync."""
        return self.world.isync(
            polling={"interval": "1h"}, webhook={"secretRef": {"name": "hook", "key": "token"}}, **spec
        )

    def gateway(self, name: str, **pod: Any) -> PlantGateway:
        """Make a gateway; its agent is not started."""
        made = PlantGateway(self.world, self._folder / name, name, **pod)
        self._held.enter_context(made.double)
        self._held.callback(made.agent.kill)
        self.gateways[name] = made
        return made

    def push(self, **views: str | None) -> str:
        """Commit views of the project, and announce the push as a Git host does; return the commit."""
        commit = self.world.push({f"projects/Plant/views/{name}.json": view for name, view in views.items()})
        self.announce(commit)
        return commit

    def announce(self, commit: str) -> None:
        """Tell the operator of a push, as a Git host does."""
        body = {"ref": "refs/heads/main", "after": commit, "repository": {"clone_url": self.world.url}}
        self.deliver(body, **{"X-GitHub-Event": "push", "X-GitHub-Delivery": commit})

    def deliver(self, body: object, **headers: str) -> None:
        """Send a signed webhook for the sync."""
        port = str(self.operator.address("webhooks")).rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/webhook/{self.world.home}/plant"
        assert post(url, self.HOOK, body, **headers) == 202

    def until_synced(self, commit: str) -> None:
        """Wait until all running gateways have a commit, and the sync says so."""
        self.sync.at(commit)
        for name in self.gateways:
            self.sync.gateway_at(name, "Synced", syncedCommit=commit)
        self.sync.condition("Ready", status="True")
