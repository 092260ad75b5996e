"""What is kept of a deviation, so that it can be explained afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.churn.api import Admin, Json, Place, is_far
from tests.churn.oracle import Deviation
from tests.churn.world import World

_TAIL = 80 << 20
_LINES = 2000


class Evidence:
    """A folder for each deviation."""

    def __init__(self, world: World, admin: Admin, folder: Path) -> None:
        self._world = world
        self._admin = admin
        self._folder = folder
        self._count = 0

    def keep(self, deviation: Deviation, check: int) -> Path:
        """Write down all that is known of a deviation, and return where."""
        self._count += 1
        folder = self._folder / f"deviation-{self._count:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "what.txt").write_text(f"check {check}\n{deviation}\n", encoding="utf-8")
        words = set()
        for name, place in self._places(deviation):
            far = self._world.far_admin if is_far(place[0]) else None
            body = (far or self._admin).read(place)
            (folder / f"{name}.json").write_text(json.dumps(body, indent=1), encoding="utf-8")
            words.add(place[2])
        self._grep(self._folder / "history.jsonl", folder / "history.jsonl", words)
        self._grep(self._world.audit.file, folder / "audit.jsonl", words)
        logs = [line for _, text in self._world.logs() for line in text.splitlines() if any(w in line for w in words)]
        (folder / "operator.log").write_text("\n".join(logs[-_LINES:]), encoding="utf-8")
        return folder

    def heal(self, folder: Path, words: str) -> None:
        """Add what became of it."""
        with (folder / "what.txt").open("a", encoding="utf-8") as file:
            file.write(words + "\n")

    def _places(self, deviation: Deviation) -> Iterator[tuple[str, Place]]:
        if deviation.ref:
            kind, namespace, name = deviation.ref.split("/")[:3]
            sync: Place = (kind, namespace, name)
            yield "sync", sync
            spec: Json = (self._admin.read(sync) or {}).get("spec", {})
            if "configMapName" in spec:
                yield "source", ("ConfigMap", spec["sourceNamespace"], spec["configMapName"])
        if deviation.place is not None:
            yield "object", deviation.place
            if deviation.place[1]:
                kind = "far/Namespace" if is_far(deviation.place[0]) else "Namespace"
                yield "namespace", (kind, "", deviation.place[1])

    def _grep(self, source: Path, target: Path, words: set[str]) -> None:
        found = []
        needles = [word.encode() for word in words]
        with source.open("rb") as file:
            file.seek(max(0, source.stat().st_size - _TAIL))
            found = [line for line in file if any(needle in line for needle in needles)]
        target.write_bytes(b"".join(found[-_LINES:]))
