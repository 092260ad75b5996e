"""The sources of bearer tokens, and their renewal.

A credential is never part of an error: messages name the file or the command, not its content.
"""

import asyncio
import contextlib
import json
import os
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from syncline.core.private_keys import KeyRefused, key_type, read_pem, rsa_of
from syncline.kube.config import Connection, ExecPlugin
from syncline.kube.errors import ConfigError
from syncline.programs import kill, started
from syncline.tls import client_context

FILE_MAX_AGE = 5.0
EXEC_TIMEOUT = 30.0
EXEC_MAX_OUTPUT = 1024 * 1024
EXPIRY_MARGIN = 10.0
MOST_CLIENT_BITS = 8192
"""The size of the largest RSA key of a client certificate: it signs in the event loop."""
_CERTIFICATE, _CERTIFICATE_END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----\n"


class Credential(Protocol):
    """A source of bearer tokens."""

    async def token(self) -> str | None:
        """Return the current token; None sends no token. Raises `ConfigError` if a token is missing."""

    async def renew(self, rejected: str | None) -> bool:
        """Handle a 401 for this token. Return whether there is another token now, so that a retry can help."""


def credential_of(connection: Connection) -> Credential:
    """Return the credential of a connection."""
    if connection.exec_plugin:
        return ExecToken(connection.exec_plugin, connection)
    if connection.token_file:
        return FileToken(connection.token_file)
    return StaticToken(connection.token)


class StaticToken:
    """A token that never changes, or no token if a client certificate identifies us."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def token(self) -> str | None:
        """Return it."""
        return self._token

    async def renew(self, rejected: str | None) -> bool:
        """There is no other."""
        return self._token != rejected


class FileToken:
    """A token in a file that is rotated by others. It is read again every few seconds, and at once after a 401."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = None
        self._read_at = float("-inf")

    async def token(self) -> str:
        """Return the file's content, at most a few seconds old."""
        now = asyncio.get_running_loop().time()
        if self._token is None or now - self._read_at >= FILE_MAX_AGE:
            self._read(now)
        assert self._token is not None  # noqa: S101  # _read sets it or raises
        return self._token

    async def renew(self, rejected: str | None) -> bool:
        """Read the file now."""
        self._read(asyncio.get_running_loop().time())
        return self._token != rejected

    def _read(self, now: float) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._token is not None:  # a rotation is in progress; the current token may still be valid
                return
            raise ConfigError(f"cannot read the token file {self._path}: {type(error).__name__}") from None
        if token:
            self._token, self._read_at = token, now
        elif self._token is None:
            raise ConfigError(f"the token file {self._path} is empty")


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _ExecStatus | None = None


class ExecToken:
    """A token that a command prints. It is cached until it expires or is rejected. Concurrent callers share one run."""

    def __init__(self, plugin: ExecPlugin, connection: Connection) -> None:
        self._plugin = plugin
        self._connection = connection
        self._token: str | None = None
        self._valid_until = float("inf")
        self._running = asyncio.Lock()

    async def token(self) -> str:
        """Return the cached token, or run the command."""
        async with self._running:
            if self._token is None or asyncio.get_running_loop().time() >= self._valid_until:
                await self._run()
            assert self._token is not None  # noqa: S101  # _run sets it or raises
            return self._token

    async def renew(self, rejected: str | None) -> bool:
        """Run the command, unless another caller just did."""
        async with self._running:
            if self._token == rejected:
                await self._run()
            return self._token != rejected

    async def _run(self) -> None:
        output = await self._output()
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except (ValueError, RecursionError):
            raise self._failure("printed no ExecCredential") from None
        if answer.api_version != self._plugin.api_version:
            raise self._failure(f"answered with another apiVersion than {self._plugin.api_version}")
        status = answer.status or _ExecStatus()
        if status.client_certificate_data:
            raise self._failure("printed a client certificate, which is not supported; configure it to print a token")
        if not status.token:
            raise self._failure("printed no token")
        self._token, self._valid_until = status.token, float("inf")
        if status.expiration_timestamp:
            left = (status.expiration_timestamp.astimezone(UTC) - datetime.now(UTC)).total_seconds()
            self._valid_until = asyncio.get_running_loop().time() + max(0.0, left - EXPIRY_MARGIN)

    async def _output(self) -> bytes:
        env = {**os.environ, **dict(self._plugin.env), "KUBERNETES_EXEC_INFO": self._exec_info()}
        try:
            # stderr is dropped: the plugin may print a secret there.
            process = await started(
                asyncio.create_subprocess_exec(
                    self._plugin.command,
                    *self._plugin.args,
                    env=env,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
        except (OSError, ValueError) as error:
            hint = f"; {self._plugin.hint}" if self._plugin.hint else ""
            raise self._failure(f"cannot be started ({type(error).__name__}){hint}") from None
        assert process.stdout is not None  # noqa: S101  # it is a pipe
        try:
            async with asyncio.timeout(EXEC_TIMEOUT):
                output = await _read_capped(process.stdout)
                code = await process.wait()
        except TimeoutError:
            raise self._failure(f"did not finish in {EXEC_TIMEOUT:.0f} s") from None
        finally:
            await _end(process)
        if code != 0:
            raise self._failure(f"ended with code {code}; run it manually to see the cause")
        if len(output) > EXEC_MAX_OUTPUT:
            raise self._failure("printed more than 1 MiB")
        return output

    def _exec_info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.cluster_info:
            spec["cluster"] = {
                "server": self._connection.server,
                "tls-server-name": self._connection.tls_server_name or "",
                "insecure-skip-tls-verify": not self._connection.verify_tls,
            }
        return json.dumps({"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec})

    def _failure(self, what: str) -> ConfigError:
        return ConfigError(f"the credential command {self._plugin.command!r} {what}")


async def _read_capped(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, because a process with a full pipe does not end. Keep only one byte more than the limit."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: EXEC_MAX_OUTPUT + 1 - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and all processes that it started."""
    kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await process.communicate()  # empties the pipe


def tls_context(connection: Connection) -> ssl.SSLContext:
    """Return the TLS settings of a connection. Raises `ConfigError` for certificates that cannot be read."""
    try:
        cadata = connection.ca_pem.decode() if connection.ca_pem else None
        context = client_context(cadata)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{connection.name}: the certificate authority is not a PEM certificate") from None
    # The default since Python 3.13. But many CAs of clusters have no key identifier, and are trusted all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not connection.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if connection.client_cert_pem and connection.client_key_pem:
        # The ssl module reads keys only from files. This file exists for a moment, in a private folder.
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            try:
                pair.write_bytes(_certificates(connection.client_cert_pem) + _client_key(connection.client_key_pem))
                context.load_cert_chain(pair)
            except KeyRefused as refused:
                raise ConfigError(f"{connection.name}: the client key {refused}") from None
            except (ssl.SSLError, ValueError):
                raise ConfigError(f"{connection.name}: the client certificate and the key do not match") from None
    return context


def _certificates(pem: bytes) -> bytes:
    """Return the certificates of a text in PEM, and nothing else."""
    blocks = pem.split(_CERTIFICATE)[1:]
    return b"".join(_CERTIFICATE + block.partition(b"-----")[0] + _CERTIFICATE_END for block in blocks)


def _client_key(pem: bytes) -> bytes:
    """Return a key that signs in a short time. Raises `KeyRefused`."""
    key = read_pem(pem)
    if key.encrypted:
        raise KeyRefused("has a passphrase: write it without one")
    if key_type(key) == "RSA":
        rsa_of(key, MOST_CLIENT_BITS)
    return key.text
