"""Connections to Git servers: lists refs, fetches commits into a folder and pushes commits, with a credential.

Each call has a private folder with the files for `git` and `ssh`: settings, credential, keys and certificate
authorities. It is deleted after the call. No credential is in an argument, a URL or an environment variable. `git`
never follows redirects. A redirect within the same server is remembered, all others are refused.
"""

import base64
import re
import shlex
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver
from msgspec import Struct
from msgspec.structs import replace

from syncline.confinement.programs import Unconfined
from syncline.fairness import FairSemaphore
from syncline.git.errors import (
    AuthenticationFailed,
    CacheFailure,
    CredentialError,
    GitError,
    InvalidSource,
    NeedsMore,
    Refused,
    RepositoryNotFound,
    RepositoryUnreachable,
)
from syncline.git.githubapp import AppTokens, CheckedResolver
from syncline.git.limits import Limits
from syncline.git.process import ProcessLimits, ProcessResult, Sink, run
from syncline.git.refs import Refs, RefsReader
from syncline.git.remotes import Basic, Bearer, GitHubApp, Proxy, Remote, Ssh
from syncline.git.tool_errors import Damaged, Redirected, scrub, to_git_error
from syncline.git.url import GitUrl, addresses, as_address, host_refusal, parse_url
from syncline.lookups import Lookups

_INFO_REFS = "/info/refs"
_REDIRECTION = re.compile(r"Recv header: [Ll]ocation: (\S+)")
_MAX_MOVED = 1000
_TRACE = 4 * 1024 * 1024

# The settings for all servers. Objects are validated at the fetch. A few old and harmless mistakes are accepted.
_SETTINGS = """\
[core]
	hooksPath = /dev/null
	bigFileThreshold = 16m
	deltaBaseCacheLimit = 16m
	askPass = /bin/false
[credential]
	helper =
[fetch]
	unpackLimit = 1
	writeCommitGraph = false
[fetch "fsck"]
	badTimezone = ignore
	missingSpaceBeforeDate = ignore
	zeroPaddedFilemode = ignore
[gc]
	auto = 0
[http]
	followRedirects = false
	lowSpeedLimit = 1
	lowSpeedTime = 60
	sslVerify = true
	emptyAuth = false
[maintenance]
	auto = false
[pack]
	threads = 1
[protocol]
	version = 2
[submodule]
	recurse = false
[transfer]
	fsckObjects = true
	bundleURI = false
"""


class _Call(Struct, frozen=True):
    """The parameters of one call of `git`."""

    url: str
    location: GitUrl
    environment: dict[str, str]
    secrets: tuple[str, ...]
    folder: Path
    port: int
    """The port of the connection: of the server, or of its proxy."""
    tenants: tuple[str, ...] = ()
    """The tenant of the call."""
    has_other_addresses: bool = False
    """Whether the host has addresses that this call does not try."""


class _AgainError(Exception):
    """The call can be repeated. If not, there is a cause."""

    def __init__(self, cause: GitError) -> None:
        super().__init__()
        self.cause = cause


