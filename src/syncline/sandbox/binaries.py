"""Finds or makes the control plane's binaries: the user's own, the cache, the official releases, a build."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from syncline.sandbox import build, locks, pins, release
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.progress import note

OWN_FOLDER = "SYNCLINE_SANDBOX_BIN"
ENVTEST_FOLDER = "KUBEBUILDER_ASSETS"


class Binaries(msgspec.Struct, frozen=True):
    """Where the three binaries are."""

    etcd: str
    apiserver: str
    controller_manager: str


def find_binaries() -> Binaries:
    """Find the binaries, fetched or built when this machine has none yet; raises SandboxError with what was tried."""
    paths = _from_environment()
    missing = [component for component in pins.COMPONENTS if component not in paths]
    if missing:
        paths |= _from_cache(missing)
    return Binaries(
        etcd=str(paths[pins.ETCD]),
        apiserver=str(paths[pins.APISERVER]),
        controller_manager=str(paths[pins.CONTROLLER_MANAGER]),
    )


def cache_folder() -> Path:
    """Where binaries of the pinned versions are kept for this user."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "syncline" / "sandbox" / pins.cache_key()


def _from_environment() -> dict[str, Path]:
    for variable, needed in ((OWN_FOLDER, pins.COMPONENTS), (ENVTEST_FOLDER, (pins.ETCD, pins.APISERVER))):
        value = os.environ.get(variable)
        if value:
            folder = Path(value).absolute()
            absent = [component for component in needed if not _usable(folder / component)]
            if absent:
                raise SandboxError(f"{variable} is {value}, but there is no executable {absent[0]} in it")
            return {component: folder / component for component in pins.COMPONENTS if _usable(folder / component)}
    return {}


def _from_cache(wanted: list[str]) -> dict[str, Path]:
    folder = cache_folder()
    paths = {component: folder / component for component in wanted}
    if not all(map(_usable, paths.values())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone_in(folder):
                missing = [component for component, path in paths.items() if not _usable(path)]
                _fill(folder, missing)
        except OSError as error:
            raise SandboxError(
                f"cannot keep the control plane binaries in {folder}: {error.strerror or error}; "
                f"set XDG_CACHE_HOME to a folder that can be written, or {OWN_FOLDER} to one that has them"
            ) from error
    return paths


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    lock = locks.try_lock(folder)
    if lock is None:
        note("another run is fetching or building the control plane binaries; waiting for it")
        lock = locks.wait_lock(folder)
    try:
        for unfinished in folder.glob(".new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _fill(folder: Path, missing: list[str]) -> None:
    """Put the missing binaries into the cache, each at once and whole."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as scratch:
        refused = _download(missing, Path(scratch), folder)
        if not refused:
            return
        reasons = list(dict.fromkeys(refused.values()))
        for reason in reasons:
            note(f"no official release: {reason}")
        note(f"building {', '.join(refused)} from source: about 10 minutes on 2 cores the first time")
        try:
            _build(list(refused), Path(scratch), folder)
        except SandboxError as error:
            raise SandboxError(
                "the control plane binaries cannot be had. Tried:\n"
                + "".join(f"- an official release: {reason}\n" for reason in reasons)
                + f"- a build from the pinned Go modules: {error}\n"
                f"Put {', '.join(pins.COMPONENTS)} ({pins.version(pins.APISERVER)}, {'/'.join(pins.system())}) into "
                f"a folder and name it in {OWN_FOLDER}, or connect this machine and run `syncline sandbox install`."
            ) from error


def _download(components: list[str], scratch: Path, folder: Path) -> dict[str, str]:
    """Fetch official releases into the folder; why not, for those that could not be had."""
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
    with build.toolchain(scratch) as go:
        for component in components:
            build.build(component, scratch, go)
            _keep(scratch / component, folder)


def _keep(binary: Path, folder: Path) -> None:
    binary.chmod(0o755)
    binary.replace(folder / binary.name)


def _usable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
