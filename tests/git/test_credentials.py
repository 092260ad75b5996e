"""What opens a repository, on real servers; and that it is nowhere to be seen."""

import asyncio
import base64
import datetime as dt
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from aiohttp import ClientTimeout
from cryptography.hazmat.primitives import serialization
from tests.git.github_app import TOKEN, App
from tests.git.test_mirrors import read, until

from syncline.git import (
    AuthenticationFailed,
    CacheFailure,
    CertificateUntrusted,
    HostKeyUnknown,
    Limits,
    Mirrors,
    Remote,
    RepositoryNotFound,
    RepositoryUnreachable,
    githubapp,
    remote_from,
    url,
)
from syncline.sandbox.pki import Authority
from syncline.testing.gitserver import GitServer, TunnelProxy
from syncline.testing.gitssh import SshServer

CANARY = "canary-3f2a1b0c9d8e7f6a"


@pytest.fixture
def authority(server: GitServer) -> dict[str, bytes]:
    return {"ca.crt": server.ca}


@pytest.mark.usefixtures("repository")
async def test_a_server_of_an_unknown_authority_is_not_trusted(mirrors: Mirrors, server: GitServer, name: str) -> None:
    with pytest.raises(CertificateUntrusted, match=r"ca\.crt"):
        await read(mirrors, Remote(server.url(name)))
    with pytest.raises(CertificateUntrusted, match=r"ca\.crt"):
        await read(mirrors, Remote(server.url(name), ca=Authority.create().certificate))
    with pytest.raises(CertificateUntrusted, match=r"ca\.crt"):
        await read(mirrors, Remote(server.url(name), ca=b"rubbish\n"))


@pytest.mark.usefixtures("repository")
async def test_a_name_and_a_password_open_a_repository(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes]
) -> None:
    server.require_basic(name, "somebody", CANARY)
    secret = {"username": b"somebody", "password": f"{CANARY}\n".encode()}
    assert await read(mirrors, remote_from(server.url(name), "Basic", secret, authority))
    wrong = remote_from(server.url(name), "Basic", secret | {"password": b"wrong-password"}, authority)
    with pytest.raises(AuthenticationFailed, match="check auth") as failed:
        await read(mirrors, wrong)
    assert "wrong-password" not in str(failed.value)
    with pytest.raises(AuthenticationFailed):
        await read(mirrors, remote_from(server.url(name), ca_secret=authority))


@pytest.mark.usefixtures("repository")
async def test_a_token_opens_a_repository(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes]
) -> None:
    server.require_basic(name, "x-access-token", CANARY)
    assert await read(mirrors, remote_from(server.url(name), "Token", {"token": CANARY.encode()}, authority))
    server.require_basic(name, "deploy", CANARY)
    secret = {"token": CANARY.encode(), "username": b"deploy"}
    assert await read(mirrors, remote_from(server.url(name), "Token", secret, authority))
    server.credentials[name] = f"Bearer {CANARY}"
    assert await read(mirrors, remote_from(server.url(name), "Token", {"bearerToken": CANARY.encode()}, authority))


@pytest.mark.usefixtures("repository")
async def test_a_repository_that_is_not_there_is_not_found(
    mirrors: Mirrors, server: GitServer, authority: dict[str, bytes]
) -> None:
    with pytest.raises(RepositoryNotFound):
        await read(mirrors, remote_from(server.url("no-such"), ca_secret=authority))


async def test_a_client_certificate_opens_a_server(mirrors: Mirrors) -> None:
    clients = Authority.create()
    with GitServer(clients=clients) as strict:
        strict.repository("one").commit({"a": "x"})
        certificate, key = clients.client("syncline")
        secret = {"ca.crt": strict.ca, "tls.crt": certificate, "tls.key": key}
        assert await read(mirrors, remote_from(strict.url("one"), ca_secret=secret)) == {"a": b"x"}
        # The server may have gone by the time its word is read.
        with pytest.raises((AuthenticationFailed, RepositoryUnreachable)):
            await read(mirrors, remote_from(strict.url("one"), ca_secret={"ca.crt": strict.ca}))
        other, other_key = Authority.create().client("syncline")
        with pytest.raises((AuthenticationFailed, RepositoryUnreachable)):
            await read(
                mirrors, remote_from(strict.url("one"), ca_secret=secret | {"tls.crt": other, "tls.key": other_key})
            )


