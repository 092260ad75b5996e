"""The chapters of the demo about more than copies of a ConfigMap: each plays an example of its own."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

from stage import PATIENCE, Manifest, Stage, StageError, load, pick
from syncline.fleet import Timeouts
from syncline.sandbox import Sandbox
from telling import Teller

EXAMPLES = Path(__file__).parent
SECRET = EXAMPLES / "manifestsync" / "01-secret-by-label.yaml"
PATCH = EXAMPLES / "manifestsync" / "04-merge-patch.yaml"
BOTH_WAYS = EXAMPLES / "configmapsync" / "08-both-ways.yaml"
CLUSTER = EXAMPLES / "manifestsync" / "10-remote-cluster.yaml"
SYNC = "ManifestSync"
# The longer a cluster is away, the more rarely it is probed: the slower its start, the later it is found again.
PROBED = Timeouts().backoff_max


class Further:
    """Chapters that do not depend on each other."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self._stage = stage
        self._tell = teller

    async def play(self) -> None:
        """Tell all chapters."""
        await self.copy_a_secret()
        await self.patch_each_copy()
        await self.edit_both_sides()
        await self.lose_a_cluster()

    async def copy_a_secret(self) -> None:
        """A Secret is copied as a ConfigMap is, and nothing that is said about it has a value."""
        self._tell.chapter("Copy a Secret")
        example = self._read(SECRET)
        self._tell.you("copy Secret hub/pull-secret into every namespace labelled registry=shared")
        started = await self._stage.apply(*example)
        for dock in ("dock-a", "dock-b"):
            await self._holds("Secret", dock, "pull-secret", {"password": "change-me"})
            self._seen("Secret", dock, "pull-secret", "created", started)
        self._tell.you("rotate the password")
        started = await self._stage.apply(_with(pick(example, "Secret"), stringData={"password": "rotated"}))
        for dock in ("dock-a", "dock-b"):
            await self._holds("Secret", dock, "pull-secret", {"password": "rotated"})
            self._seen("Secret", dock, "pull-secret", "has the new password", started)
        end = await self._is_ready("hub", "pull-secret", started)
        self._tell.done("copies of a Secret follow it", end - started)

    async def patch_each_copy(self) -> None:
        self._tell.chapter("Let each copy differ a little")
        example = self._read(PATCH)
        self._tell.you('patch the copies: data.station is "{{ target.namespace }}", data.notes is removed')
        started = await self._stage.apply(*example)
        for station in ("rail-north", "rail-south"):
            await self._holds("ConfigMap", station, "timetable", {"station": station})
            if "notes" in (self._stage.data(station, "timetable") or {}):
                raise StageError(f"the copy in {station} has notes")
            self._seen("ConfigMap", station, "timetable", f"created, with station: {station}", started)
        end = await self._is_ready("rail", "timetable", started)
        self._tell.done("one patch, another result for each target", end - started)

    async def edit_both_sides(self) -> None:
        """Edits of different keys flow; of one key, neither is lost."""
        stage, tell = self._stage, self._tell
        tell.chapter("Edit both sides")
        example = self._read(BOTH_WAYS)
        sync = pick(example, "ConfigMapSync")
        await stage.apply(*example)
        await self._holds("ConfigMap", "duo-two", "shared", {"theme": "dark"})
        tell.you("team two sets theme to light in its copy, team one sets size to large in the source")
        started = await stage.apply(_shared("duo-two", theme="light"), manager="team-two")
        await stage.apply(_shared("duo", size="large"), manager="team-one")
        for side in ("duo", "duo-two"):
            await self._holds("ConfigMap", side, "shared", {"theme": "light", "size": "large"})
            self._seen("ConfigMap", side, "shared", "has both edits", started)
        tell.you("suspend the sync; both teams change theme; resume it")
        await stage.apply(_spec(sync, suspend=True))
        await stage.until("the pause", lambda: stage.ready("duo", "shared")[1] == "Suspended")
        await stage.apply(_shared("duo-two", theme="blue"), manager="team-two")
        await stage.apply(_shared("duo", theme="red", size="large"), manager="team-one")
        started = await stage.apply(_spec(sync, suspend=False))
        found = await stage.until("the conflict", lambda: stage.ready("duo", "shared")[0] == "False")
        tell.syncline(f"Ready is False: {stage.ready('duo', 'shared')[2]}", found - started)
        if [(stage.data(side, "shared") or {}).get("theme") for side in ("duo", "duo-two")] != ["red", "blue"]:
            raise StageError("an edit was lost")
        tell.syncline("each side keeps its own theme until a person decides")
        tell.you("team two takes red")
        started = await stage.apply(_shared("duo-two", theme="red"), manager="team-two")
        end = await self._is_ready("duo", "shared", started, "ConfigMapSync")
        tell.done("edits flow both ways; a conflict is named, and nothing is lost", end - started)

    async def lose_a_cluster(self) -> None:
        """A cluster that is away costs nothing but time."""
        stage, tell = self._stage, self._tell
        tell.chapter("Lose a cluster, and get it back")
        with tell.step("a second control plane, as the cluster lighthouse"):
            far = Sandbox.create()
        with far:
            example = self._read(CLUSTER)
            far.request("POST", "/api/v1/namespaces", {"metadata": {"name": "coast-north"}})
            tell.you("copy Secret coast/beacon into the cluster lighthouse, which is known by a kubeconfig in a Secret")
            home = pick(example, "Namespace")
            kubeconfig = {"value": far.kubeconfig.read_text(encoding="utf-8")}
            started = await stage.apply(home, _secret("coast", "lighthouse", kubeconfig), *example)
            await self._is_ready("coast", "beacon", started)
            tell.you("kill the API server of lighthouse; then set another code in the source")
            await asyncio.to_thread(far.kill, "kube-apiserver")
            started = await stage.apply(_with(pick(example, "Secret"), stringData={"code": "new"}))
            lost = await stage.until("the loss", lambda: _is_lost(stage.ready("coast", "beacon", SYNC)))
            tell.syncline(f"Ready is Unknown: {stage.ready('coast', 'beacon', SYNC)[2]}", lost - started)
            tell.you("start it again")
            started = stage.now()
            await asyncio.to_thread(far.start, "kube-apiserver")
            end = await self._is_ready("coast", "beacon", started, patience=PROBED + PATIENCE)
            there = far.request("GET", "/api/v1/namespaces/coast-north/secrets/beacon")["data"]
            if there != {"code": _encoded("new")}:
                raise StageError("lighthouse has not caught up")
            tell.syncline("lighthouse has the new code")
            await stage.delete(SYNC, "beacon", "coast")
            await stage.until("the sync to go", lambda: not stage.has_sync("coast", "beacon", SYNC))
        tell.done("Unknown while away; catches up, its start-up included", end - started)

    def _read(self, path: Path) -> list[Manifest]:
        self._tell.you(f"kubectl apply -f {path.relative_to(EXAMPLES.parent)}")
        return load(path)

    async def _holds(self, kind: str, namespace: str, name: str, data: dict[str, str]) -> None:
        """Wait until an object has at least these values."""
        wanted = {key: _encoded(value) for key, value in data.items()} if kind == "Secret" else data
        await self._stage.until(f"{namespace}/{name}", _having(self._stage, kind, (namespace, name), wanted))

    def _seen(self, kind: str, namespace: str, name: str, word: str, started: float) -> None:
        self._tell.syncline(f"{namespace}/{name} {word}", self._stage.seen_at(namespace, name, kind) - started)

    async def _is_ready(
        self, namespace: str, name: str, started: float, kind: str = SYNC, patience: float = PATIENCE
    ) -> float:
        """Wait until the status says that all is well, and tell of it."""
        stage = self._stage
        end = await stage.until("Ready", lambda: stage.ready(namespace, name, kind)[0] == "True", patience)
        self._tell.syncline(f"Ready is True: {stage.ready(namespace, name, kind)[2]}", end - started)
        return end


def _is_lost(ready: tuple[str, str, str]) -> bool:
    """Whether a sync reports a cluster as lost, and not only a write whose answer is missing."""
    return ready[0] == "Unknown" and "last seen" in ready[2]


def _having(stage: Stage, kind: str, place: tuple[str, str], wanted: dict[str, str]) -> Callable[[], bool]:
    return lambda: wanted.items() <= (stage.data(*place, kind) or {}).items()


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _with(manifest: Manifest, **parts: object) -> Manifest:
    return {**manifest, **parts}


def _spec(sync: Manifest, **fields: object) -> Manifest:
    return {**sync, "spec": {**sync["spec"], **fields}}


def _shared(namespace: str, **data: str) -> Manifest:
    meta = {"name": "shared", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _secret(namespace: str, name: str, values: dict[str, str]) -> Manifest:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": values}
