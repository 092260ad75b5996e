"""What Syncline does, end to end, on a real control plane of its own: `make demo`.

Starts a sandbox, installs Syncline, runs the operator as its own ServiceAccount with the shipped role, and then does to
the cluster what people do. With KEEP=1 all of it is left running to play with, with SHORT=1 only the chapters about one
ConfigMap are played. `further` has the chapters about Secrets, patches, two-way syncs and other clusters, `gitchapter`
those about Git, `workspacechapter` those about an upstream, `gatewaychapter` those about files in pods. `shipped` is
for SHIPPED=1, which runs chart and image; `stage` is the cluster as seen from here, `telling` the form in which it is
told.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from further import Further
from gatewaychapter import GatewayChapter
from gitchapter import GitChapter
from shipped import raise_shipped, remove_shipped
from stage import Manifest, Stage, StageError, load, pick
from syncline import deploy
from syncline.kube import KubeError
from syncline.sandbox import Sandbox, SandboxError, statuses
from syncline.testing.operator import OperatorProcess, install
from telling import Teller
from workspacechapter import WorkspaceChapter

NAME = "demo"
EXAMPLE = Path(__file__).parent / "configmapsync" / "01-namespaces-by-label.yaml"
HOME, CONFIG = "platform", "app-settings"
TEAMS = ["team-a", "team-b", "team-c"]
LABEL = {"config": "shared"}
# The other cluster and the Git server are on this machine.
FLAGS = (
    *("--allow-loopback", "--webhook-bind", "127.0.0.1:0", "--depot-bind", "127.0.0.1:0"),
    *("--log-format", "json"),
)
PID_FILE = "operator.pid"
SHIPPED, SHORT = (os.environ.get(name, "0") not in ("", "0") for name in ("SHIPPED", "SHORT"))
INTERRUPTED = 130


class Demo:
    """The chapters, in order; each stands on what the ones before it left."""

    def __init__(self, stage: Stage, teller: Teller, operator: "Operator") -> None:
        self._stage = stage
        self._tell = teller
        self._operator = operator
        self._example = load(EXAMPLE)
        self._teams = list(TEAMS)

    async def play(self) -> None:
        """Tell all chapters."""
        await self.apply_a_sync()
        await self.edit_the_source()
        await self.add_a_namespace()
        await self.break_a_copy()
        await self.delete_a_copy()
        await self.meet_a_stranger()
        await self.take_a_namespace_out()
        await self.kill_the_operator()
        await self.remove_the_sync()

    async def apply_a_sync(self) -> None:
        self._tell.chapter("Apply a sync")
        self._tell.you(f"kubectl apply -f {EXAMPLE.relative_to(EXAMPLE.parents[2])}")
        self._tell.you(f"copy ConfigMap {HOME}/{CONFIG} into every namespace labelled config=shared")
        started = await self._stage.apply(*self._example)
        await self._copied(started, "created")
        end = await self._is_ready(started)
        self._tell.done(f"{len(self._teams)} copies created", end - started)

    async def edit_the_source(self) -> None:
        self._tell.chapter("Edit the source")
        self._tell.you(f"set log-level to debug in {HOME}/{CONFIG}")
        source = pick(self._example, "ConfigMap")
        source["data"]["log-level"] = "debug"
        started = await self._stage.apply(source)
        end = await self._copied(started, "updated: log-level is debug")
        self._tell.done(f"{len(self._teams)} copies follow", end - started)

    async def add_a_namespace(self) -> None:
        self._tell.chapter("Add a namespace")
        self._tell.you("create namespace team-d with the label config=shared")
        started = await self._stage.apply(_namespace("team-d", LABEL))
        self._teams.append("team-d")
        end = await self._copied(started, "created", ["team-d"])
        await self._is_ready(started)
        self._tell.done("its copy is created", end - started)

    async def break_a_copy(self) -> None:
        self._tell.chapter("Break a copy")
        self._tell.you(f"a script called nightly-fix sets log-level to trace in team-b/{CONFIG}")
        broken = _config_map("team-b", {"log-level": "trace"})
        started = await self._stage.apply(broken, manager="nightly-fix")
        end = await self._copied(started, "repaired", ["team-b"])
        event = await self._stage.event(HOME, "DriftRepaired")
        self._tell.syncline(f"event: {event}")
        self._tell.done("repaired, and names who did it", end - started)

    async def delete_a_copy(self) -> None:
        self._tell.chapter("Delete a copy")
        self._tell.you(f"kubectl delete configmap {CONFIG} -n team-a")
        before = self._stage.uid("team-a", CONFIG)
        started = await self._stage.delete("ConfigMap", CONFIG, "team-a")
        await self._stage.until("a new copy", lambda: self._stage.uid("team-a", CONFIG) not in ("", before))
        end = await self._copied(started, "created again", ["team-a"])
        self._tell.done("created again", end - started)

    async def meet_a_stranger(self) -> None:
        """Syncline never touches what it did not make, unless told so by name."""
        stage, own = self._stage, {"log-level": "error", "owner": "team-e"}
        self._tell.chapter("Put something of your own in its way")
        self._tell.you(f"create namespace team-e with a ConfigMap {CONFIG} of its own, then label it config=shared")
        await stage.apply(_namespace("team-e", {}), _config_map("team-e", own))
        stranger = stage.uid("team-e", CONFIG)
        started = await stage.apply(_namespace("team-e", LABEL))
        found = await stage.until("the conflict", lambda: stage.ready(HOME, CONFIG)[1] == "NotOurs")
        self._tell.syncline(f"Ready is False: {stage.ready(HOME, CONFIG)[2]}", found - started)
        if stage.uid("team-e", CONFIG) != stranger or stage.data("team-e", CONFIG) != own:
            raise StageError("the ConfigMap of team-e was touched")
        self._tell.syncline("team-e's own ConfigMap is as it was; all other copies are up to date")
        self._tell.you(f"kubectl delete configmap {CONFIG} -n team-e")
        started = await stage.delete("ConfigMap", CONFIG, "team-e")
        self._teams.append("team-e")
        end = await self._copied(started, "created", ["team-e"])
        await self._is_ready(started)
        self._tell.done("left alone and reported; healed once it is gone", end - started)

    async def take_a_namespace_out(self) -> None:
        self._tell.chapter("Take a namespace out")
        self._tell.you("remove the label config=shared from namespace team-c")
        self._teams.remove("team-c")
        started = await self._stage.apply(_namespace("team-c", {}))
        end = await self._stage.until("the copy to go", lambda: self._stage.data("team-c", CONFIG) is None)
        self._tell.syncline(f"team-c/{CONFIG} removed", end - started)
        await self._is_ready(started)
        self._tell.done("its copy is removed", end - started)

    async def kill_the_operator(self) -> None:
        """What happens while nobody watches is found afterwards, deletions included."""
        self._tell.chapter("Kill the operator, and go on")
        self._tell.you("kill -9; then set log-level to warn in the source and remove the label from namespace team-d")
        await asyncio.to_thread(self._operator.kill)
        source = pick(self._example, "ConfigMap")
        source["data"]["log-level"] = "warn"
        await self._stage.apply(source, _namespace("team-d", {}))
        self._teams.remove("team-d")
        self._tell.you("start it again")
        started = time.monotonic()
        await asyncio.to_thread(self._operator.start)
        await self._copied(started, "updated: log-level is warn")
        end = await self._stage.until("the copy to go", lambda: self._stage.data("team-d", CONFIG) is None)
        self._tell.syncline(f"team-d/{CONFIG} removed", end - started)
        end = await self._is_ready(started)
        self._tell.done("catches up with all of it, start-up included", end - started)

    async def remove_the_sync(self) -> None:
        self._tell.chapter("Remove the sync")
        self._tell.you(f"kubectl delete configmapsync {CONFIG} -n {HOME}")
        started = await self._stage.delete("ConfigMapSync", CONFIG, HOME)
        gone = await self._stage.until("all copies to go", lambda: not self._copies())
        self._tell.syncline(f"{len(self._teams)} copies removed", gone - started)
        end = await self._stage.until("the sync to go", lambda: not self._stage.has_sync(HOME, CONFIG))
        self._tell.syncline(f"the sync is let go; the source {HOME}/{CONFIG} is as it was", end - started)
        if self._stage.data(HOME, CONFIG) is None:
            raise StageError("the source is gone")
        self._tell.done(f"{len(self._teams)} copies removed, the source stays", end - started)

    async def leave_something_to_play_with(self) -> None:
        """Set the scene of the first chapter again."""
        self._teams = list(TEAMS)
        await self._stage.apply(*load(EXAMPLE))
        await self._stage.until("all copies", lambda: set(self._teams) <= set(self._copies()))

    def _copies(self) -> list[str]:
        """Return the namespaces that have a copy which agrees with the source."""
        source = self._stage.data(HOME, CONFIG)
        return [namespace for namespace, data in self._stage.namespaces(CONFIG) if namespace != HOME and data == source]

    async def _copied(self, started: float, word: str, namespaces: list[str] | None = None) -> float:
        """Wait until these namespaces agree with the source, tell of each, and return when the last one did."""
        wanted = namespaces or self._teams
        await self._stage.until("the copies to agree with the source", lambda: set(wanted) <= set(self._copies()))
        for namespace in wanted:
            self._tell.syncline(f"{namespace}/{CONFIG} {word}", self._stage.seen_at(namespace, CONFIG) - started)
        return max(self._stage.seen_at(namespace, CONFIG) for namespace in wanted)

    async def _is_ready(self, started: float) -> float:
        """Wait until the status says that all is well, and tell of it."""
        whole = f"{len(self._teams)}/{len(self._teams)}"
        stage = self._stage
        end = await stage.until(
            f"Ready {whole}", lambda: stage.counts(HOME, CONFIG) == whole and stage.ready(HOME, CONFIG)[0] == "True"
        )
        self._tell.syncline(f"Ready is True: {stage.ready(HOME, CONFIG)[2]}", end - started)
        return end


class Detached:
    """An operator that outlives this script, with its log beside the sandbox's kubeconfig."""

    def __init__(self, kubeconfig: Path, flags: list[str], folder: Path) -> None:
        self.log_file = folder / "operator.log"
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "syncline", "run", "--kubeconfig", str(kubeconfig), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        (folder / PID_FILE).write_text(str(self.pid), encoding="ascii")
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self) -> None:
        while "caches are complete" not in self.log():
            if self._process.poll() is not None:
                raise StageError(f"the operator ended:\n{self.log()[-2000:]}")
            time.sleep(0.02)

    def log(self) -> str:
        """All that it has written."""
        return self.log_file.read_text(encoding="utf-8")

    def stop(self) -> None:
        """End it as Kubernetes would."""
        self._process.terminate()
        self._process.wait(30)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()


