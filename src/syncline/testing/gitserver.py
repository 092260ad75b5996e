"""Git repositories, and a server for them over HTTPS on loopback, with faults on request.

`Repository` writes commits without a checkout. `GitServer` serves a folder of them through `git http-backend`, requires
credentials on request, and records its requests. `TunnelProxy` is an HTTP proxy in front of it. Git over ssh is in
`gitssh`.
"""

import asyncio
import base64
import contextlib
import os
import ssl
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from syncline.sandbox.kubeconfig import write_private
from syncline.sandbox.pki import Authority
from syncline.testing.loop import OnLoop
from syncline.testing.proxy import CLOSING

BRANCH = "main"
_ENVIRONMENT = {
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_AUTHOR_NAME": "Author",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
_CHUNK = 64 * 1024


def environment() -> dict[str, str]:
    """Return the environment of git in tests and test servers, without the settings of the machine."""
    return {**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}


class GitFile(NamedTuple):
    """The content of a path that is not a regular file."""

    content: bytes
    mode: str = "100644"


Content = str | bytes | GitFile | None
"""The content of a path in a commit; None removes it."""


def symlink(target: str) -> GitFile:
    """Return a symbolic link to a path."""
    return GitFile(target.encode(), "120000")


def submodule(commit: str) -> GitFile:
    """Return a submodule at a commit."""
    return GitFile(commit.encode(), "160000")


class Repository:
    """A bare repository. Tests write commits to it without a push."""

    def __init__(self, path: Path, *, object_format: str = "sha1") -> None:
        self.path = path
        if not path.exists():
            self.git(
                "init", "--quiet", "--bare", f"--initial-branch={BRANCH}", f"--object-format={object_format}", str(path)
            )

    def git(self, *arguments: str, given: bytes = b"", settings: Mapping[str, str] | None = None) -> str:
        """Run git in the repository and return its output."""
        options = [part for name, value in (settings or {}).items() for part in ("-c", f"{name}={value}")]
        place = [] if arguments[0] == "init" else [f"--git-dir={self.path}"]
        done = subprocess.run(
            ["git", *options, *place, *arguments], input=given, capture_output=True, check=False, env=environment()
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        ref: str = f"refs/heads/{BRANCH}",
        message: str = "change",
        anew: bool = False,
    ) -> str:
        """Commit to a ref and return the id of the commit. `anew` drops the earlier commits, like a forced push."""
        parts = [
            f"commit {ref}\ncommitter Author <author@example.com> 1767225600 +0000\ndata {len(message)}\n{message}\n"
        ]
        exists = not anew and any(
            line.endswith(f" {ref}") for line in self.git("for-each-ref").replace("\t", " ").split("\n")
        )
        if anew:
            parts.insert(0, f"reset {ref}\n\n")
        parts += [f"from {ref}^0\n"] * exists
        stream = [part.encode() for part in parts]
        for path, content in files.items():
            stream += _change(path, content)
        self.git("fast-import", "--quiet", "--force", given=b"".join(stream))
        return self.git("rev-parse", ref)

    def tag(self, name: str, commit: str, *, annotated: bool = False) -> str:
        """Create or move a tag, and return its commit."""
        self.git("tag", "--force", *(("-a", "-m", name) if annotated else ()), name, commit)
        return self.git("rev-parse", f"refs/tags/{name}")

    def delete(self, ref: str) -> None:
        """Delete a ref."""
        self.git("update-ref", "-d", ref)


def _change(path: str, content: Content) -> list[bytes]:
    if content is None:
        return [f"D {path}\n".encode()]
    plain = content.encode() if isinstance(content, str) else content
    file = plain if isinstance(plain, GitFile) else GitFile(plain)
    if file.mode == "160000":
        return [f"M 160000 {file.content.decode()} {path}\n".encode()]
    return [f"M {file.mode} inline {path}\ndata {len(file.content)}\n".encode(), file.content, b"\n"]


class GitRequest(NamedTuple):
    """A received request."""

    method: str
    repository: str
    service: str
    authorization: str
    protocol: str

    @property
    def is_check(self) -> bool:
        """Whether it requests the list of refs, as a check does."""
        return self.method == "POST" and self.service == "ls-refs"

    @property
    def is_fetch(self) -> bool:
        """Whether it requests objects."""
        return self.method == "POST" and self.service == "fetch"

    @property
    def is_push(self) -> bool:
        """Whether it sends objects."""
        return self.method == "POST" and self.service == "push"


class GitServer(OnLoop):
    """Serves repositories at `https://127.0.0.1:PORT/NAME.git`, for as long as its `with` block lasts."""

    thread_name = "git-server"

    def __init__(self, *, clients: Authority | None = None, tls: bool = True) -> None:
        self.authority = Authority.create()
        self.requests: list[GitRequest] = []
        """All requests, in order."""
        self.sent: Counter[str] = Counter()
        """The number of bytes in the answers for a repository, by its name."""
        self.credentials: dict[str, str] = {}
        """The required Authorization header of requests for a repository, by its name."""
        self.redirects: dict[str, str] = {}
        """The targets of redirects, by the beginning of the path."""
        self.statuses: dict[str, int] = {}
        """The status of answers for a repository instead of its content, by its name."""
        self.cuts: dict[str, int] = {}
        """The number of bytes after which the answers for a repository end, by its name."""
        self.pushable: set[str] = set()
        """The repositories that accept pushes, by their names."""
        self.before_push: dict[str, Callable[[], None]] = {}
        """Called once, before a push to a repository, by its name."""
        self.old_protocol: set[str] = set()
        """The repositories that are served without version 2 of the protocol, as by old servers."""
        self.routes: dict[str, Callable[[web.BaseRequest, bytes], web.StreamResponse]] = {}
        """The answers of services other than git, by path."""
        self._clients = clients
        self._tls = tls
        self._held: set[str] = set()
        self._waiting: Counter[str] = Counter()

    def _prepare(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncline-git-server-")))

    @property
    def ca(self) -> bytes:
        """The authority of the server's certificate, PEM."""
        return self.authority.certificate

    def repository(self, name: str, *, object_format: str = "sha1") -> Repository:
        """Create a repository, or open the existing one of this name."""
        return Repository(self.folder / f"{name}.git", object_format=object_format)

    def url(self, name: str, *, host: str = "127.0.0.1") -> str:
        """Return the URL of a repository."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/{name}.git"

    def require_basic(self, name: str, username: str, password: str) -> None:
        """Require a name and a password."""
        self.credentials[name] = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()

    def checks(self, name: str) -> int:
        """Return the number of requests for the refs of a repository."""
        return sum(asked.is_check and asked.repository == name for asked in tuple(self.requests))

    def fetches(self, name: str) -> int:
        """Return the number of requests for objects of a repository."""
        return sum(asked.is_fetch and asked.repository == name for asked in tuple(self.requests))

    def hold(self, name: str) -> None:
        """Hold the requests for a repository without an answer, until they are released."""
        self._held.add(name)

    def waiting(self, name: str) -> int:
        """Return the number of held requests for a repository."""
        return self._waiting[name]

    def release(self, name: str) -> None:
        """Answer the held requests."""
        self._held.discard(name)
        self._thread.run(self._wake())

    async def _open(self) -> None:
        self._released = asyncio.Condition()
        self._server = web.Server(self._serve, handler_cancellation=True)
        self._runner = web.ServerRunner(self._server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context() if self._tls else None).start()
        self.port: int = self._runner.addresses[0][1]

    async def _close(self) -> None:
        self._held.clear()
        await self._wake()
        await self._runner.cleanup()
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(CLOSING)

    async def _wake(self) -> None:
        async with self._released:
            self._released.notify_all()

    def _context(self) -> ssl.SSLContext:
        pair = self.folder / "serving.pem"
        write_private(pair, b"".join(self.authority.serving()))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        if self._clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self._clients.certificate.decode())
        return context

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        if route := self._route(request.path):
            return route(request, body)
        name, _, rest = request.path.lstrip("/").partition(".git")
        asked = _read(request, name, rest, body)
        self.requests.append(asked)
        async with self._held_back(name):
            for start, target in self.redirects.items():
                if request.path.startswith(start):
                    raise web.HTTPFound(target + request.path_qs.removeprefix(start))
            wanted = self.credentials.get(name)
            if wanted is not None and asked.authorization != wanted:
                return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
            if status := self.statuses.get(name):
                return web.Response(status=status)
            if asked.is_push and (happens := self.before_push.pop(name, None)) is not None:
                await asyncio.to_thread(happens)
            return await self._answer(request, name, body, asked)

    def _route(self, path: str) -> Callable[[web.BaseRequest, bytes], web.StreamResponse] | None:
        """Return the answer for a path: its own, or the answer of a prefix with `*`."""
        patterns = (one for one in self.routes if one.endswith("*") and path.startswith(one.removesuffix("*")))
        return self.routes.get(path) or self.routes.get(next(patterns, ""))

    @asynccontextmanager
    async def _held_back(self, name: str) -> AsyncIterator[None]:
        if name in self._held:
            self._waiting[name] += 1
            try:
                async with self._released:
                    await self._released.wait_for(lambda: name not in self._held)
            finally:
                self._waiting[name] -= 1
        yield

    async def _answer(self, request: web.BaseRequest, name: str, body: bytes, asked: GitRequest) -> web.StreamResponse:
        status, headers, content = await self._backend(request, name, body, asked)
        self.sent[name] += len(content)
        cut = self.cuts.get(name)
        if cut is None:
            return web.Response(status=status, headers=headers, body=content)
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(content))})
        await response.prepare(request)
        await response.write(content[:cut])
        if len(content) > cut and request.transport is not None:
            request.transport.abort()
        return response

    async def _backend(
        self, request: web.BaseRequest, name: str, body: bytes, asked: GitRequest
    ) -> tuple[int, dict[str, str], bytes]:
        env = environment() | {
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_CONFIG_KEY_1": "http.receivepack",
            "GIT_CONFIG_VALUE_1": "true" if name in self.pushable else "false",
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROJECT_ROOT": str(self.folder),
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": request.method,
        }
        if name not in self.old_protocol:
            env["GIT_PROTOCOL"] = asked.protocol
        process = await asyncio.create_subprocess_exec(
            *("git", "http-backend"),
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            output, _ = await process.communicate(body)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        head, _, content = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return status, headers, content


def _read(request: web.BaseRequest, name: str, rest: str, body: bytes) -> GitRequest:
    service = request.query.get("service", "") or rest.strip("/")
    if request.method == "POST":
        service = "ls-refs" if b"command=ls-refs" in body[:64] else "fetch"
        if rest.endswith("/git-receive-pack"):
            service = "push"
    headers = request.headers
    return GitRequest(request.method, name, service, headers.get("Authorization", ""), headers.get("Git-Protocol", ""))


class TunnelProxy(OnLoop):
    """An HTTP proxy for CONNECT, for as long as its `with` block lasts."""

    thread_name = "tunnel-proxy"

    def __init__(self, username: str = "", password: str = "") -> None:
        self.tunnels: list[str] = []
        """The requested targets."""
        self.heads: list[str] = []
        """The requests of clients."""
        self._wanted = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode() if username else ""

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        await self._server.wait_closed()
        await asyncio.sleep(CLOSING)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            target = head.split(" ", 2)[1]
            if self._wanted and f"Proxy-Authorization: {self._wanted}\r\n" not in head:
                challenge = b'Proxy-Authenticate: Basic realm="proxy"\r\nConnection: close\r\nContent-Length: 0'
                writer.write(b"HTTP/1.1 407 Who are you\r\n" + challenge + b"\r\n\r\n")
                return
            self.tunnels.append(target)
            host, _, port = target.rpartition(":")
            back, forth = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            try:
                await asyncio.gather(_pump(reader, forth), _pump(back, writer))
            finally:
                forth.close()
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.close()
    except ConnectionError:
        writer.close()