class GitTransport:
    """Connections to Git servers. The creator closes it."""

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        *,
        allow_insecure: bool,
        allow_loopback: bool,
        unconfined: bool = False,
        tenants: Callable[[Remote], Collection[str]] = lambda _: (),
    ) -> None:
        self._folder = folder
        self.unconfined = unconfined
        """Whether git runs even if the machine cannot confine it."""
        self._limits = limits
        self._allow_insecure = allow_insecure
        self._allow_loopback = allow_loopback
        self._lookups = Lookups()
        self._tokens = AppTokens(self._lookups, allow_insecure=allow_insecure, allow_loopback=allow_loopback)
        self._moved: dict[str, str] = {}
        self._tenants = tenants
        self._slots = FairSemaphore(limits.talks, share=_half(limits.talks))
        self._slots_at: WeakValueDictionary[str, FairSemaphore] = WeakValueDictionary()
        self._large = FairSemaphore(limits.large, share=_half(limits.large))
        self._reads = FairSemaphore(limits.reads, share=_half(limits.reads))
        self._many_refs: OrderedDict[str, None] = OrderedDict()

    def close(self) -> None:
        """End the threads for name resolution."""
        self._lookups.close()

    def parse_url(self, url: str) -> GitUrl:
        """Parse a URL. Raises `InvalidSource` or `Refused`."""
        return parse_url(url, allow_insecure=self._allow_insecure, allow_loopback=self._allow_loopback)

    def large(self, remote: Remote) -> AbstractAsyncContextManager[None]:
        """Wait for a slot for large work."""
        return self._large.slot(*self._tenants(remote))

    def read(self, remote: Remote) -> AbstractAsyncContextManager[None]:
        """Wait for a slot to read mirrors."""
        return self._reads.slot(*self._tenants(remote))

    async def refs(self, remote: Remote, *, everything: bool) -> Refs:
        """List the refs of a server: branches and tags, or all refs with HEAD."""
        limits = self._limits
        if remote.key not in self._many_refs:
            try:
                return await self._refs(remote, limits.small_listing_bytes, limits.memory_bytes, everything=everything)
            except NeedsMore:
                self._many_refs[remote.key] = None
                while len(self._many_refs) > _MAX_MOVED:
                    self._many_refs.popitem(last=False)
        async with self.large(remote):
            return await self._refs(remote, limits.refs_bytes, limits.large_memory_bytes, everything=everything)

    async def _refs(self, remote: Remote, size: int, memory: int, *, everything: bool) -> Refs:
        wanted = ["--symref"] if everything else ["--heads", "--tags"]
        caps = ProcessLimits(self._limits.check_seconds, output=2 * self._limits.refs_bytes, memory=memory)
        readers: list[RefsReader] = []

        def sink() -> Sink:
            readers.append(RefsReader(refs=self._limits.refs, size=size))

            async def take(chunk: bytes) -> None:
                readers[-1].feed(chunk)

            return take

        try:
            await self._talk(remote, ["ls-remote", "--quiet", *wanted, "--end-of-options"], [], caps, sink)
        except Damaged as unknown:
            raise RepositoryUnreachable(str(unknown)) from None
        return readers[-1].finish()

    async def fetch(
        self,
        remote: Remote,
        repository: Path,
        refspecs: Sequence[str],
        *,
        depth: int,
        file_size: int,
        large: bool,
        borrowed: Sequence[Path] = (),
    ) -> None:
        """Fetch into a bare repository, with a limit of the file size. With `large`, the caller holds a slot for it.

        `borrowed`: repositories whose objects it uses.
        """
        arguments = [f"--git-dir={repository}", "fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head"]
        arguments += ["--no-recurse-submodules", "--no-auto-maintenance", f"--depth={depth}", "--end-of-options"]
        memory = self._limits.large_memory_bytes if large else self._limits.memory_bytes
        caps = ProcessLimits(
            self._limits.fetch_seconds, file_size=file_size, memory=memory, write=(repository,), read=borrowed
        )
        await self._talk(remote, arguments, refspecs, caps)

    async def push(
        self, remote: Remote, repository: Path, commit: str, ref: str, *, large: bool, borrowed: Sequence[Path]
    ) -> None:
        """Push a commit to a full ref, never by force. With `large`, the caller holds a slot for it.

        Raises `PushOutdated` if the ref is not an ancestor of the commit.
        """
        arguments = [f"--git-dir={repository}", "push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags"]
        arguments += ["--recurse-submodules=no", "--no-force-with-lease", "--end-of-options"]
        memory = self._limits.large_memory_bytes if large else self._limits.memory_bytes
        caps = ProcessLimits(self._limits.fetch_seconds, memory=memory, write=(repository,), read=borrowed)
        await self._talk(remote, arguments, [f"{commit}:{ref}"], caps)

    async def api_token(self, remote: Remote) -> str:
        """Return the token that opens the API of the server of a repository. Raises `CredentialError`."""
        match remote.credential:
            case Basic(_, password):
                return password
            case Bearer(token):
                return token
            case GitHubApp() as app:
                return await self._tokens.token(remote, app, self._tenants(remote))
        raise CredentialError("the credential of the repository has no token for the API of its server")

    def api_resolver(self, remote: Remote) -> AbstractResolver:
        """Return what resolves names of servers with an API, and returns no refused address."""
        return CheckedResolver(self._lookups, self._tenants(remote), allow_loopback=self._allow_loopback)

    @property
    def allows_loopback(self) -> bool:
        """Whether servers on this machine are allowed."""
        return self._allow_loopback

    async def _talk(
        self,
        remote: Remote,
        before: Sequence[str],
        after: Sequence[str],
        caps: ProcessLimits,
        sink: Callable[[], Sink] | None = None,
    ) -> ProcessResult:
        """Call `git` with the URL between two lists of arguments, and repeat the call after a redirect."""
        try:
            return await self._try(remote, [before, after], caps, sink, attempt=0)
        except _AgainError:
            pass
        try:
            return await self._try(remote, [before, after], caps, sink, attempt=1)
        except _AgainError as again:
            raise again.cause from None

    async def _try(
        self,
        remote: Remote,
        around: Sequence[Sequence[str]],
        caps: ProcessLimits,
        sink: Callable[[], Sink] | None,
        *,
        attempt: int,
    ) -> ProcessResult:
        before, after = around
        async with self._call(remote, attempt) as call:
            finished = await self._run(["git", *before, call.url, *after], call, caps, sink() if sink else None)
            if finished.flooded:
                raise RepositoryUnreachable(f"{call.location.host}: the response of the server exceeds the limit")
            if finished.code == 0:
                return finished
            error = to_git_error(finished.error, call.location, call.secrets)
            match error:
                case Redirected():
                    await self._learn(remote, call)
                    raise _AgainError(Refused(f"{call.location.host} redirects in a loop"))
                case AuthenticationFailed() if isinstance(remote.credential, GitHubApp):
                    self._tokens.forget(remote)
                    raise _AgainError(error)
                case RepositoryNotFound() if self._moved.pop(remote.key, None):
                    raise _AgainError(error)
                case RepositoryUnreachable() if call.has_other_addresses:
                    raise _AgainError(error)
            raise error

    async def _run(
        self, arguments: Sequence[str], call: _Call, caps: ProcessLimits, sink: Sink | None = None
    ) -> ProcessResult:
        at = self._slots_at.get(call.location.origin)
        if at is None:
            most = self._limits.talks_per_host
            at = self._slots_at[call.location.origin] = FairSemaphore(most, share=_half(most))
        caps = replace(caps, write=(*caps.write, call.folder), port=call.port, unconfined=self.unconfined)
        try:
            async with at.slot(*call.tenants), self._slots.slot(*call.tenants):
                return await run(arguments, caps, environment=call.environment, sink=sink)
        except Unconfined as refused:
            raise Refused(str(refused)) from None
        except TimeoutError:
            raise RepositoryUnreachable(
                f"{call.location.host}: git took longer than {caps.seconds:g} s and was stopped"
            ) from None
        except OSError as error:
            raise CacheFailure(f"git cannot be started: {error.strerror}") from None

    async def _learn(self, remote: Remote, call: _Call) -> None:
        """Return the destination of a redirect. Raises `Refused` if it is another server."""
        trace = call.folder / "trace"
        environment = call.environment | {"GIT_TRACE_CURL": str(trace), "GIT_TRACE_CURL_NO_DATA": "1"}
        arguments = ["git", "ls-remote", "--quiet", "--heads", "--end-of-options", call.url]
        await self._run(
            arguments,
            replace(call, environment=environment),
            ProcessLimits(
                self._limits.check_seconds, output=_TRACE, file_size=_TRACE, memory=self._limits.memory_bytes
            ),
        )
        found = _REDIRECTION.findall(trace.read_text(errors="replace")) if trace.exists() else []
        target = urljoin(call.url + _INFO_REFS, found[-1]) if found else ""
        base, refs, _ = target.partition(_INFO_REFS)
        shown = urlsplit(target)._replace(netloc=(urlsplit(target).hostname or ""), query="").geturl()
        try:
            same = bool(refs) and self.parse_url(base).origin == call.location.origin
        except (InvalidSource, Refused):
            same = False
        if not same:
            raise Refused(
                f"{call.location.host} redirects to {scrub(shown, call.secrets)[:200]!r}; if this is correct, write it"
                " as the repository's URL"
            )
        while len(self._moved) >= _MAX_MOVED:
            self._moved.pop(next(iter(self._moved)))
        self._moved[remote.key] = base

    @asynccontextmanager
    async def _call(self, remote: Remote, attempt: int) -> AsyncIterator[_Call]:
        """Prepare a call. Its files are deleted afterwards."""
        location = self.parse_url(self._moved.get(remote.key, remote.url))
        found = await self._addresses(location, remote.proxy, self._tenants(remote))
        secrets = remote.secrets
        credential = remote.credential
        if isinstance(credential, GitHubApp):
            token = await self._tokens.token(remote, credential, self._tenants(remote))
            secrets, credential = (*secrets, token), Basic("x-access-token", token)
        try:
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
        try:
            environment = {
                "GIT_ALLOW_PROTOCOL": "https:ssh:http" if self._allow_insecure else "https:ssh",
                "TMPDIR": str(folder),
            }
            if isinstance(credential, Ssh):
                # ssh gets one address. The next call uses the next address.
                environment["GIT_SSH_COMMAND"] = _ssh(folder, credential, location, found[attempt % len(found)])
                environment["GIT_SSH_VARIANT"] = "ssh"
                settings = ""
            else:
                header = _header(credential)
                secrets = (*secrets, header, header.partition(" ")[2])
                settings = _http_settings(folder, remote, header, location, found)
            environment["GIT_CONFIG_GLOBAL"] = str(_write(folder / "settings", (_SETTINGS + settings).encode()))
            yield _Call(
                location.url,
                location,
                environment,
                secrets,
                folder,
                remote.proxy.port if remote.proxy else location.port,
                tuple(self._tenants(remote)),
                location.is_ssh and len(found) > 1,
            )
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _addresses(self, location: GitUrl, proxy: Proxy | None, tenants: Collection[str]) -> list[str]:
        """Resolve the address for `git`: of the server, or of its proxy, which resolves the server itself."""
        host, port = (proxy.host, proxy.port) if proxy else (location.host, location.port)
        if why := host_refusal(host, allow_loopback=self._allow_loopback):
            raise Refused(f"the host {host} {why}")
        if address := as_address(host):
            return [address]
        return await addresses(host, port, allow_loopback=self._allow_loopback, lookups=self._lookups, tenants=tenants)


