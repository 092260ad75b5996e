"""A folder that plans are published to, without a network."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from syncline.agent.folder_sync import FolderSync
from syncline.core.gateway_plan import GatewayPlan, PlannedFile, PlannedMapping
from syncline.files.publish import Publication

Tree = Mapping[str, str | bytes]


def encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repository:
    """What commits have: their blobs."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def plan(self, files: Tree, *, executable: frozenset[str] = frozenset(), **fields: Any) -> GatewayPlan:
        """Return the plan of a commit with these files; the last mapping whose destination they are below has them."""
        mappings = fields.pop("mappings", (PlannedMapping("files", ""),))
        planned = []
        for path, content in sorted(files.items()):
            blob = blob_id(encoded(content))
            self.blobs[blob] = encoded(content)
            fitting = [number for number, one in enumerate(mappings) if below(path, one.destination)]
            planned.append(PlannedFile(path, blob, len(encoded(content)), fitting[-1], path in executable))
        given = {"sync": "plant", "gateway": "gw", "action": "Publish", "commit": f"{len(self.blobs):040x}", **fields}
        plan = GatewayPlan(id="", files=tuple(planned), mappings=tuple(mappings), **given)
        digest = hashlib.sha256(msgspec.json.encode(plan)).hexdigest()
        return msgspec.structs.replace(plan, id=digest)


def below(path: str, destination: str) -> bool:
    return not destination or path == destination or path.startswith(f"{destination}/")


class Gateway:
    """A data folder and an agent's work on it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        data.mkdir(exist_ok=True)
        self.repository = Repository()
        self.sync = FolderSync(str(data))
        self.fetched: list[str] = []
        """The blobs that were needed, of all attempts."""

    def restart(self) -> None:
        """Begin anew, as an agent that was started again."""
        self.sync.close()
        self.sync = FolderSync(str(self.data))

    def stage(self, plan: GatewayPlan, settled: Mapping[str, str] | None = None) -> Publication:
        assessment = self.sync.assess(plan, settled)
        for blob, size in assessment.blobs.items():
            self.fetched.append(blob)
            with self.sync.blob_writer(blob, size) as writer:
                writer.write(self.repository.blobs[blob])
        return self.sync.stage(plan, assessment)

    def carry_out(self, plan: GatewayPlan, settled: Mapping[str, str] | None = None) -> Publication:
        """Publish a plan, and return what was done."""
        work = self.stage(plan, settled)
        self.sync.publish(work)
        return work

    def publish(self, files: Tree, **fields: Any) -> Publication:
        return self.carry_out(self.repository.plan(files, **fields))

    def files(self) -> dict[str, str]:
        """Return all files of the folder but the agent's own."""
        return tree(self.data)


def tree(data: Path) -> dict[str, str]:
    """Return all files of a folder but the agent's own; a link by where it leads."""
    found = {}
    for path in paths(data):
        name = str(path.relative_to(data))
        if not name.startswith(".syncline/"):
            found[name] = f"-> {path.readlink()}" if path.is_symlink() else path.read_text(encoding="utf-8")
    return found


def paths(data: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(data):
        for name in [*names, *(one for one in folders if (Path(folder) / one).is_symlink())]:
            yield Path(folder) / name


def is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)
