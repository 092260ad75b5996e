"""Downloads official release binaries, and verifies their published checksums."""

import contextlib
import hashlib
import http.client
import os
import queue
import ssl
import tarfile
import threading
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO

from syncline.sandbox import versions
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.progress import Progress

MIRROR = "SYNCLINE_SANDBOX_MIRROR"
CONNECT_SECONDS = 1.5
# A name lookup has no timeout, and a proxy may accept and stay silent: this is the timeout of the first answer.
FIRST_ANSWER_SECONDS = 3.0
STALL_SECONDS = 30.0
_CHUNK = 1 << 18
_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)


class Releases:
    """The hosts of official releases, or one mirror with the same layout. A silent host is asked only once."""

    def __init__(self) -> None:
        mirror = os.environ.get(MIRROR, "").rstrip("/")
        self._kubernetes = mirror or "https://dl.k8s.io"
        self._github = mirror or "https://github.com"
        self._helm = mirror or "https://get.helm.sh"
        self._silent: dict[str, SandboxError] = {}
        self._opener = urllib.request.build_opener(_NoDowngrade())

    def download(self, component: str, into: Path) -> None:
        """Download the official binary to the folder `into`. Raises SandboxError if that fails or it is not genuine."""
        system, architecture = versions.system()
        version = versions.version(component)
        if component == versions.ETCD:
            archive = f"etcd-{version}-{system}-{architecture}.tar.gz"
            base = f"{self._github}/etcd-io/etcd/releases/download/{version}"
            expected = _listed(self._ask(self._github, f"{base}/SHA256SUMS"), archive)
            self._fetch(f"{base}/{archive}", into / archive, expected)
            _unpack(into / archive, archive.removesuffix(".tar.gz") + "/etcd", into / component)
        elif component == versions.HELM:
            archive = f"helm-{version}-{system}-{architecture}.tar.gz"
            expected = _listed(self._ask(self._helm, f"{self._helm}/{archive}.sha256sum"), archive)
            self._fetch(f"{self._helm}/{archive}", into / archive, expected)
            _unpack(into / archive, f"{system}-{architecture}/helm", into / component)
        elif component == versions.KUSTOMIZE:
            archive = f"kustomize_{version}_{system}_{architecture}.tar.gz"
            base = f"{self._github}/kubernetes-sigs/kustomize/releases/download/kustomize%2F{version}"
            expected = _listed(self._ask(self._github, f"{base}/checksums.txt"), archive)
            self._fetch(f"{base}/{archive}", into / archive, expected)
            _unpack(into / archive, "kustomize", into / component)
        elif component == versions.KCP:
            number = version.removeprefix("v")
            archive = f"kcp_{number}_{system}_{architecture}.tar.gz"
            base = f"{self._github}/kcp-dev/kcp/releases/download/{version}"
            expected = _listed(self._ask(self._github, f"{base}/kcp_{number}_checksums.txt"), archive)
            self._fetch(f"{base}/{archive}", into / archive, expected)
            _unpack(into / archive, "bin/kcp", into / component)
        else:
            url = f"{self._kubernetes}/release/{version}/bin/{system}/{architecture}/{component}"
            expected = self._ask(self._kubernetes, f"{url}.sha256").strip()
            self._fetch(url, into / component, expected)

    def _ask(self, host: str, url: str) -> str:
        """Read a small file, with a short timeout for machines that are offline."""
        if host in self._silent:
            raise self._silent[host]
        answers: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

        def read() -> None:
            try:
                with self._opener.open(url, timeout=CONNECT_SECONDS) as answer:
                    answers.put(answer.read(_CHUNK).decode("ascii", "replace"))
            except (*_NETWORK_ERRORS, OSError, ValueError) as error:
                answers.put(error)

        threading.Thread(target=read, daemon=True).start()
        try:
            answer = answers.get(timeout=FIRST_ANSWER_SECONDS)
        except queue.Empty:
            answer = TimeoutError(f"no answer within {FIRST_ANSWER_SECONDS:g} s")
        if isinstance(answer, str):
            return answer
        failure = SandboxError(f"{url} cannot be read: {_reason(answer)}")
        if not isinstance(answer, urllib.error.HTTPError):
            self._silent[host] = failure
        raise failure from answer

    def _fetch(self, url: str, path: Path, expected: str) -> None:
        """Download to `path`, and compute the digest."""
        digest = hashlib.sha256()
        done = 0
        try:
            with (
                Progress(f"downloading {url}", expected="1 min") as progress,
                self._opener.open(url, timeout=STALL_SECONDS) as answer,
                path.open("wb") as file,
            ):
                total = int(answer.headers.get("Content-Length") or 0)
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    progress.now(f"{done >> 20} of {total >> 20} MiB" if total else f"{done >> 20} MiB")
        except _NETWORK_ERRORS as error:
            raise SandboxError(f"{url} cannot be read: {_reason(error)}") from error
        if done < total:
            raise SandboxError(f"{url} ended after {done} of {total} bytes")
        if digest.hexdigest() != expected.lower():
            path.unlink()
            raise SandboxError(
                f"{url} does not match its published checksum (sha256 {digest.hexdigest()}, not {expected})"
            )


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from HTTPS to HTTP: the checksum is only as trustworthy as its transport."""

    def redirect_request(  # noqa: PLR0917 - the standard library calls it so
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.URLError(f"redirected to {newurl}, which is not HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


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
    return str(error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)) or repr(error)
