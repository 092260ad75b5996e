"""Finds, downloads or builds the binaries of the control plane, of kcp and of the build tools.

The order is: binaries of the user, the cache, official releases, a build.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from syncline.sandbox import build, locks, release, versions
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.progress import note

OWN_FOLDER = "SYNCLINE_SANDBOX_BIN"
ENVTEST_FOLDER = "KUBEBUILDER_ASSETS"
TOOLS_FOLDER = "SYNCLINE_TOOLS"
"""The folder that the operator searches first for tools; see `syncline.render.tools`."""


class Binaries(msgspec.Struct, frozen=True):
    """The paths of the binaries: etcd and those of a cluster, or etcd and kcp."""

    etcd: str
    apiserver: str = ""
    controller_manager: str = ""
    kcp: str = ""


def find_binaries() -> Binaries:
    """Find the binaries; download or build missing ones. Raises SandboxError with all attempts."""
    paths = _from_environment()
    missing = [component for component in versions.COMPONENTS if component not in paths]
    if missing:
        paths |= _from_cache(missing, _CONTROL_PLANE)
    return Binaries(
        etcd=str(paths[versions.ETCD]),
        apiserver=str(paths[versions.APISERVER]),
        controller_manager=str(paths[versions.CONTROLLER_MANAGER]),
    )


def find_kcp() -> Binaries:
    """Find kcp and its etcd; download or build missing ones, like `find_binaries`."""
    own = os.environ.get(OWN_FOLDER)
    paths = {component: Path(own).absolute() / component for component in (versions.ETCD, versions.KCP)} if own else {}
    paths = {component: path for component, path in paths.items() if _usable(path)}
    for component, room in ((versions.ETCD, _CONTROL_PLANE), (versions.KCP, _KCP)):
        if component not in paths:
            paths |= _from_cache([component], room)
    return Binaries(etcd=str(paths[versions.ETCD]), kcp=str(paths[versions.KCP]))


def has_kcp() -> bool:
    """Whether kcp is on this machine already, so that `find_kcp` fetches and builds nothing."""
    own = os.environ.get(OWN_FOLDER)
    folders = [Path(own).absolute(), kcp_folder()] if own else [kcp_folder()]
    return any(_usable(folder / versions.KCP) for folder in folders)


def find_tools() -> dict[str, Path]:
    """Find helm and kustomize in the pinned versions; download or build missing ones."""
    own = os.environ.get(TOOLS_FOLDER)
    if own and all(_usable(Path(own).absolute() / tool) for tool in versions.TOOLS):
        return {tool: Path(own).absolute() / tool for tool in versions.TOOLS}
    return _from_cache(list(versions.TOOLS), _TOOLS)


def link_tools(folder: Path) -> list[Path]:
    """Install helm and kustomize to a folder, such as that of a virtual environment, in place of other versions."""
    links: list[Path] = []
    for tool, binary in find_tools().items():
        link = folder / tool
        if not link.exists() or not link.samefile(binary):
            # Replaced atomically: a process may be running it.
            fresh = folder / f".{tool}.{os.getpid()}"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(binary)
            fresh.replace(link)
        links.append(link)
    return links


def cache_folder() -> Path:
    """Where binaries of the pinned versions are kept for this user."""
    return _cache() / "sandbox" / versions.cache_key()


def kcp_folder() -> Path:
    """Where kcp of the pinned version is kept for this user."""
    return _cache() / "sandbox" / versions.kcp_key()


def tools_folder() -> Path:
    """Where the tools of the pinned versions are kept for this user."""
    return _cache() / "tools" / versions.tools_key()


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "syncline"


class _Room(NamedTuple):
    """Binaries that are cached together."""

    name: str
    components: tuple[str, ...]
    folder: Callable[[], Path]
    own_folder: str
    build_takes: str
    command: str


_CONTROL_PLANE = _Room(
    "control plane binaries", versions.COMPONENTS, cache_folder, OWN_FOLDER, "10 minutes", "syncline sandbox install"
)
_KCP = _Room("kcp binary", (versions.KCP,), kcp_folder, OWN_FOLDER, "7 minutes", "syncline sandbox install --kcp")
_TOOLS = _Room("tools", versions.TOOLS, tools_folder, TOOLS_FOLDER, "3 minutes", "syncline sandbox tools")


def _from_environment() -> dict[str, Path]:
    for variable, needed in ((OWN_FOLDER, versions.COMPONENTS), (ENVTEST_FOLDER, (versions.ETCD, versions.APISERVER))):
        value = os.environ.get(variable)
        if value:
            folder = Path(value).absolute()
            absent = [component for component in needed if not _usable(folder / component)]
            if absent:
                raise SandboxError(f"{variable} is {value}, but there is no executable {absent[0]} in it")
            return {component: folder / component for component in versions.COMPONENTS if _usable(folder / component)}
    return {}


def _from_cache(wanted: list[str], room: _Room) -> dict[str, Path]:
    folder = room.folder()
    paths = {component: folder / component for component in wanted}
    if not all(map(_usable, paths.values())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone_in(folder, room):
                missing = [component for component, path in paths.items() if not _usable(path)]
                _fill(folder, missing, room)
        except OSError as error:
            raise SandboxError(
                f"cannot keep the {room.name} in {folder}: {error.strerror or error}; set XDG_CACHE_HOME to a writable"
                f" folder, or {room.own_folder} to a folder with the binaries"
            ) from error
    return paths


@contextlib.contextmanager
def _alone_in(folder: Path, room: _Room) -> Iterator[None]:
    lock = locks.try_lock(folder)
    if lock is None:
        note(f"another process downloads or builds the {room.name}; waiting for it")
        lock = locks.wait_lock(folder)
    try:
        for unfinished in folder.glob(".new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _fill(folder: Path, missing: list[str], room: _Room) -> None:
    """Add the missing binaries to the cache, each atomically."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as scratch:
        refused = _download(missing, Path(scratch), folder)
        if not refused:
            return
        reasons = list(dict.fromkeys(refused.values()))
        for reason in reasons:
            note(f"no official release: {reason}")
        note(f"building {', '.join(refused)} from source: about {room.build_takes} on 2 cores the first time")
        try:
            _build(list(refused), Path(scratch), folder)
        except SandboxError as error:
            raise SandboxError(
                f"the {room.name} cannot be had. Tried:\n"
                + "".join(f"- an official release: {reason}\n" for reason in reasons)
                + f"- a build from the pinned Go modules: {error}\n"
                f"Put {', '.join(room.components)} "
                f"({versions.version(room.components[-1])}, {'/'.join(versions.system())}) "
                f"into a folder and name it in {room.own_folder}, or connect this machine and run `{room.command}`."
            ) from error


def _download(components: list[str], scratch: Path, folder: Path) -> dict[str, str]:
    """Download official releases to the folder; return the causes of failures."""
    releases = release.Releases()
    refused: dict[str, str] = {}
    for component in components:
        try:
            releases.download(component, scratch)
        except SandboxError as error:
            refused[component] = str(error)
        else:
            _keep(scratch / component, folder)
    return refused


def _build(components: list[str], scratch: Path, folder: Path) -> None:
    with build.toolchain(scratch, components) as go:
        for component in components:
            build.build(component, scratch, go)
            _keep(scratch / component, folder)


def _keep(binary: Path, folder: Path) -> None:
    binary.chmod(0o755)
    binary.replace(folder / binary.name)


def _usable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
