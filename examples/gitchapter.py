"""The chapter of the demo about Git: a repository on this machine, and a sync that follows it."""

import asyncio
import hashlib
import hmac
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

from stage import PATIENCE, Manifest, Stage, StageError, load, pick
from syncline.testing.gitserver import GitServer, Repository
from telling import Teller

EXAMPLES = Path(__file__).parent
EXAMPLE = EXAMPLES / "configsync" / "14-webhook.yaml"
CONTENT = EXAMPLES / "configsync" / "repository"
FILE = "webhook/board.yaml"
HOME, NAME, KIND = "station", "board", "ConfigSync"
SHOWN = 10


class GitChapter:
    """Follows a repository: pushes arrive, drift is repaired, a rollback holds."""

    def __init__(self, stage: Stage, teller: Teller, webhook: Callable[[], str]) -> None:
        self._stage = stage
        self._tell = teller
        self._webhook = webhook

    async def play(self) -> None:
        """Tell the chapters, with a Git server that ends with them."""
        with GitServer() as server:
            repository = server.repository("config")
            await self.apply_what_git_says(server, repository)
            await self.push(repository)
            await self.drift()
            await self.roll_back(server, repository)
            await self._stage.delete(KIND, NAME, HOME)
            await self._stage.until("the sync to go", lambda: not self._stage.has_sync(HOME, NAME, KIND))

    async def apply_what_git_says(self, server: GitServer, repository: Repository) -> None:
        self._tell.chapter("Apply what Git says")
        self._tell.you("make a repository with a ConfigMap in it, and serve it over https on this machine")
        first = await self._commit(repository, None)
        self._tell.you(f"kubectl apply -f {EXAMPLE.relative_to(EXAMPLES.parent)}, with the URL of that repository")
        example = load(EXAMPLE)
        sync = pick(example, KIND)
        sync["spec"]["source"]["git"] |= {"repo": server.url("config"), "caSecretRef": {"name": "git-ca"}}
        started = await self._stage.apply(pick(example, "Namespace"), _authority(server), *example)
        await self._shows("09:40", f"created from commit {first[:SHOWN]}", started)
        end = await self._is_ready(started)
        self._tell.done("what is in Git is in the cluster", end - started)

    async def push(self, repository: Repository) -> None:
        self._tell.chapter("Push a commit")
        self._tell.you("push a commit that sets the next train to 10:10; the Git host signs its webhook and sends it")
        commit = await self._commit(repository, "10:10")
        started = self._stage.now()
        answer = await asyncio.to_thread(self._send, commit)
        self._tell.syncline(f"webhook: {answer}", self._stage.now() - started)
        end = await self._shows("10:10", f"follows commit {commit[:SHOWN]}", started)
        await self._is_ready(started)
        self._tell.done("it arrives at once", end - started)

    async def drift(self) -> None:
        self._tell.chapter("Edit what came from Git")
        self._tell.you(f"a script called nightly-fix sets next to never in {HOME}/{NAME}")
        metadata = {"namespace": HOME, "name": NAME}
        edit = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"next": "never"}}
        started = await self._stage.apply(edit, manager="nightly-fix")
        end = await self._shows("10:10", "repaired", started)
        self._tell.syncline(f"event: {await self._stage.event(HOME, 'DriftRepaired')}")
        self._tell.done("repaired, and names who did it", end - started)

    async def roll_back(self, server: GitServer, repository: Repository) -> None:
        """A rollback stays, whatever is pushed, until a person ends it."""
        self._tell.chapter("Roll back")
        self._tell.you(f"syncline rollback {NAME} -n {HOME}")
        started = await self._ask_for("Previous")
        end = await self._shows("09:40", "is as it was before", started)
        await self._is_ready(started, "RolledBack")
        self._tell.you("push another commit: 11:30")
        commit = await self._commit(repository, "11:30")
        checks = server.checks("config")
        await asyncio.to_thread(self._send, commit)
        async with asyncio.timeout(PATIENCE):
            while server.checks("config") == checks:  # noqa: ASYNC110 - the server counts in a thread of its own
                await asyncio.sleep(0.01)
        if (self._stage.data(HOME, NAME) or {}).get("next") != "09:40":
            raise StageError("the rollback did not hold")
        self._tell.syncline("the repository was looked at; the rollback holds")
        self._tell.you(f"syncline rollback {NAME} -n {HOME} --clear")
        cleared = await self._ask_for(None)
        await self._shows("11:30", f"follows commit {commit[:SHOWN]}", cleared)
        await self._is_ready(cleared)
        self._tell.done("back at once, and held until cleared", end - started)

    async def _commit(self, repository: Repository, time: str | None) -> str:
        text = (CONTENT / FILE).read_text(encoding="utf-8")
        return await asyncio.to_thread(repository.commit, {FILE: text.replace("09:40", time or "09:40")})

    def _send(self, commit: str) -> str:
        """Tell the operator of a push as a Git host does."""
        token = pick(load(EXAMPLE), "Secret")["stringData"]["token"]
        body = json.dumps({"ref": "refs/heads/main", "after": commit}).encode()
        signature = "sha256=" + hmac.new(token.encode(), body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(
            f"http://{self._webhook()}/webhook/{HOME}/{NAME}",
            data=body,
            headers={
                "Content-Type": "application/json",
                "X-GitHub-Event": "push",
                "X-Hub-Signature-256": signature,
            },
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return f"{answer.status} {answer.reason}"

    async def _ask_for(self, rollback: str | None) -> float:
        """Do what `syncline rollback` does: set or clear one field of the spec."""
        metadata = {"namespace": HOME, "name": NAME}
        spec = {"rollback": {"to": rollback}} if rollback else {}
        asked = {"apiVersion": "syncline.dev/v1alpha1", "kind": KIND, "metadata": metadata, "spec": spec}
        return await self._stage.apply(asked, manager="rollback")

    async def _shows(self, time: str, word: str, started: float) -> float:
        await self._stage.until(
            f"{HOME}/{NAME} to say {time}", lambda: (self._stage.data(HOME, NAME) or {}).get("next") == time
        )
        seen = self._stage.seen_at(HOME, NAME)
        self._tell.syncline(f"{HOME}/{NAME} {word}: next is {time}", seen - started)
        return seen

    async def _is_ready(self, started: float, reason: str = "Synced") -> float:
        stage = self._stage
        end = await stage.until("Ready", lambda: stage.ready(HOME, NAME, KIND)[:2] == ("True", reason))
        self._tell.syncline(f"Ready is True: {stage.ready(HOME, NAME, KIND)[2]}", end - started)
        return end


def _authority(server: GitServer) -> Manifest:
    """Return the Secret by which the sync knows the server's certificate."""
    metadata = {"name": "git-ca", "namespace": HOME}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"ca.crt": server.ca.decode()}}
