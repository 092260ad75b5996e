import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from syncline.kube import (
    NAMESPACES,
    Client,
    ConfigError,
    Connection,
    Resource,
    Unauthorized,
    Unreachable,
    credentials,
    load_kubeconfig,
)
from syncline.kube.config import ExecPlugin
from syncline.kube.credentials import ExecToken, FileToken, credential_of
from syncline.sandbox import Sandbox
from syncline.sandbox.pki import Authority

WHOAMI = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
V1 = "client.authentication.k8s.io/v1"
Plugin = Callable[..., ExecPlugin]


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """Make a command that prints a credential and leaves a line in `runs` each time."""

    def make(status: dict[str, Any] | None = None, *, script: str = "", version: str = V1, **more: Any) -> ExecPlugin:
        answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
        code = f"open({str(tmp_path / 'runs')!r}, 'a').write('x'); {script or f'print({answer!r})'}"
        settings = {"env": (), "api_version": V1, "cluster_info": False, "hint": "", **more}
        return ExecPlugin(command=sys.executable, args=("-c", code), **settings)

    return make


def runs(tmp_path: Path) -> int:
    path = tmp_path / "runs"
    return len(path.read_text()) if path.exists() else 0


def token_of(plugin: ExecPlugin) -> ExecToken:
    return ExecToken(plugin, Connection(server="https://main:6443", name="main"))


async def test_a_rotated_token_file_is_picked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "FILE_MAX_AGE", 0.0)
    path = tmp_path / "token"
    path.write_text("one\n")
    source = FileToken(path)
    assert await source.token() == "one"
    path.write_text("two\n")
    assert await source.token() == "two"
    path.unlink()
    assert await source.token() == "two", "while the file is being replaced, the token in hand may still be good"


async def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = FileToken(path)
    assert await source.token() == "one"
    assert not await source.renew("one")
    path.write_text("two")
    assert await source.token() == "one", "it is not read for every request"
    assert await source.renew("one")
    assert await source.token() == "two"


async def test_a_missing_or_empty_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        await FileToken(tmp_path / "absent").token()
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="empty is empty"):
        await FileToken(tmp_path / "empty").token()


