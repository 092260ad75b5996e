"""A folder with a certificate, its key and the certificates that clients trust; another program renews them.

cert-manager fills the Secret of a Certificate with these three files. A new authority must be in ca.crt before a
certificate of it is in tls.crt: clients learn of it over connections that they still trust.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from syncline.telemetry.bind import BindError
from syncline.telemetry.certificate import ServingCertificate

CA = "ca.crt"
"""The name of the file with the certificates that clients trust."""
CHECK_SECONDS = 5.0
"""The time between two checks of the file."""
_MAX_BYTES = 64 * 1024

log = structlog.get_logger(__name__)


class CertificateFolder:
    """Follows a folder from `start` to `stop`. `on_change` is called when `ca` has changed."""

    def __init__(self, flag: str, folder: str, on_change: Callable[[], None]) -> None:
        """Read the folder. Raises `BindError`, which names the flag."""
        self.certificate = ServingCertificate.from_folder(flag, folder, "depot")
        self._file = Path(folder, CA)
        self._on_change = on_change
        self._watch: asyncio.Task[None] | None = None
        try:
            self.ca = _read(self._file)
            """The certificates that clients trust, as PEM."""
        except (OSError, ValueError) as error:
            raise BindError(f"{flag} {folder}: put the certificates that agents trust in {CA}; {error}") from None

    async def start(self) -> None:
        """Follow the file."""
        self._watch = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """End."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    async def _follow(self) -> None:
        problem = ""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                ca = await asyncio.to_thread(_read, self._file)
            except (OSError, ValueError) as error:
                if str(error) != problem:
                    problem = str(error)
                    log.warning("the trusted certificates cannot be read; the previous ones stay", error=problem)
                continue
            problem = ""
            if ca != self.ca:
                self.ca = ca
                log.info("the trusted certificates have changed", file=str(self._file))
                self._on_change()


def _read(file: Path) -> str:
    """Return the certificates of a file, and nothing else that is in it. Raises `OSError` and `ValueError`."""
    with file.open("rb") as opened:
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{file} has more than {_MAX_BYTES} bytes")
    found = x509.load_pem_x509_certificates(content)
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)