@pytest.mark.usefixtures("repository")
async def test_a_proxy_does_not_see_the_credential_of_the_server(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes]
) -> None:
    server.require_basic(name, "x-access-token", CANARY)
    with TunnelProxy() as proxy:
        secret = {"address": f"http://127.0.0.1:{proxy.port}".encode()}
        remote = remote_from(server.url(name), "Token", {"token": CANARY.encode()}, authority, secret)
        assert await read(mirrors, remote)
        assert proxy.heads
        assert not [head for head in proxy.heads if "Authorization" in head]


@pytest.mark.usefixtures("repository")
async def test_a_proxy_is_gone_through(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes]
) -> None:
    with TunnelProxy("somebody", CANARY) as proxy:
        address = f"http://127.0.0.1:{proxy.port}".encode()
        secret = {"address": address, "username": b"somebody", "password": CANARY.encode()}
        assert await read(mirrors, remote_from(server.url(name), None, None, authority, secret))
        assert set(proxy.tunnels) == {f"127.0.0.1:{server.port}"}
        with pytest.raises(AuthenticationFailed, match="proxy") as failed:
            await read(
                mirrors, remote_from(server.url(name), None, None, authority, secret | {"password": b"no-no-no"})
            )
        assert "no-no-no" not in str(failed.value)
    with pytest.raises(RepositoryUnreachable):
        await read(mirrors, remote_from(server.url(name), None, None, authority, {"address": address}))


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs as a user without an entry in /etc/passwd, as clusters do that assign the users of pods."""
    real = asyncio.create_subprocess_exec

    async def wrapped(*arguments: Any, **options: Any) -> Any:
        return await real("unshare", "--user", "--map-user=1000650000", *arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", wrapped)


def ssh_secret(ssh: SshServer) -> dict[str, bytes]:
    return {"identity": ssh.identity, "known_hosts": ssh.known_hosts}


@pytest.mark.usefixtures("repository")
async def test_a_key_opens_a_repository_over_ssh(mirrors: Mirrors, ssh: SshServer, name: str) -> None:
    assert len(await read(mirrors, remote_from(ssh.url(name), "SSH", ssh_secret(ssh)))) == 3
    assert len(await read(mirrors, remote_from(ssh.url(name, host="localhost"), "SSH", ssh_secret(ssh)))) == 3
    assert all(command.startswith("git-upload-pack ") for command in ssh.commands)


@pytest.mark.usefixtures("repository")
async def test_a_repository_may_be_written_as_scp_does(
    mirrors: Mirrors, ssh: SshServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This way of writing has no place for a port: the server of this test stands where all others do.
    monkeypatch.setitem(url._PORTS, "ssh", ssh.port)
    secret = ssh_secret(ssh)
    before = len(ssh.commands)
    assert len(await read(mirrors, remote_from(f"git@127.0.0.1:{name}.git", "SSH", secret))) == 3
    assert set(ssh.commands[before:]) == {f"git-upload-pack '{name}.git'"}
    before = len(ssh.commands)
    assert len(await read(mirrors, remote_from(f"git@127.0.0.1:/{name}.git", "SSH", secret))) == 3
    assert set(ssh.commands[before:]) == {f"git-upload-pack '/{name}.git'"}
    before = len(ssh.commands)
    assert len(await read(mirrors, remote_from(f"ssh://git@127.0.0.1/{name}.git", "SSH", secret))) == 3
    assert ssh.commands[before:] == [], "it is the repository that was read just now"


@pytest.mark.usefixtures("repository")
async def test_a_key_with_a_passphrase_opens_a_repository_over_ssh(mirrors: Mirrors, ssh: SshServer, name: str) -> None:
    key = serialization.load_ssh_private_key(ssh.identity, password=None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(CANARY.encode()),
    )
    secret = ssh_secret(ssh) | {"identity": encrypted, "password": CANARY.encode()}
    assert await read(mirrors, remote_from(ssh.url(name), "SSH", secret))


@pytest.mark.usefixtures("repository")
async def test_a_server_that_is_not_known_gets_no_key(mirrors: Mirrors, ssh: SshServer, name: str) -> None:
    before = len(ssh.commands)
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh")
    for known in (b"example.com " + stranger, f"[127.0.0.1]:{ssh.port} ".encode() + stranger):
        with pytest.raises(HostKeyUnknown, match="known_hosts"):
            await read(mirrors, remote_from(ssh.url(name), "SSH", ssh_secret(ssh) | {"known_hosts": known}))
    assert len(ssh.commands) == before


@pytest.mark.usefixtures("repository")
async def test_a_key_that_the_server_does_not_know_opens_nothing(mirrors: Mirrors, ssh: SshServer, name: str) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key("openssh")
    with pytest.raises(AuthenticationFailed, match="deploy keys"):
        await read(mirrors, remote_from(ssh.url(name), "SSH", ssh_secret(ssh) | {"identity": key}))


@pytest.mark.usefixtures("repository", "nameless")
async def test_ssh_needs_a_user_with_a_name_and_says_so(
    mirrors: Mirrors, ssh: SshServer, remote: Remote, name: str
) -> None:
    assert len(await read(mirrors, remote)) == 3, "https needs none"
    before = len(ssh.commands)
    with pytest.raises(CacheFailure, match="a user with this id in /etc/passwd; run the operator as a user of the im"):
        await read(mirrors, remote_from(ssh.url(name), "SSH", ssh_secret(ssh)))
    assert len(ssh.commands) == before


async def test_a_repository_that_is_not_there_is_not_found_over_ssh(mirrors: Mirrors, ssh: SshServer) -> None:
    with pytest.raises(RepositoryNotFound):
        await read(mirrors, remote_from(ssh.url("no-such"), "SSH", ssh_secret(ssh)))


@pytest.fixture
def app(server: GitServer) -> App:
    return App(server)


@pytest.mark.usefixtures("repository")
async def test_a_github_app_gets_itself_a_token_and_keeps_it_until_it_is_about_to_expire(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes], app: App
) -> None:
    remote = remote_from(server.url(name), "GitHubApp", app.secret, authority)
    server.require_basic(name, "x-access-token", f"{TOKEN}-1")
    assert await read(mirrors, remote)
    await mirrors.refresh(remote)
    assert app.issued == 1
    # A token that the server no longer takes is replaced at once.
    server.require_basic(name, "x-access-token", f"{TOKEN}-2")
    await mirrors.refresh(remote)
    assert mirrors.status(remote).failure is None
    app.lifetime = dt.timedelta(minutes=1)
    server.require_basic(name, "x-access-token", f"{TOKEN}-3")
    await mirrors.refresh(remote)
    server.require_basic(name, "x-access-token", f"{TOKEN}-4")
    await mirrors.refresh(remote)
    assert mirrors.status(remote).failure is None
    assert app.issued == 4


@pytest.mark.usefixtures("repository")
async def test_a_github_app_that_github_does_not_know_says_what_to_check(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes], app: App
) -> None:
    remote = remote_from(server.url(name), "GitHubApp", app.secret, authority)
    app.status = 404
    with pytest.raises(AuthenticationFailed, match="check appID, installationID and privateKey"):
        await read(mirrors, remote)
    app.status = 503
    await mirrors.refresh(remote)
    assert isinstance(mirrors.status(remote).failure, RepositoryUnreachable)


@pytest.mark.usefixtures("repository")
async def test_a_long_token_answer_is_read_to_its_end(
    mirrors: Mirrors, server: GitServer, name: str, authority: dict[str, bytes], app: App
) -> None:
    server.require_basic(name, "x-access-token", f"{TOKEN}-1")
    app.padding = 512 * 1024
    assert await read(mirrors, remote_from(server.url(name), "GitHubApp", app.secret, authority))
    app.padding = 2 * 1024 * 1024
    other = remote_from(server.url(name), "GitHubApp", app.secret | {"appID": b"7a"}, authority)
    with pytest.raises(RepositoryUnreachable, match="cannot be read"):
        await mirrors.resolve(other, "main")


@pytest.mark.usefixtures("repository")
async def test_a_github_cannot_make_the_operator_keep_its_answers(
    mirrors: Mirrors, server: GitServer, name: str, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant who changes the Secret again and again gets a token for each of its contents."""
    monkeypatch.setattr(githubapp, "MOST_TOKENS", 3)
    authority = {"ca.crt": server.ca}
    tokens = mirrors._transport._tokens
    for number in range(8):
        secret = app.secret | {"appID": b"7%d" % number}
        await mirrors.refresh(remote_from(server.url(name), "GitHubApp", secret, authority))
        assert len(tokens) <= 3
    assert (app.issued, len(tokens._turns)) == (8, 0)
    app.token = "x" * 5000
    long = remote_from(server.url(name), "GitHubApp", app.secret, authority)
    with pytest.raises(RepositoryUnreachable, match="cannot be read"):
        await mirrors.resolve(long, "main")