async def test_a_client_survives_the_rotation_of_its_token(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("expired")
    connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), token=None, token_file=path)
    async with Client(connection) as client:
        with pytest.raises(Unauthorized):
            await client.get(NAMESPACES, "default")
        path.write_text(sandbox.token)
        assert (await client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"


async def test_a_command_gives_a_token_that_is_kept(plugin: Plugin, tmp_path: Path) -> None:
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    source = token_of(plugin({"token": "canary", "expirationTimestamp": expires}))
    assert await asyncio.gather(*(source.token() for _ in range(5))) == ["canary"] * 5
    assert runs(tmp_path) == 1, "concurrent callers share one run"


async def test_an_expired_token_is_not_kept(plugin: Plugin, tmp_path: Path) -> None:
    source = token_of(plugin({"token": "canary", "expirationTimestamp": "2020-01-01T00:00:00Z"}))
    await source.token()
    await source.token()
    assert runs(tmp_path) == 2


async def test_callers_whose_token_was_rejected_share_one_run(plugin: Plugin, tmp_path: Path) -> None:
    script = f"import json, os; print(json.dumps({{'apiVersion': {V1!r}, 'status': {{'token': str(os.getpid())}}}}))"
    source = token_of(plugin(script=script))
    old = await source.token()
    assert await asyncio.gather(*(source.renew(old) for _ in range(5))) == [True] * 5
    assert await source.token() != old
    assert runs(tmp_path) == 2


async def test_a_command_is_told_about_the_cluster_and_gets_its_environment(plugin: Plugin) -> None:
    script = (
        "import os, json; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']); "
        f"print(json.dumps({{'apiVersion': {V1!r}, 'status': {{'token': "
        "os.environ['EXTRA'] + info['spec']['cluster']['server'] + str(info['spec']['interactive'])}}))"
    )
    source = token_of(plugin(script=script, env=(("EXTRA", "extra "),), cluster_info=True))
    assert await source.token() == "extra https://main:6443False"


async def test_a_command_has_no_terminal_to_wait_at(plugin: Plugin) -> None:
    script = (
        f"import sys, json; print(json.dumps({{'apiVersion': {V1!r}, 'status': {{'token': 'x' + sys.stdin.read()}}}}))"
    )
    assert await token_of(plugin(script=script)).token() == "x"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"script": "import sys; print('canary'); print('canary', file=sys.stderr); sys.exit(3)"}, "code 3"),
        ({"script": "print('canary')"}, "no ExecCredential"),
        ({"script": "print('c' * 2_000_000)"}, "1 MiB"),
        ({"status": {"token": "canary"}, "version": "v0"}, "another apiVersion"),
        ({"status": {}}, "no token"),
        ({"status": {"clientCertificateData": "canary", "clientKeyData": "canary"}}, "client certificate"),
        ({"status": {"token": 5}}, "no ExecCredential"),
    ],
)
async def test_a_failing_command_is_named_and_its_output_is_not(
    plugin: Plugin, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        await token_of(plugin(**arguments)).token()
    assert sys.executable in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


async def test_a_missing_command_brings_its_hint() -> None:
    absent = ExecPlugin(command="/absent/login", args=(), env=(), api_version=V1, cluster_info=False, hint="install it")
    with pytest.raises(ConfigError, match=r"'/absent/login' cannot be started \(FileNotFoundError\); install it"):
        await token_of(absent).token()


async def test_a_command_that_hangs_is_ended_with_its_children(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "EXEC_TIMEOUT", 1.0)
    script = (
        "import subprocess as s, sys, time; child = s.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    with pytest.raises(ConfigError, match="did not finish in 1 s"):
        await token_of(plugin(script=script)).token()
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 180
    while _runs(child):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


async def test_a_client_runs_the_command_anew_when_its_token_is_rejected(
    sandbox: Sandbox, plugin: Plugin, tmp_path: Path
) -> None:
    answer = tmp_path / "answer"
    answer.write_text(json.dumps({"apiVersion": V1, "status": {"token": "expired"}}))
    exec_plugin = plugin(script=f"print(open({str(answer)!r}).read())")
    connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), token=None, exec_plugin=exec_plugin)
    assert isinstance(credential_of(connection), ExecToken)
    async with Client(connection) as client:
        with pytest.raises(Unauthorized):
            await client.get(NAMESPACES, "default")
        answer.write_text(json.dumps({"apiVersion": V1, "status": {"token": sandbox.token}}))
        assert (await client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"


async def test_a_client_certificate_says_who_we_are(sandbox: Sandbox) -> None:
    kubeconfig = sandbox.kubeconfig_for_certificate("alice", ["system:masters"])
    async with Client(load_kubeconfig(kubeconfig)) as client:
        who = await client.create(WHOAMI, {"kind": "SelfSubjectReview", "apiVersion": WHOAMI.api_version})
    assert who["status"]["userInfo"]["username"] == "alice"


def test_certificates_that_cannot_be_read_are_refused_without_showing_them(sandbox: Sandbox) -> None:
    good = load_kubeconfig(sandbox.kubeconfig)
    with pytest.raises(ConfigError, match="certificate authority"):
        Client(structs.replace(good, ca_pem=b"canary"))
    unreadable = structs.replace(good, client_cert_pem=good.ca_pem, client_key_pem=b"canary")
    with pytest.raises(ConfigError, match="client key") as caught:
        Client(unreadable)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


async def test_a_server_that_another_authority_vouches_for_gets_no_request(sandbox: Sandbox) -> None:
    other = Authority.create()
    connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), ca_pem=other.certificate)
    async with Client(connection) as client:
        with pytest.raises(Unreachable, match="certificate verify failed") as caught:
            await client.create(NAMESPACES, {"metadata": {"name": "never"}})
    assert not caught.value.ambiguous
    assert sandbox.token not in "".join(traceback.format_exception(caught.value))
