"""A Git server with pull requests, and gateways, as one program: for walk-throughs and experiments.

    python -m syncline.testing.plant FOLDER GATEWAY...

It serves until it is ended. The folder has what people and scripts need:

    FOLDER/url, ca.crt, token   the repository `plants/plant`: its address, its authority, and the token to push
    FOLDER/api-key              the API key of all gateways
    FOLDER/GATEWAY/url, data    the address of a gateway, and its data folder
    FOLDER/GATEWAY/broken       written by people: the names of projects that the gateway does not load

The gateways are doubles of the documented interface of Ignition, see `gateway`.
"""

import argparse
import secrets
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from syncline.sandbox.kubeconfig import write_private
from syncline.testing.forge import Forge
from syncline.testing.gateway import GatewayDouble
from syncline.testing.gitserver import GitServer

OWNER, REPOSITORY = "plants", "plant"
FIRST = {"README.md": "The files of all gateways.\n"}
"""The first commit, so that the branch exists."""


class FileGateway(GatewayDouble):
    """A gateway whose broken projects are named by a file next to its data folder."""

    def __init__(self, folder: Path, api_key: str) -> None:
        super().__init__(folder / "data", api_key=api_key)
        self._broken = folder / "broken"

    def _project_names(self) -> list[str]:
        self.broken_projects = set(self._broken.read_text(encoding="utf-8").split()) if self._broken.exists() else set()
        return super()._project_names()


class DemoPlant:
    """A repository that takes pushes, its pull requests, and gateways, for as long as its `with` block lasts."""

    def __init__(self, folder: Path, gateways: list[str]) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.api_key = f"agent:{secrets.token_hex(16)}"
        self.server = GitServer()
        self.gateways = {name: FileGateway(folder / name, self.api_key) for name in gateways}
        self._held = ExitStack()

    def __enter__(self) -> Self:
        name = f"{OWNER}/{REPOSITORY}"
        server = self._held.enter_context(self.server)
        server.pushable.add(name)
        server.require_basic(name, "x-access-token", self.token)
        self.repository = server.repository(name)
        self.repository.commit(FIRST)
        self.forge = Forge(server, OWNER, REPOSITORY, self.token)
        for one, gateway in self.gateways.items():
            (self.folder / one / "data").mkdir(parents=True, exist_ok=True)
            self._held.enter_context(gateway)
            self._write(f"{one}/url", gateway.url)
        self._write("ca.crt", server.ca.decode())
        self._write("token", self.token)
        self._write("api-key", self.api_key)
        self._write("url", server.url(name))
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _write(self, path: str, text: str) -> None:
        write_private(self.folder / path, text.encode())


def main(arguments: list[str]) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m syncline.testing.plant", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what people need is written here")
    parser.add_argument("gateways", nargs="+", metavar="GATEWAY", help="the names of the gateways")
    given = parser.parse_args(arguments)
    ends = {signal.SIGINT, signal.SIGTERM}
    # Before any thread starts: threads take over what is blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with DemoPlant(given.folder.absolute(), given.gateways) as plant:
        lines = [f"repository {plant.server.url(f'{OWNER}/{REPOSITORY}')}"]
        lines += [f"gateway {name} at {one.url}, data folder {one.data}" for name, one in plant.gateways.items()]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
