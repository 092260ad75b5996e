"""From files to objects: every way of building, with what goes in beside the files."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pyrage
import pytest
from tests.configmapsync.world import until
from tests.configsync.world import ConfigSync, GitWorld, config_map, manifest
from tests.tenancy.accounts import ALL, Account

from syncline.render import tools

CHART = {
    "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "chart/values.yaml": "size: 1\ncolour: red\n",
    "chart/templates/app.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-web\n"
        "data:\n  size: {{ .Values.size | quote }}\n  colour: {{ .Values.colour }}\n"
    ),
}


def _told(sync: ConfigSync, *words: str) -> str:
    """Wait until Ready says all these words; return what it says."""
    return until(lambda: sync.message, lambda message: all(word in message for word in words))


@pytest.fixture
def account(world: GitWorld) -> Account:
    """An account that may do everything with ConfigMaps and Secrets at home."""
    account = Account(world)
    for resource in ("configmaps", "secrets"):
        account.may(world.home, resource, *ALL)
    return account


def test_kustomize_builds_an_overlay_of_a_base_beside_it_and_follows_both(world: GitWorld) -> None:
    world.push(
        {
            "base/kustomization.yaml": "resources: [app.yaml]\n",
            "base/app.yaml": config_map(colour="red"),
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\nlabels: [{pairs: {env: prod}}]\n",
        }
    )
    sync = world.csync(git={"path": "prod"})
    sync.becomes("Synced", synced=1)
    app = world.find("ConfigMap", world.home, "prod-app")
    assert (app.at("data"), app.labels) == ({"colour": "red"}, {"env": "prod"})
    commit = world.push({"base/app.yaml": config_map(colour="blue")})
    sync.now()
    sync.at(commit)
    app.holds_data(colour="blue")


def test_a_chart_is_rendered_anew_when_its_values_change(world: GitWorld, account: Account) -> None:
    world.push(CHART)
    values = world.put(world.home, "values", **{"values.yaml": "size: 2\ncolour: green\n"})
    sync = world.csync(
        git={"path": "chart"},
        build={"helm": {"values": {"size": 3}, "valuesFrom": [{"name": "values"}]}},
        serviceAccountName=account.name,
    )
    sync.becomes("Synced", synced=1)
    app = world.find("ConfigMap", world.home, "sync-web")
    app.holds_data(size="3", colour="green")
    values.set(**{"values.yaml": "colour: blue\n"})
    app.holds_data(size="3", colour="blue")


def test_values_that_cannot_be_read_are_named_and_what_was_applied_stays(world: GitWorld, account: Account) -> None:
    world.push(CHART)
    values = world.put(world.home, "values", **{"values.yaml": "size: 2\n"})
    helm = {"helm": {"valuesFrom": [{"name": "values"}]}}
    sync = world.csync(git={"path": "chart"}, build=helm, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    values.set(**{"values.yaml": "size: [2\n"})
    message = sync.becomes("InvalidValues")["message"]
    assert message.startswith(
        f"the key values.yaml of ConfigMap values in {world.home}, which build.helm.valuesFrom names,"
    )
    assert "cannot be read: line " in message
    world.find("ConfigMap", world.home, "sync-web").holds_data(size="2", colour="red")


def test_values_that_are_too_large_together_are_refused_before_they_are_parsed(
    world: GitWorld, account: Account
) -> None:
    """Each of twenty values could have a mebibyte, and parsed many times as much, for each of a tenant's syncs."""
    world.push({"app.yaml": config_map(colour="{{ colour }}")})
    text = f"colour: red\npadding: {'x' * 900_000}\n"
    for number in range(3):
        world.put(world.home, f"values-{number}", **{"values.yaml": text})
    refs = [{"name": f"values-{number}"} for number in range(3)]
    sync = world.csync(template={"enabled": True, "valuesFrom": refs}, serviceAccountName=account.name)
    message = sync.becomes("InvalidValues")["message"]
    assert message == "name fewer or smaller values: those of all valuesFrom have more than 2 MiB together"
    assert "Stalled" in sync.conditions
    sync.change(template={"enabled": True, "valuesFrom": refs[:2]})
    sync.becomes("Synced", synced=1)


def test_jsonnet_is_evaluated_with_arguments(world: GitWorld) -> None:
    world.push(
        {
            "lib/app.libsonnet": "{ app(name, colour): { apiVersion: 'v1', kind: 'ConfigMap',"
            " metadata: { name: name }, data: { colour: colour } } }",
            "app/main.jsonnet": "local lib = import 'app.libsonnet';"
            " function(colour) [lib.app('one', colour), lib.app('two', std.extVar('other'))]",
        }
    )
    sync = world.csync(
        git={"path": "app"},
        build={"jsonnet": {"tlas": {"colour": "red"}, "extVars": {"other": "blue"}, "libraryPaths": ["lib"]}},
    )
    sync.becomes("Synced", synced=2)
    world.find("ConfigMap", world.home, "one").holds_data(colour="red")
    world.find("ConfigMap", world.home, "two").holds_data(colour="blue")