def _half(slots: int) -> int:
    return max(1, slots // 2)


def _header(credential: Basic | Bearer | None) -> str:
    match credential:
        case Basic(username, password):
            return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
        case Bearer(token):
            return f"Bearer {token}"
        case None:
            return ""


def _http_settings(folder: Path, remote: Remote, header: str, location: GitUrl, found: Sequence[str]) -> str:
    # Without a certificate authority in the Secret, the authorities of the system apply; with one, only this one.
    host, port = (remote.proxy.host, remote.proxy.port) if remote.proxy else (location.host, location.port)
    settings = {"proxy": remote.proxy.url if remote.proxy else ""}
    if not as_address(host):
        pinned = ",".join(f"[{address}]" if ":" in address else address for address in found)
        settings["curloptResolve"] = f"{host}:{port}:{pinned}"
    if remote.ca:
        settings["sslCAInfo"] = str(_write(folder / "ca.crt", remote.ca))
        (folder / "none").mkdir()
        settings["sslCAPath"] = str(folder / "none")
    if remote.client_certificate:
        settings["sslCert"] = str(_write(folder / "tls.crt", remote.client_certificate))
        settings["sslKey"] = str(_write(folder / "tls.key", remote.client_key))
    lines = ["[http]", *(f"\t{name} = {_quoted(value)}" for name, value in settings.items())]
    if header:
        # Only for this server, even if git connects to others.
        lines += [f'[http "{location.origin}/"]', f"\textraHeader = {_quoted(f'Authorization: {header}')}"]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ssh(folder: Path, credential: Ssh, location: GitUrl, address: str) -> str:
    identity = _write(folder / "identity", credential.identity)
    known = _write(folder / "known_hosts", credential.known_hosts)
    alias = location.host if location.port == 22 else f"[{location.host}]:{location.port}"  # noqa: PLR2004 - ssh
    options = {
        "BatchMode": "yes",
        "CheckHostIP": "no",
        "ConnectTimeout": "15",
        "ForwardAgent": "no",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": alias,
        "HostName": address,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "IdentityFile": f'"{identity}"',
        "LogLevel": "ERROR",
        "PermitLocalCommand": "no",
        "Port": str(location.port),
        "PreferredAuthentications": "publickey",
        "ProxyCommand": "none",
        "ServerAliveCountMax": "3",
        "ServerAliveInterval": "10",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "UserKnownHostsFile": f'"{known}"',
    }
    arguments = ["ssh", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]
    return shlex.join(arguments)


def _write(path: Path, content: bytes) -> Path:
    path.touch(0o600, exist_ok=False)
    path.write_bytes(content)
    return path
