"""A server for Git repositories over ssh on loopback."""

import asyncio
import shlex
from pathlib import Path

import asyncssh

from syncline.testing.gitserver import environment
from syncline.testing.loop import OnLoop

USER = "git"


class SshServer(OnLoop):
    """Serves the repositories of a folder at `ssh://git@127.0.0.1:PORT/NAME.git`, to one key.

    The key may only read, unless `pushable` is set.
    """

    thread_name = "ssh-server"

    def __init__(self, folder: Path) -> None:
        self.commands: list[str] = []
        """What clients asked to run."""
        self.pushable = False
        self._folder = folder
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self._client_key = asyncssh.generate_private_key("ssh-ed25519")

    @property
    def identity(self) -> bytes:
        """The private key that the server takes."""
        return bytes(self._client_key.export_private_key("openssh"))

    @property
    def known_hosts(self) -> bytes:
        """The server's own key, as ssh keeps it."""
        key = self._host_key.export_public_key("openssh").decode().strip()
        return f"[127.0.0.1]:{self.port} {key}\n[localhost]:{self.port} {key}\n".encode()

    def url(self, name: str, *, host: str = "127.0.0.1") -> str:
        """Return the URL of a repository."""
        return f"ssh://{USER}@{host}:{self.port}/{name}.git"

    async def _open(self) -> None:
        allowed = asyncssh.import_authorized_keys(self._client_key.export_public_key("openssh").decode())
        self._server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[self._host_key],
            authorized_client_keys=allowed,
            process_factory=self._serve,
            encoding=None,
        )
        self.port: int = self._server.get_port()

    async def _close(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        command = process.command or ""
        self.commands.append(command)
        words = shlex.split(command)
        known = ("git-upload-pack", "git-receive-pack") if self.pushable else ("git-upload-pack",)
        if len(words) != 2 or words[0] not in known:  # noqa: PLR2004 - the program and the path
            process.exit(1)
            return
        env = environment() | {"GIT_PROTOCOL": process.env.get("GIT_PROTOCOL", "")}
        backend = await asyncio.create_subprocess_exec(
            *("git", "-c", "safe.directory=*", words[0].removeprefix("git-"), str(self._folder / words[1].lstrip("/"))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
        )
        await process.redirect(stdin=backend.stdin, stdout=backend.stdout, stderr=backend.stderr)
        process.exit(await backend.wait())
        await process.wait_closed()