def test_templates_take_values_from_the_spec_and_from_objects_and_by_target(world: GitWorld, account: Account) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: '{{ a }}', b: '{{ b }}', c: '{{ c }}'}\n"
    shell = {"run": "echo ${HOME} $(id) ${missing:-none}", "number": "012"}
    world.push({"one.yaml": text % "one", "two.yaml": text % "two", "shell.yaml": config_map("shell", **shell)})
    values = world.put(world.home, "values", **{"values.yaml": "a: from-object\nb: from-object\n"})
    sync = world.csync(
        template={"enabled": True, "values": {"b": "from-spec", "c": "from-spec"}, "valuesFrom": [{"name": "values"}]},
        targets=[
            {"type": "ConfigMap", "name": "one"},
            {"type": "configmap", "name": "two", "values": {"c": "its-own"}},
            {"type": "ConfigMap", "name": "shell"},
        ],
        serviceAccountName=account.name,
    )
    sync.becomes("Synced", synced=3)
    assert world.find("ConfigMap", world.home, "shell").at("data") == shell
    world.find("ConfigMap", world.home, "one").holds_data(a="from-object", b="from-spec", c="from-spec")
    world.find("ConfigMap", world.home, "two").holds_data(a="from-object", b="from-spec", c="its-own")
    values.set(**{"values.yaml": "a: changed\n"})
    world.find("ConfigMap", world.home, "one").holds_data(a="changed", b="from-spec", c="from-spec")


@pytest.fixture(scope="module")
def age() -> pyrage.x25519.Identity:
    return pyrage.x25519.Identity.generate()


def _sealed(age: pyrage.x25519.Identity, folder: Path, text: str) -> bytes:
    plain = folder / "secret.yaml"
    plain.write_text(text, encoding="utf-8")
    command = [str(tools.find("sops")), "--disable-version-check", "encrypt", "--age", str(age.to_public())]
    command += ["--encrypted-regex", "^(data|stringData)$", str(plain)]
    return subprocess.run(command, check=True, capture_output=True, env={"HOME": str(folder)}).stdout


def test_an_encrypted_secret_is_opened_and_its_value_is_nowhere_else(
    world: GitWorld, age: pyrage.x25519.Identity, tmp_path: Path
) -> None:
    value = "CANARY-{{ braces }}-of-the-sealed-secret"
    plain = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: db}}\nstringData: {{password: '{value}'}}\n"
    commit = world.push({"secret.yaml": _sealed(age, tmp_path, plain)})
    sync = world.csync(decryption={"secretRef": {"name": "keys"}}, template={"enabled": True})
    assert "keys" in sync.becomes("ReferenceNotFound")["message"]
    world.secret("keys", **{"main.agekey": str(age)})
    sync.at(commit)
    secret = world.find("Secret", world.home, "db")
    assert secret.values == {"password": value}
    seen = [value, base64.b64encode(value.encode()).decode().rstrip("=")]
    texts = [str(sync.read()), str(sync.events()), str(secret.read()["metadata"])]
    assert not [text for text in texts for word in seen if word in text]
    secret.keep(password="changed")
    secret.holds(password=value)


def test_a_file_that_cannot_be_opened_is_named_and_applies_nothing(
    world: GitWorld, age: pyrage.x25519.Identity, tmp_path: Path
) -> None:
    plain = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: x}\n"
    world.push({"deep/secret.yaml": _sealed(age, tmp_path, plain), "app.yaml": config_map()})
    sync = world.csync()
    assert "deep/secret.yaml" in sync.becomes("BuildFailed")["message"]
    world.secret("keys", **{"other.agekey": str(pyrage.x25519.Identity.generate())})
    sync.change(decryption={"secretRef": {"name": "keys"}})
    assert "deep/secret.yaml" in sync.becomes("BuildFailed")["message"]
    assert world.find("ConfigMap", world.home).look() is None


def test_files_that_are_no_manifests_become_data(world: GitWorld) -> None:
    commit = world.push({"conf/app.conf": "listen 80\n", "conf/logo.bin": b"\x00\xff", "token.txt": "abc"})
    conf = world.csync("conf", git={"path": "conf"}, targets=[{"type": "ConfigMap", "name": "conf"}])
    token = {"type": "Secret", "name": "token", "key": "value"}
    other = world.csync("token", git={"path": "token.txt"}, targets=[token])
    conf.at(commit)
    other.at(commit)
    copy = world.find("ConfigMap", world.home, "conf")
    assert (copy.at("data"), copy.at("binaryData")) == ({"app.conf": "listen 80\n"}, {"logo.bin": "AP8="})
    assert world.find("Secret", world.home, "token").values == {"value": "abc"}


