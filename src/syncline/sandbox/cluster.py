"""A sandbox as its user holds it: start, use, break, stop."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from syncline.sandbox import kubeconfig, state
from syncline.sandbox.binaries import find_binaries
from syncline.sandbox.control_channel import Command, StartRequest
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.requests import Requests
from syncline.sandbox.state import Options
from syncline.sandbox.supervisor_client import Link, end, is_up, launch, ready, take


class Sandbox:
    """A running control plane.

    `Sandbox.create()` makes one that ends with this process, at the latest; `Sandbox.up(name)` one that stays until
    `stop()` or `syncline sandbox down`; `Sandbox.attach(name)` takes up one that is there.
    """

    def __init__(self, folder: Path, now: state.State, link: Link | None = None) -> None:
        self.folder = folder
        self.server = now.server
        self.options = now.options
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log" if now.options.audit_log else None
        self.ca = (folder / "ca.crt").read_text(encoding="ascii")
        self.token = (folder / "token").read_text(encoding="ascii")
        self._requests = Requests(self.server, self.ca, self.token)
        self._link = link

    @classmethod
    def create(cls, options: Options | None = None) -> Self:
        """Start a sandbox that goes away with this process, however this process ends."""
        state.sweep()
        found = find_binaries()
        folder, lock = state.new_ephemeral()
        link = launch(folder, lock, StartRequest("sandbox", found, options or Options(), detachable=False))
        return cls(folder, ready(folder), link)

    @classmethod
    def up(cls, name: str, options: Options | None = None) -> Self:
        """Start a sandbox that stays until it is stopped; when it is up already, take it up."""
        wanted = options or Options()
        folder = state.named_folder(name)
        state.sweep()
        if not is_up(folder):
            found = find_binaries()
            lock = take(folder)
            if lock is not None:
                link = launch(folder, lock, StartRequest(name, found, wanted, detachable=True))
                link.send(Command("detach"))
                link.close()
        now = ready(folder)
        if now.options != wanted:
            raise SandboxError(
                f"sandbox {name} is up with other options; end it first: syncline sandbox down --name {name}"
            )
        return cls(folder, now)

    @classmethod
    def attach(cls, name: str) -> Self:
        """Take up a sandbox that is up."""
        folder = state.named_folder(name)
        state.sweep()
        now = state.load(folder)
        if now is None:
            raise SandboxError(f"there is no sandbox {name}; start it: syncline sandbox up --name {name}")
        if now.phase == "failed":
            raise SandboxError(f"sandbox {name} has failed: {now.failure}")
        return cls(folder, ready(folder))

    @staticmethod
    def down(name: str) -> bool:
        """End a named sandbox, in whatever state it is; whether there was one."""
        folder = state.named_folder(name)
        there = folder.exists()
        end(folder)
        return there

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running component, and of the supervisor."""
        now = state.load(self.folder)
        return {} if now is None else {**now.pids, "supervisor": now.supervisor}

    @property
    def failure(self) -> str | None:
        """Why the sandbox ended by itself, if it did."""
        now = state.load(self.folder)
        return now.failure if now is not None and now.phase == "failed" else None

    def stop(self) -> None:
        """End the sandbox and remove its folder; fine when that has happened already."""
        self._requests.close()
        if self._link is not None:
            self._link.close()
        else:
            end(self.folder)
        state.remove(self.folder)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
    ) -> dict[str, Any]:
        """Send one JSON request, as admin or with another token, to prepare or to look at a scene (PATCH applies)."""
        return self._requests.send(method, path, body, token=token, timeout=timeout)

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600) -> str:
        """Ask the API server for a token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.request("POST", path, body)["status"]["token"])

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """Write a self-contained kubeconfig for a token; it goes away with the sandbox."""
        return self._write_kubeconfig(name, kubeconfig.token_user(token))

    def kubeconfig_for_certificate(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a self-contained kubeconfig for a user known by a client certificate."""
        # The operator's process loads this module with the rest of the command, and need not hold 10 MB for it.
        from syncline.sandbox import pki  # noqa: PLC0415

        authority = pki.Authority.load(self.ca.encode(), (self.folder / "ca.key").read_bytes())
        return self._write_kubeconfig(user, kubeconfig.certificate_user(*authority.client(user, groups)))

    def kill(self, component: str) -> None:
        """End a component as a crash would; the others stay."""
        self._order(Command("kill", component))

    def start(self, component: str) -> None:
        """Start a component that was killed, on its old port and data; the API server and etcd serve on return."""
        self._order(Command("start", component))

    def pause(self, component: str) -> None:
        """Freeze a component: it keeps its connections and answers nothing."""
        self._order(Command("pause", component))

    def resume(self, component: str) -> None:
        """Let a frozen component go on."""
        self._order(Command("resume", component))

    def _order(self, command: Command) -> None:
        if self._link is None:
            raise SandboxError("only the process that started a sandbox can break its components")
        self._link.send(command)

    def _write_kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        folder = self.folder / "kubeconfigs"
        folder.mkdir(exist_ok=True)
        path = folder / quote(name, safe="")
        kubeconfig.write(path, server=self.server, authority=self.ca, user=user, name=name)
        return path


class SandboxStatus(msgspec.Struct, frozen=True):
    """One line of `syncline sandbox status`."""

    name: str
    folder: Path
    phase: str
    server: str = ""
    failure: str = ""


def statuses() -> list[SandboxStatus]:
    """All named sandboxes; what killed ones have left is swept away first."""
    state.sweep()
    found = []
    for folder in state.named_folders():
        now = state.load(folder)
        if now is None:
            found.append(SandboxStatus(folder.name, folder, "starting"))
        else:
            found.append(SandboxStatus(folder.name, folder, now.phase, now.server, now.failure))
    return found