class Operator:
    """The operator, which can be killed and started again."""

    def __init__(self, start: Callable[[], OperatorProcess | Detached]) -> None:
        self._start = start
        self.process = start()

    def start(self) -> None:
        """Run it; returns once it is ready."""
        self.process = self._start()

    def webhooks(self) -> str:
        """Return where it takes webhooks, as it says in its log."""
        lines = (json.loads(line) for line in self.process.log().splitlines() if line.startswith("{"))
        serving = next(line for line in lines if line.get("event") == "serving")
        return "127.0.0.1:" + str(serving["webhooks"]).rpartition(":")[2]

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()

    def stop(self) -> None:
        """End it, fine when that has happened already."""
        self.process.stop()


def main() -> int:
    """Play the demo; 0 when everything came out as told."""
    teller = Teller()
    keep = os.environ.get("KEEP", "0") not in ("", "0")
    # Said in so many words: a shell that runs a command in the background has it ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        if keep and SHIPPED:
            teller.failure("SHIPPED=1 and KEEP=1 cannot be used together: the image's root ends with the demo.")
            return 1
        running = [status.folder for status in statuses() if keep and status.name == NAME]
        if running:
            teller.failure("The demo is running already. To end it:")
            teller.note(_ending(running[0]))
            return 1
        with ExitStack() as ends:
            perform(teller, ends, keep=keep)
            if keep:
                ends.pop_all()
    except KeyboardInterrupt:
        teller.failure("Interrupted. The operator and the control plane have ended, and their files are gone.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read along has seen enough; nothing more can be said, and all has been cleaned up.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SandboxError, KubeError, StageError, OSError, RuntimeError) as error:
        teller.failure(f"The demo failed: {error}")
        return 1
    if not keep:
        teller.note()
        teller.note("The operator and the control plane have ended, and their files are gone.")
        teller.note("To play with them yourself: KEEP=1 make demo. To read on: docs/README.md")
    return 0


def perform(teller: Teller, ends: ExitStack, *, keep: bool) -> None:
    """Set the stage and play; `ends` has what is to be undone."""
    teller.headline("Syncline keeps configuration in agreement. A real control plane, the real operator:")
    teller.note()
    with teller.step("etcd, kube-apiserver and kube-controller-manager"):
        sandbox = Sandbox.up(NAME) if keep else Sandbox.create()
        ends.callback(sandbox.stop)
    version = sandbox.request("GET", "/version")["gitVersion"]
    start = raise_shipped(sandbox, teller, ends) if SHIPPED else _install(sandbox, teller, version, keep=keep)
    with teller.step(
        f"the operator, as ServiceAccount {deploy.NAMESPACE}/{deploy.SERVICE_ACCOUNT} with its shipped role"
    ):
        operator = Operator(start)
        ends.callback(operator.stop)
    try:
        asyncio.run(_play(sandbox, teller, operator, keep=keep))
    except StageError as error:
        raise StageError(f"{error}\nThe operator's last words:\n{operator.process.log()[-2000:]}") from None
    if SHIPPED:
        operator.stop()
        with teller.step("helm uninstall syncline"):
            remove_shipped(sandbox)
    teller.summary()
    if isinstance(operator.process, Detached):
        _explain(teller, sandbox, operator.process)


def _install(
    sandbox: Sandbox, teller: Teller, version: str, *, keep: bool
) -> Callable[[], "OperatorProcess | Detached"]:
    """Install the manifests; return how to start the operator of this tree."""
    with teller.step(f"CRDs, roles and the admission policy, on Kubernetes {version}"):
        kubeconfig = install(sandbox)
    flags = [*FLAGS, "--git-cache", str(sandbox.folder / "git")]
    return lambda: Detached(kubeconfig, flags, sandbox.folder) if keep else OperatorProcess(kubeconfig, *flags)


async def _play(sandbox: Sandbox, teller: Teller, operator: Operator, *, keep: bool) -> None:
    async with Stage.open(sandbox) as stage:
        demo = Demo(stage, teller, operator)
        await demo.play()
        if not SHORT:
            await GitChapter(stage, teller, operator.webhooks).play()
            await Further(stage, teller).play()
            await WorkspaceChapter(stage, teller).play()
            await GatewayChapter(stage, teller, sandbox, operator.webhooks).play()
        if keep:
            await demo.leave_something_to_play_with()


def _explain(teller: Teller, sandbox: Sandbox, operator: Detached) -> None:
    for line in (
        "",
        "It is all left running, with the example of chapter 1 applied again. To play with it:",
        f"    export KUBECONFIG={sandbox.kubeconfig}",
        "    kubectl get configmapsyncs,manifestsyncs,configsyncs,workspacesyncs,ignitionsyncs,configmaps -A",
        f"    {_command()} sandbox exec --name {NAME} -- kubectl describe configmapsync -n {HOME} {CONFIG}",
        "",
        f"The operator is process {operator.pid}; its log is {operator.log_file}",
        "To end it and the control plane:",
        _ending(sandbox.folder),
    ):
        teller.note(line)


def _ending(folder: Path) -> str:
    pid = (folder / PID_FILE).read_text(encoding="ascii") if (folder / PID_FILE).exists() else ""
    kill = f"    kill {pid}\n" if pid else ""
    return f"{kill}    {_command()} sandbox down --name {NAME}"


def _command() -> str:
    """Name the `syncline` command in a way that can be typed here."""
    path = Path(sys.executable).with_name("syncline")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _namespace(name: str, labels: dict[str, str]) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _config_map(namespace: str, data: dict[str, str]) -> Manifest:
    meta = {"name": CONFIG, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


if __name__ == "__main__":
    sys.exit(main())
