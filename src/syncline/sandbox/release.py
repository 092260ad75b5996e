"""Fetches official release binaries and believes them only when they match their published checksums."""

import contextlib
import hashlib
import http.client
import os
import queue
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from syncline.sandbox import pins
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.progress import Progress

MIRROR = "SYNCLINE_SANDBOX_MIRROR"
CONNECT_SECONDS = 1.5
# A name lookup has no timeout of its own, and a proxy may accept and then say nothing: the first answer has this long.
FIRST_ANSWER_SECONDS = 3.0
STALL_SECONDS = 30.0
_CHUNK = 1 << 18


def download(component: str, into: Path) -> None:
    """Put the official binary into the folder `into`; SandboxError when it cannot be had or is not genuine."""
    system, architecture = pins.system()
    version = pins.version(component)
    if component == pins.ETCD:
        archive = f"etcd-{version}-{system}-{architecture}.tar.gz"
        base = f"{_host('https://github.com')}/etcd-io/etcd/releases/download/{version}"
        expected = _listed(_first_answer(f"{base}/SHA256SUMS"), archive)
        path = into / archive
        _fetch(f"{base}/{archive}", path, expected)
        _unpack(path, archive.removesuffix(".tar.gz") + "/etcd", into / component)
    else:
        url = f"{_host('https://dl.k8s.io')}/release/{version}/bin/{system}/{architecture}/{component}"
        expected = _first_answer(f"{url}.sha256").strip()
        _fetch(url, into / component, expected)


def _host(official: str) -> str:
    return os.environ.get(MIRROR, "").rstrip("/") or official


def _first_answer(url: str) -> str:
    """Read a checksum file, giving up soon enough that an offline machine hardly notices."""
    answers: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as answer:  # noqa: S310 - the scheme is ours or the user's
                answers.put(answer.read(1 << 16).decode("ascii", "replace"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=FIRST_ANSWER_SECONDS)
    except queue.Empty:
        raise SandboxError(f"{url} did not answer within {FIRST_ANSWER_SECONDS:g} s") from None
    if isinstance(answer, str):
        return answer
    raise SandboxError(f"{url} cannot be read: {_reason(answer)}") from answer


def _fetch(url: str, path: Path, expected: str) -> None:
    """Download to `path`, hashing on the way."""
    digest = hashlib.sha256()
    try:
        with (
            Progress(f"downloading {url}", expected="1 min") as progress,
            urllib.request.urlopen(url, timeout=STALL_SECONDS) as answer,  # noqa: S310 - the scheme is ours or the user's
            path.open("wb") as file,
        ):
            total = int(answer.headers.get("Content-Length") or 0)
            read: Callable[[int], bytes] = answer.read
            done = 0
            while chunk := read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                progress.now(f"{done >> 20} of {total >> 20} MiB" if total else f"{done >> 20} MiB")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise SandboxError(f"{url} cannot be read: {_reason(error)}") from error
    if digest.hexdigest() != expected.lower():
        path.unlink()
        raise SandboxError(f"{url} does not match its published checksum (sha256 {digest.hexdigest()}, not {expected})")


def _listed(sums: str, name: str) -> str:
    for line in sums.splitlines():
        with contextlib.suppress(ValueError):
            checksum, listed = line.split()
            if listed.lstrip("*") == name:
                return checksum
    raise SandboxError(f"the published checksums do not list {name}")


def _unpack(archive: Path, member: str, path: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            content = tar.extractfile(member)
            if content is None:
                raise SandboxError(f"{archive.name} has no file {member}")
            with content, path.open("wb") as file:
                while chunk := content.read(_CHUNK):
                    file.write(chunk)
    except (tarfile.TarError, KeyError) as error:
        raise SandboxError(f"{archive.name} cannot be unpacked: {error}") from error
    archive.unlink()


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return f"{reason}" or type(error).__name__
