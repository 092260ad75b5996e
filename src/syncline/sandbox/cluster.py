"""The interface of a sandbox: start, use, break, stop."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from syncline.sandbox import kubeconfig, locks, state
from syncline.sandbox.access import Access
from syncline.sandbox.binaries import Binaries, find_binaries, find_kcp
from syncline.sandbox.control_channel import Command, StartRequest
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.state import Options
from syncline.sandbox.supervisor_client import Link, end, is_up, join, launch, leave, ready, take

_POLL_SECONDS = 0.02


class Sandbox(Access):
    """A running control plane: a cluster or, with the option `kcp`, a kcp, whose `server` is its root workspace.

    `Sandbox.create()` makes one that ends with this process, at the latest; `Sandbox.up(name)` one that stays until
    `stop()` or `syncline sandbox down`; `Sandbox.attach(name)` takes up one that is there; `Sandbox.share(name)` is for
    several processes, and ends with the last of them.
    """

    def __init__(self, folder: Path, now: state.State, link: Link | None = None, users: int | None = None) -> None:
        ca = (folder / "ca.crt").read_text(encoding="ascii")
        super().__init__(folder, now.server, ca, (folder / "token").read_text(encoding="ascii"))
        self.options = now.options
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log" if now.options.audit_log else None
        self._link = link
        self._shared = users is not None
        self._users = users

    @classmethod
    def create(cls, options: Options | None = None) -> Self:
        """Start a sandbox that ends with this process in any case."""
        wanted = options or Options()
        state.sweep()
        found = _find(wanted)
        folder, lock = state.new_ephemeral()
        link = launch(folder, lock, StartRequest("sandbox", found, wanted, detachable=False))
        return cls(folder, ready(folder), link)

    @classmethod
    def up(cls, name: str, options: Options | None = None) -> Self:
        """Start a sandbox that runs until it is stopped; if it is already running, attach to it."""
        wanted = options or Options()
        folder = state.named_folder(name)
        state.sweep()
        if not is_up(folder):
            found = _find(wanted)
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
    def share(cls, name: str, options: Options | None = None) -> Self:
        """Use one sandbox with other processes: the first starts it, and it ends when the last has stopped or died."""
        wanted = options or Options()
        folder = state.shared_folder(name)
        state.sweep()
        found = _find(wanted)
        while True:
            lock = take(folder)
            if lock is not None:
                state.users_folder(folder).mkdir()
                users = locks.share_lock(state.users_folder(folder))
                try:
                    link = launch(folder, lock, StartRequest(name, found, wanted, detachable=True, shared=True))
                    link.send(Command("detach"))
                    link.close()
                except BaseException:
                    if users is not None:
                        os.close(users)
                    raise
            else:
                # None when its last user has just left: it ends, and then this process starts one.
                users = join(folder)
            if users is not None:
                sandbox = cls(folder, ready(folder), users=users)
                if sandbox.options != wanted:
                    sandbox.stop()
                    raise SandboxError(f"sandbox {name} is shared with other options")
                return sandbox
            time.sleep(_POLL_SECONDS)

    @classmethod
    def attach(cls, name: str) -> Self:
        """Attach to a running sandbox."""
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
        """Stop a named sandbox in any state; return whether there was one."""
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
        """The failure that ended the sandbox, if there was one."""
        now = state.load(self.folder)
        return now.failure if now is not None and now.phase == "failed" else None

    def stop(self) -> None:
        """End the sandbox, a shared one as its last user, and remove its folder; fine when that has happened."""
        self._requests.close()
        if self._shared:
            if self._users is not None:
                leave(self.folder, self._users)
            self._users = None
            return
        if self._link is not None:
            self._link.close()
        else:
            end(self.folder)
        state.remove(self.folder)

    def kubeconfig_for_certificate(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a self-contained kubeconfig for a user with a client certificate."""
        # The operator loads this module with the command, and must not need 10 MB of memory for it.
        from syncline.sandbox import pki  # noqa: PLC0415

        authority = pki.Authority.load(self.ca.encode(), (self.folder / "ca.key").read_bytes())
        return self._write_kubeconfig(user, kubeconfig.certificate_user(*authority.client(user, groups)))

    def kill(self, component: str) -> None:
        """Kill a component, like a crash; the others stay."""
        self._order(Command("kill", component))

    def start(self, component: str) -> None:
        """Start a killed component with its old port and data; the API server and etcd are ready on return."""
        self._order(Command("start", component))

    def pause(self, component: str) -> None:
        """Freeze a component: it keeps its connections and answers nothing."""
        self._order(Command("pause", component))

    def resume(self, component: str) -> None:
        """Resume a frozen component."""
        self._order(Command("resume", component))

    def _order(self, command: Command) -> None:
        if self._link is None:
            raise SandboxError("only the process that started a sandbox can break its components")
        self._link.send(command)


def _find(options: Options) -> Binaries:
    if options.kcp:
        if options.apiserver_args or options.controller_manager_args:
            raise SandboxError(
                "kcp has neither kube-apiserver nor kube-controller-manager: leave out their flags, or use --kcp-arg"
            )
        return find_kcp()
    if options.kcp_args:
        raise SandboxError("--kcp-arg is for a sandbox with kcp: add --kcp")
    return find_binaries()


class SandboxStatus(msgspec.Struct, frozen=True):
    """One line of `syncline sandbox status`."""

    name: str
    folder: Path
    phase: str
    server: str = ""
    failure: str = ""


def statuses() -> list[SandboxStatus]:
    """Return all named sandboxes. Leftovers of killed sandboxes are removed first."""
    state.sweep()
    found = []
    for folder in state.named_folders():
        now = state.load(folder)
        if now is None:
            found.append(SandboxStatus(folder.name, folder, "starting"))
        else:
            found.append(SandboxStatus(folder.name, folder, now.phase, now.server, now.failure))
    return found