@pytest.mark.usefixtures("repository")
async def test_a_github_that_takes_connections_and_says_nothing_is_given_up(
    mirrors: Mirrors, server: GitServer, name: str, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert githubapp._DEADLINE.total == 20
    monkeypatch.setattr(githubapp, "_DEADLINE", ClientTimeout(total=0.2))
    end = asyncio.Event()

    async def stay_silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await end.wait()
        writer.close()

    silent = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    try:
        api = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        secret = app.secret | {"baseURL": api.encode()}
        with pytest.raises(RepositoryUnreachable, match=rf"{api} is unreachable \(\w*Timeout"):
            await mirrors.resolve(remote_from(server.url(name), "GitHubApp", secret), "main")
    finally:
        end.set()
        silent.close()
        await silent.wait_closed()


@pytest.fixture
def processes() -> Callable[[], list[tuple[int, str, str]]]:
    """Return what programs this process has started: id, arguments and environment."""

    def look() -> list[tuple[int, str, str]]:
        found = []
        for pid in _descendants():
            folder = Path(f"/proc/{pid}")
            try:
                arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append((pid, arguments, (folder / "environ").read_bytes().decode()))
            except OSError:
                continue
        return found

    return look


def _descendants() -> set[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@pytest.mark.usefixtures("repository")
async def test_no_credential_is_in_arguments_environments_logs_or_errors(  # noqa: PLR0917
    mirrors: Mirrors,
    server: GitServer,
    name: str,
    authority: dict[str, bytes],
    processes: Callable[[], list[tuple[int, str, str]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.require_basic(name, "x-access-token", CANARY)
    remote = remote_from(server.url(name), "Token", {"token": CANARY.encode()}, authority)
    hidden = (CANARY, base64.b64encode(f"x-access-token:{CANARY}".encode()).decode())
    server.hold(name)
    checking = asyncio.create_task(mirrors.resolve(remote, "main"))
    await until(lambda: server.waiting(name) == 1)
    running = processes()
    assert any("git-remote-https" in arguments for _, arguments, _ in running)
    assert not [each for each in running for secret in hidden if secret in each[1] or secret in each[2]]
    server.release(name)
    await checking
    server.credentials[name] = "nothing fits"
    await mirrors.refresh(remote)
    shown = [str(mirrors.status(remote)), repr(mirrors.status(remote).failure), repr(remote), remote.key, caplog.text]
    shown += [repr(remote.credential)]
    assert not [text for text in shown for secret in hidden if secret in text]


async def test_a_server_that_does_not_answer_ends_with_git_and_all_it_started(
    tmp_path: Path,
    remote: Remote,
    server: GitServer,
    name: str,
    processes: Callable[[], list[tuple[int, str, str]]],
) -> None:
    server.hold(name)
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=Limits(check_seconds=0.5)) as mirrors:
        with pytest.raises(RepositoryUnreachable, match="took longer than"):
            await mirrors.resolve(remote, "main")
        assert not [each for each in processes() if "git-remote" in each[1]]
    server.release(name)


async def test_closing_ends_git_and_all_it_started(
    tmp_path: Path,
    remote: Remote,
    server: GitServer,
    name: str,
    processes: Callable[[], list[tuple[int, str, str]]],
) -> None:
    mirrors = Mirrors(tmp_path / "cache", allow_loopback=True)
    server.hold(name)
    mirrors.follow("sync", remote, 60)
    await until(lambda: server.waiting(name) == 1)
    assert [each for each in processes() if "git-remote" in each[1]]
    await mirrors.close()
    assert not [each for each in processes() if "git-remote" in each[1]]
    assert not list((tmp_path / "cache" / "run").iterdir())
    server.release(name)
