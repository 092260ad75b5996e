"""Examples of ConfigSync: their repositories are served on loopback in place of the host that they name."""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.examples.scene import EXAMPLES, OWN, SYNCS, Check, Scene

from syncline.cli import main
from syncline.deploy import Manifest
from syncline.git.url import parse_url
from syncline.sandbox import Sandbox
from syncline.sandbox.binaries import cache_folder
from syncline.sandbox.build import toolchain
from syncline.testing.gitserver import GitServer, Repository
from syncline.testing.gitssh import SshServer

CONTENT = EXAMPLES / "configsync" / "repository"
HOST = "git.example.com"
CA = "git-ca"
TEKTON = "github.com/tektoncd/pipeline@v1.9.0"
TEKTON_FILES = ("300-task.yaml", "300-pipeline.yaml")


def content() -> dict[str, bytes]:
    """Return what is in the repository of the examples."""
    return {str(path.relative_to(CONTENT)): path.read_bytes() for path in CONTENT.rglob("*") if path.is_file()}


def tekton() -> dict[str, bytes]:
    """Return the definitions of Tasks and Pipelines that Tekton publishes, as files of the repository.

    They come as a Go module, whose hash Go checks, and are kept beside the binaries of the sandbox.
    """
    folder = cache_folder().parent / TEKTON.rpartition("/")[2]
    if not all((folder / name).exists() for name in TEKTON_FILES):
        folder.mkdir(parents=True, exist_ok=True)
        with toolchain(folder) as go:
            ran = subprocess.run(
                [str(go), "mod", "download", "-json", TEKTON], cwd="/", capture_output=True, text=True, check=True
            )
        origin = Path(json.loads(ran.stdout)["Dir"]) / "config" / "300-crds"
        for name in TEKTON_FILES:
            # Several processes may do so at once: what is there is whole.
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as new:
                new.write((origin / name).read_bytes())
            Path(new.name).replace(folder / name)
    return {f"tekton/crds/{name}": (folder / name).read_bytes() for name in TEKTON_FILES}


class GitScene(Scene):
    """One example with a repository of its own, which the tests push to."""

    def __init__(
        self,
        sandbox: Sandbox,
        eventually: Callable[[Check], None],
        name: str,
        servers: tuple[GitServer, SshServer],
        more: Mapping[str, bytes],
    ) -> None:
        self._https, self._ssh = servers
        self.name = re.sub(r"\W+", "-", name.removesuffix(".yaml"))
        self.repository: Repository = self._https.repository(self.name)
        self.commit = self.push({**content(), **more})
        self.repository.tag("v1.0.0", self.commit)
        super().__init__(sandbox, eventually, name)

    def push(self, files: Mapping[str, str | bytes | None]) -> str:
        """Commit files to the main branch, and return the commit."""
        return self.repository.commit(files)

    @staticmethod
    def text(path: str) -> str:
        """Return a file of the repository as the examples have it."""
        return (CONTENT / path).read_text(encoding="utf-8")

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Push a change of a file."""
        text = self.text(path)
        assert old in text
        return self.push({path: text.replace(old, new)})

    def sign(self, key: Path) -> str:
        """Replace the last commit by one that is signed with an SSH key."""
        settings = {"gpg.format": "ssh", "user.signingkey": str(key)}
        tree = self.repository.git("rev-parse", "main^{tree}")
        commit = self.repository.git("commit-tree", "-S", "-m", "signed", tree, settings=settings)
        self.repository.git("update-ref", "refs/heads/main", commit)
        return commit

    def adapted(self, manifests: list[Manifest]) -> list[Manifest]:
        """Put the server of this machine in place of the host, and what proves it beside the syncs."""
        adapted: list[Manifest] = []
        for manifest in manifests:
            if manifest["kind"] in SYNCS:
                adapted.append(self._authority(manifest["metadata"]["namespace"]))
                spec = manifest["spec"]
                for source in [spec["source"]] if "source" in spec else spec["sources"]:
                    if "git" in source:
                        source["git"] |= self._local(source["git"]["repo"])
            adapted.append(manifest)
        return adapted

    def _local(self, url: str) -> dict[str, Any]:
        place = parse_url(url)
        assert place.host == HOST
        if place.is_ssh:
            return {"repo": self._ssh.url(self.name)}
        return {"repo": self._https.url(self.name), "caSecretRef": {"name": CA}}

    def _authority(self, namespace: str) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CA, "namespace": namespace},
            "stringData": {"ca.crt": self._https.ca.decode()},
        }

    def is_at(self, commit: str) -> bool:
        """Whether a commit is applied and all is well."""
        return self.status().get("sourceRevision") == commit and self.ready()[0] == "True"

    def patch(self, **spec: Any) -> None:
        """Change fields of the sync's spec, as its author does."""
        sync = self.sync()
        self.apply({**sync, "spec": {**sync["spec"], **spec}})

    def sync(self) -> Manifest:
        """Return the sync as it was applied."""
        *_, sync = (manifest for manifest in self.manifests if manifest["kind"] in OWN)
        return sync

    def command(self, name: str, *arguments: str) -> None:
        """Run a `syncline` command on the sync."""
        metadata = self.sync()["metadata"]
        place = ["-n", metadata["namespace"], "--kubeconfig", str(self._sandbox.kubeconfig)]
        assert main([name, metadata["name"], *arguments, *place]) == 0
