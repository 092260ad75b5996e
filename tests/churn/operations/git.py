"""What users do to the repository. Its heads are written down as they are pushed."""

import json

from tests.churn.api import Json
from tests.churn.names import GIT
from tests.churn.operations.actor import Actor
from tests.churn.slots import git_copies

_APPS = 3
_FILES = 5


def manifest(actor: Actor, app: int, number: int) -> str:
    """Draw the manifest in a file; its name is that of the file."""
    kind, name = git_copies(app)[number]
    meta: Json = {"name": name, "namespace": actor.rng.choice(GIT) if number == 0 else GIT[number % len(GIT)]}
    if kind == "NetworkPolicy":
        body: Json = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {"podSelector": {"matchLabels": {"app": actor.text()}}, "policyTypes": ["Ingress"]},
        }
    else:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": actor.text()}}
        meta["labels"] = {"team": actor.text()} if actor.chance(0.5) else {}
    return json.dumps({**body, "metadata": meta})


def commit(actor: Actor) -> None:
    """Change, add and remove files."""
    branch = actor.rng.choice(("main", "main", "next"))
    with actor.history.alone("git"):
        known = actor.history.git.branches.get(branch)
        if known is None:
            return
        changes: dict[str, str | None] = {}
        for _ in range(actor.rng.randint(1, 4)):
            app, number = actor.rng.randrange(_APPS), actor.rng.randrange(_FILES)
            folder = "moved" if any(path.startswith(f"moved/{app}/") for path in known) else "apps"
            path = f"{folder}/{app}/{number}.json"
            removable = path in known and number != 1
            changes[path] = None if removable and actor.chance(0.3) else manifest(actor, app, number)
        _push(actor, branch, changes, "commit")


def move(actor: Actor) -> None:
    """Move a folder elsewhere: syncs that follow the old path lose it."""
    with actor.history.alone("git"):
        known = actor.history.git.branches.get("main", {})
        app = actor.rng.randrange(_APPS)
        old, new = f"apps/{app}/", f"moved/{app}/"
        if not any(path.startswith(old) for path in known):
            old, new = new, old
        files = {path: text for path, text in known.items() if path.startswith(old)}
        changes: dict[str, str | None] = dict.fromkeys(files)
        changes |= {new + path.removeprefix(old): text for path, text in files.items()}
        _push(actor, "main", changes, "move")


def force(actor: Actor) -> None:
    """Push something else altogether, with force; or delete a branch, or create it again."""
    with actor.history.alone("git"):
        repository = actor.stage.repository
        if repository is None:
            return
        branch = actor.rng.choice(("main", "next"))
        known = actor.history.git.branches
        if branch == "next" and branch in known and actor.chance(0.4):
            repository.delete("refs/heads/next")
            del known[branch]
            actor.history.tell("branch delete", branch)
            return
        files = {
            f"apps/{app}/{number}.json": manifest(actor, app, number)
            for app in range(_APPS)
            for number in range(_FILES)
            if number in (1, 2) or actor.chance(0.7)
        }
        repository.commit(files, ref=f"refs/heads/{branch}", anew=True)
        known[branch] = dict(files)
        actor.history.tell("forced push", branch, files=sorted(files))


def _push(actor: Actor, branch: str, changes: dict[str, str | None], what: str) -> None:
    repository = actor.stage.repository
    if repository is None:
        return
    repository.commit(changes, ref=f"refs/heads/{branch}")
    head = actor.history.git.branches[branch]
    for path, text in changes.items():
        if text is None:
            head.pop(path, None)
        else:
            head[path] = text
    actor.history.tell(
        what, branch, changes={path: text and json.loads(text)["metadata"] for path, text in changes.items()}
    )


OPERATIONS = (
    (4, commit),
    (1, move),
    (1, force),
)