def test_only_what_is_listed_is_applied_overridden_and_the_rest_is_told(world: GitWorld) -> None:
    elsewhere = world.namespace("elsewhere")
    commit = world.push({"app.yaml": config_map(colour="red"), "other.yaml": config_map("other")})
    sync = world.csync(
        targets=[{"type": "ConfigMap", "name": "app", "namespace": elsewhere, "overrides": {"data": {"size": "2"}}}]
    )
    sync.at(commit)
    world.find("ConfigMap", elsewhere).holds_data(colour="red", size="2")
    assert world.find("ConfigMap", world.home, "other").look() is None
    reported = sync.conditions["Reported"]
    assert (reported["status"], reported["reason"]) == ("True", "NotApplied")
    assert "other.yaml" in reported["message"]
    sync.change(targets=None)
    sync.becomes("Synced", synced=2)
    assert "Reported" not in sync.conditions
    world.find("ConfigMap", elsewhere).gone()


def test_hooks_of_a_chart_are_told_and_not_applied(world: GitWorld) -> None:
    hook = config_map("hook")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-install"}
    commit = world.push({**CHART, "chart/templates/hook.yaml": hook})
    sync = world.csync(git={"path": "chart"})
    sync.at(commit)
    assert world.find("ConfigMap", world.home, "hook").look() is None
    assert "hook" in sync.conditions["Reported"]["message"]


def test_several_sources_are_built_together_each_from_its_folder(world: GitWorld, account: Account) -> None:
    other = world.server.repository(f"{world.name}-other")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\ndata: {a: '%s'}\n"
    other.commit({"x/app.yaml": text % 1})
    world.push({"app.yaml": config_map("first")})
    world.put(world.home, "files", **{"third.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: third}\n"})
    git = world.git()["git"]
    sync = world.csync(
        sources=[
            {"name": "one", "git": git},
            {"name": "two", "git": {**git, "repo": world.server.url(f"{world.name}-other"), "path": "x"}},
            {"name": "three", "configMapRef": {"name": "files"}},
        ],
        serviceAccountName=account.name,
    )
    sync.becomes("Synced", synced=3)
    assert [one["name"] for one in sync.status["revisions"]] == ["one", "two", "three"]
    world.stays_quiet(sync)
    changed = other.commit(
        {"x/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\ndata: {a: '2'}\n"}
    )
    sync.now()
    world.find("ConfigMap", world.home, "second").holds_data(a="2")
    until(lambda: sync.status["revisions"][1]["revision"], lambda revision: revision == changed)


def test_an_object_of_the_cluster_can_be_the_source_and_its_edits_are_followed(
    world: GitWorld, account: Account
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {colour: %s}\n"
    held = world.put(world.home, "files", **{"app.yaml": text % "red"})
    sync = world.csync(source={"configMapRef": {"name": "files"}}, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    app = world.find("ConfigMap", world.home)
    held.set(**{"app.yaml": text % "blue"})
    app.holds_data(colour="blue")
    held.delete()
    sync.becomes("ReferenceNotFound")
    assert app.look() is not None
    world.secret("files", **{"app.yaml": text % "green"})
    sync.change(source={"secretRef": {"name": "files"}})
    app.holds_data(colour="green")


BROKEN: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "yaml": (
        {"app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app\n"},
        "BuildFailed",
        ("app.yaml", "line"),
    ),
    "manifest": ({"app.yaml": config_map() | {"data": {"a": 1}}}, "InvalidManifest", ("app.yaml",)),
    "template": ({"app.yaml": "# one\n# {{ nobody }}\n"}, "BuildFailed", ("app.yaml", "nobody")),
    "twice": ({"twin.yaml": config_map()}, "InvalidManifest", ("app.yaml", "twin.yaml")),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_built_is_named_and_leaves_everything_as_it_was(world: GitWorld, case: str) -> None:
    files, reason, words = BROKEN[case]
    good = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync(template={"enabled": True})
    sync.at(good)
    world.push(files)
    sync.now()
    status = sync.holds_at(reason, good)
    _told(sync, *words)
    assert status["targets"]["summary"] == "1/1"
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    app.holds_data(colour="red")
    fixed = world.push({"app.yaml": config_map(colour="blue"), "twin.yaml": None if "twin.yaml" in files else ""})
    sync.now()
    sync.at(fixed)


def test_an_object_that_the_server_refuses_fails_alone(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "bad.yaml": manifest("v1", "Service", "bad", spec={"ports": [{"port": -1}]})})
    sync = world.csync()
    ready = sync.becomes("Invalid", synced=1, failed=1)
    assert "Service" in ready["message"]
    assert world.find("ConfigMap", world.home).marked
