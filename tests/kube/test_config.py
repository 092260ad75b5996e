import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline.kube import ConfigError, Connection, config, discover, in_cluster, load_kubeconfig, parse_kubeconfig
from syncline.sandbox import Sandbox

CA = base64.b64encode(b"a certificate").decode()


def kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "main", **top: Any
) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": f"https://{name}:6443", "certificate-authority-data": CA, **(cluster or {})},
            }
        ],
        "users": [{"name": "u", "user": {"token": "canary"} if user is None else user}],
        **top,
    }
    return yaml.safe_dump(document)


def refused(text: str | bytes, *, trusted: bool = False, base_dir: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_kubeconfig(text, trusted=trusted, base_dir=base_dir)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_a_tenant_may_say_is_a_server_its_authority_and_one_credential() -> None:
    connection = parse_kubeconfig(kubeconfig(), trusted=False)
    assert connection == Connection(
        server="https://main:6443", name="main", namespace="team", ca_pem=b"a certificate", token="canary"
    )


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("user", "exec", {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": ["canary"]}),
        ("user", "auth-provider", {"name": "gcp", "config": {"cmd-path": "touch"}}),
        ("user", "tokenFile", "/etc/hostname"),
        ("user", "client-certificate", "/etc/hostname"),
        ("user", "client-key", "/etc/hostname"),
        ("user", "username", "canary"),
        ("user", "password", "canary"),
        ("user", "as", "system:admin"),
        ("user", "as-uid", "1"),
        ("user", "as-groups", ["system:masters"]),
        ("user", "as-user-extra", {"a": ["b"]}),
        ("user", "something-new", "x"),
        ("cluster", "certificate-authority", "/etc/hostname"),
        ("cluster", "insecure-skip-tls-verify", True),
        ("cluster", "insecure-skip-tls-verify", "true"),
        ("cluster", "proxy-url", "http://canary:3128"),
        ("cluster", "something-new", "x"),
    ],
)
def test_what_a_tenant_may_not_say_is_refused_by_name(
    section: str, field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file(*_: object, **__: object) -> None:
        pytest.fail("a file was opened")

    monkeypatch.setattr(Path, "open", no_file)
    settings: dict[str, Any] = {section: {"token": "canary", field: value} if section == "user" else {field: value}}
    message = refused(kubeconfig(**settings))
    assert field in message


def test_an_entry_that_no_context_uses_is_refused_all_the_same() -> None:
    users = [{"name": "u", "user": {"token": "x"}}, {"name": "spare", "user": {"tokenFile": "/etc/hostname"}}]
    assert "tokenFile" in refused(kubeconfig(users=users))


def test_a_file_cannot_smuggle_in_where_its_paths_begin() -> None:
    users = [{"name": "u", "base_dir": "/", "user": {"token": "x"}}]
    with pytest.raises(ConfigError):
        parse_kubeconfig(kubeconfig(users=users), trusted=False)


@pytest.mark.parametrize(
    "server",
    [
        "http://main:6443",
        "HTTP://main",
        "unix:///run/x",
        "main:6443",
        "",
        "https://user:canary@main",
        "https://main?x=y",
    ],
)
def test_a_tenants_server_is_an_https_url(server: str) -> None:
    assert "https URL" in refused(kubeconfig(cluster={"server": server}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x" * (1024 * 1024 + 1), "1 MiB"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("users: []\nusers: []\n", "given twice"),
        ("[" * 20_000, "nested too deeply"),
        ("? [a]\n: b\n", "keys must be strings"),
        ("a: !!python/object/apply:os.system [touch]\n", "YAML tags are not accepted"),
        ("a: [", "not valid YAML at line"),
        (b"\xff\xfe\xfd", "not valid YAML"),
        ("a: b\x00", "not valid YAML"),
        ("just text", "not a kubeconfig"),
        ("users: {a: b}", "not a kubeconfig"),
        ("users: [{name: 1}]", "not a kubeconfig"),
        ("", "not a kubeconfig"),
        ("a: b", "no context is selected"),
        (kubeconfig(contexts=[]), "no context 'main'"),
        (kubeconfig(users=[]), "no user 'u'"),
        (kubeconfig(clusters=[]), "no cluster 'c'"),
        (kubeconfig(user={"token": 12345}), "token must be a string"),
        (kubeconfig(cluster={"certificate-authority-data": "canary!"}), "not base64"),
        (kubeconfig(user={"client-certificate-data": CA}), "are needed together"),
    ],
)
def test_rubbish_gets_one_clear_line(text: str | bytes, said: str) -> None:
    assert said in refused(text)


def test_a_file_that_takes_seconds_to_read_is_refused() -> None:
    for text, said in (
        ("a: [" + "a," * 130_000 + "]", "too many keys and values"),
        ("a: !!int 1" + ":59" * 80_000, "YAML tags are not accepted"),
        ("a: 1" + ":59" * 80_000, "no context is selected"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse_kubeconfig(text.encode(), trusted=False)


def test_a_connection_does_not_print_its_credentials() -> None:
    connection = parse_kubeconfig(kubeconfig(), trusted=False)
    assert "canary" not in f"{connection} {connection!r}"


def test_our_own_kubeconfig_may_name_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "cert", "key"):
        (tmp_path / "pki" / name).write_bytes(name.encode())
    document = yaml.safe_load(
        kubeconfig(
            user={"client-certificate": "pki/cert", "client-key": "pki/key", "tokenFile": "token", "token": "old"}
        )
    )
    document["clusters"][0]["cluster"] = {
        "server": "https://main/clusters/root:team/",
        "certificate-authority": "pki/ca",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    connection = load_kubeconfig(tmp_path / "config")
    assert connection == Connection(
        server="https://main/clusters/root:team",
        name="main",
        namespace="team",
        ca_pem=b"ca",
        client_cert_pem=b"cert",
        client_key_pem=b"key",
        token_file=tmp_path / "token",
        tls_server_name="kubernetes",
        verify_tls=False,
        proxy_url="http://proxy:3128",
    )


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"auth-provider": {"name": "gcp"}}, "auth-provider is not accepted"),
        ({"as": "admin"}, "as is not accepted"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}, "v1 or v1beta1"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "names no command"),
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Always"}},
            "terminal",
        ),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "args": "y"}}, "lists"),
        ({"exec": "x"}, "mapping"),
        ({"client-certificate": "absent", "client-key": "absent"}, "cannot read"),
    ],
)
def test_some_things_are_refused_in_our_own_kubeconfig_too(user: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refused(kubeconfig(user=user), trusted=True, base_dir=tmp_path)


def test_files_need_a_folder_to_start_from() -> None:
    assert "inline" in refused(kubeconfig(user={"tokenFile": "token"}), trusted=True)


def test_files_of_the_environment_are_merged_and_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text(kubeconfig(name="one", users=[]))
    (tmp_path / "two").write_text(kubeconfig(name="two", user={"token": "second"}))
    paths = [tmp_path / "absent", tmp_path / "one", tmp_path / "two"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    first, second = load_kubeconfig(), load_kubeconfig(context="two")
    assert (first.name, first.server, first.token) == ("one", "https://one:6443", "second")
    assert (second.name, second.server) == ("two", "https://one:6443")


def test_errors_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad").write_text("users: 1")
    with pytest.raises(ConfigError, match="bad: not a kubeconfig"):
        load_kubeconfig(tmp_path / "bad")
    with pytest.raises(ConfigError, match=r"^cannot read .*absent: No such file"):
        load_kubeconfig(tmp_path / "absent")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="names no file that exists"):
        load_kubeconfig()


def test_the_given_file_wins_then_the_environment_then_the_pod_then_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = tmp_path / "pod"
    pod.mkdir()
    for name, content in (("token", "t"), ("ca.crt", "ca"), ("namespace", "mine\n")):
        (pod / name).write_text(content)
    (tmp_path / ".kube").mkdir()
    for place in ("given", "environment", ".kube/config"):
        (tmp_path / place).write_text(kubeconfig(name=place.removeprefix(".kube/")))
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", pod)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "environment"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")

    assert discover(tmp_path / "given").name == "given"
    assert discover().name == "environment"
    monkeypatch.delenv("KUBECONFIG")
    assert discover() == Connection(
        server="https://[fd00::1]:6443",
        name="in-cluster",
        namespace="mine",
        ca_pem=b"ca",
        token_file=pod / "token",
    )
    (pod / "token").unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster()
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert discover().name == "config"
    with pytest.raises(ConfigError, match="not in a cluster"):
        in_cluster()


def test_a_kubeconfig_of_the_sandbox_is_acceptable_from_a_tenant(sandbox: Sandbox) -> None:
    assert load_kubeconfig(sandbox.kubeconfig, trusted=False).server == sandbox.server
