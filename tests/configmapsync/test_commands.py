"""`syncline plan`, `crds`, `manifests` and `run`, as a user types them; what is wrong is told in one line."""

import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.configmapsync.world import World

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.configmapsync import KIND
from syncline.cli import main
from syncline.sandbox import Sandbox
from syncline.testing.audit import AuditLog

Refused = Callable[..., str]
Command = Callable[..., str]


@pytest.fixture(scope="session")
def syncline() -> Command:
    """Run the command as a user would, and return what it prints."""

    def run(*arguments: str | Path, stdin: str = "", code: int = 0) -> str:
        command = [Path(sys.executable).with_name("syncline"), *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=180, check=False)
        assert result.returncode == code, (result.stdout, result.stderr)
        if code == 0:
            assert result.stderr == ""
            return result.stdout
        return result.stdout + result.stderr

    return run


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run the command within this process, and return the one line that it ends with."""

    def run(*arguments: str | Path, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        assert main(list(map(str, arguments))) == (2 if arguments[0] == "plan" else 1)
        told = capsys.readouterr()
        assert told.out == ""
        return one_line(told.err)

    return run


def one_line(told: str) -> str:
    assert told.count("\n") == 1, told
    assert told.startswith("syncline: ")
    return told


def sync_of(world: World, **spec: object) -> str:
    """Write a sync at home of a world, which acts as all syncs of the world do."""
    return manifest(world.home, **world.acting(spec))


def manifest(namespace: str, name: str = "sync", **spec: object) -> str:
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"sourceNamespace": namespace, "configMapName": "app", **spec},
    }
    return json.dumps(body)


def test_plan_prints_what_a_sync_would_do_and_why_and_does_nothing(
    world: World, syncline: Command, tmp_path: Path
) -> None:
    world.source()
    new, taken, missing = world.namespace("new"), world.namespace("taken"), f"{world.name}-missing"
    theirs = world.put(taken, theirs="1")
    file = tmp_path / "sync.yaml"
    file.write_text(sync_of(world, destinationNamespaces=[new, taken, missing]), encoding="utf-8")
    audit = AuditLog(world.sandbox)
    mark = audit.mark()
    lines = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", file, code=1).splitlines()
    assert lines[0] == f"ConfigMapSync {world.home}/sync"
    assert lines[1].split() == ["ACTION", "TARGET", "THEN", "WHY"]
    rows = {line.split()[1]: line.split(maxsplit=3) for line in lines[2:-1]}
    assert rows[f"{new}/app"] == ["create", f"{new}/app", "Synced", "the target has no such object"]
    assert rows[f"{taken}/app"][::2] == ["leave", "Conflict"]
    assert "is not ours; delete it, or set resourceManagementPolicy" in rows[f"{taken}/app"][3]
    assert rows[f"{missing}/app"][::2] == ["-", "Pending"]
    assert lines[-1] == "1 to create, 2 cannot be done"
    # The server's check of the manifest is a dry run, and a question about rights is a POST.
    writes = [entry for entry in audit.writes("admin", since=mark) if "dryRun=All" not in entry.uri]
    assert {entry.resource for entry in writes} <= {"subjectaccessreviews"}
    assert world.config_map(new).look() is None
    assert theirs.data == {"theirs": "1"}


def test_plan_tells_what_an_edit_of_a_living_sync_would_change(world: World, syncline: Command) -> None:
    source = world.source()
    stays, leaves, comes = world.namespaces("stays", "leaves", "comes")
    sync = world.sync(destinationNamespaces=[stays, leaves])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.set(colour="blue")
    edited = sync_of(world, destinationNamespaces=[stays, comes], suspend=False)
    told = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", "-", stdin=edited)
    actions = {tuple(line.split()[:2]) for line in told.splitlines()[2:-1]}
    assert actions == {("update", f"{stays}/app"), ("create", f"{comes}/app"), ("delete", f"{leaves}/app")}
    assert "no longer a destination of this sync" in told
    assert sync.conditions["Ready"]["reason"] == "Suspended"
    assert world.config_map(leaves).data == {"colour": "red"}


def test_plan_of_a_file_that_leaves_a_field_out_plans_its_removal_and_passes_over_other_kinds(
    world: World, syncline: Command
) -> None:
    world.source()
    stays, leaves = world.namespaces("stays", "leaves")
    world.sync(destinationNamespace=stays, destinationNamespaces=[leaves]).becomes("Synced")
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {stays}}}\n---\n"
    text += sync_of(world, destinationNamespace=stays)
    told = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", "-", stdin=text)
    actions = {tuple(line.split()[:2]) for line in told.splitlines()[2:-1]}
    assert actions == {("leave", f"{stays}/app"), ("delete", f"{leaves}/app")}


def test_plan_shows_what_the_operator_does_with_patterns(world: World, syncline: Command) -> None:
    world.source()
    target = world.namespace("a")
    wanted = sync_of(world, destinationNamespaces=[f"{world.name}*", "defau*", "kube-*", "syncline-*"])
    told = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", "-", stdin=wanted)
    planned = {line.split()[1] for line in told.splitlines()[2:-1] if "/app" in line}
    assert planned == {f"{target}/app", "default/app"}
    assert all(f"no namespace to write to matches {pattern}" in told for pattern in ("kube-*", "syncline-*"))


def test_plan_tells_what_a_missing_source_means(world: World, syncline: Command) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.delete()
    wanted = sync_of(world, destinationNamespace=target, suspend=False)
    told = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", "-", stdin=wanted, code=1)
    assert f"SourceNotFound: the source ConfigMap {world.home}/app does not exist" in told
    assert ["delete", f"{target}/app"] in [line.split()[:2] for line in told.splitlines()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not YAML"),
        ("", "contains no object with apiVersion syncline.dev/v1alpha1 and kind ConfigMapSync"),
        ("kind: ConfigMap", "contains no object with apiVersion syncline.dev/v1alpha1 and kind ConfigMapSync"),
        ("- a list", "contains no object with apiVersion"),
        (f"apiVersion: {API_VERSION}\nkind: {KIND}", "a sync has no name: write metadata.name"),
        (f"apiVersion: {API_VERSION}\nkind: {KIND}\nmetadata: {{name: x}}\nspec: &a [*a]", "refers to itself"),
    ],
    ids=["not YAML", "empty", "other kind", "a list", "no name", "endless"],
)
def test_plan_refuses_a_bad_file_in_one_line(refused: Refused, text: str, message: str) -> None:
    assert message in refused("plan", "-f", "-", stdin=text)


def test_plan_refuses_a_missing_file_and_an_unreadable_one_in_one_line(refused: Refused, tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert refused("plan", "-f", missing) == f"syncline: cannot read {missing}: No such file or directory\n"
    assert refused("plan", "-f", tmp_path) == f"syncline: cannot read {tmp_path}: Is a directory\n"
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "is not YAML" in refused("plan", "-f", binary)


def test_plan_passes_on_what_the_server_says_against_a_spec(world: World, syncline: Command) -> None:
    wrong = sync_of(world, destinationNamespace=world.home)
    told = syncline("plan", "--kubeconfig", world.sandbox.kubeconfig, "-f", "-", stdin=wrong, code=2)
    assert "the only destination is the source itself: name another namespace" in one_line(told)


def unreachable(sandbox: Sandbox, folder: Path) -> Path:
    """Write a kubeconfig for a server that is not there."""
    config = yaml.safe_load(sandbox.kubeconfig.read_text(encoding="utf-8"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{taken.getsockname()[1]}"
    file = folder / "unreachable"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def test_plan_says_in_one_line_that_the_server_cannot_be_reached(
    sandbox: Sandbox, syncline: Command, tmp_path: Path
) -> None:
    kubeconfig, sync = unreachable(sandbox, tmp_path), manifest("a", destinationNamespace="b")
    told = syncline("plan", "--kubeconfig", kubeconfig, "-f", "-", stdin=sync, code=2)
    assert "cannot connect to https://127.0.0.1" in one_line(told)


def test_plan_works_with_rights_in_one_namespace_and_says_what_its_user_may_not_see(
    world: World, syncline: Command
) -> None:
    world.source()
    token = world.sandbox.service_account_token(world.home, editor(world))
    kubeconfig = world.sandbox.kubeconfig_for(token, f"{world.name}-editor")
    sync = sync_of(world, destinationNamespace=world.home, destinationName="other")
    told = syncline("plan", "--kubeconfig", kubeconfig, "-f", "-", stdin=sync)
    assert "1 to create" in told
    assert f"note: you may not list ConfigMap outside of namespace {world.home}" in told


def editor(world: World) -> str:
    """Create an account that may do everything at home, and nothing elsewhere."""
    sandbox, name = world.sandbox, "editor"
    sandbox.request("POST", f"/api/v1/namespaces/{world.home}/serviceaccounts", {"metadata": {"name": name}})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": world.home}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{world.home}/rolebindings"
    sandbox.request("POST", path, binding)
    return name


def test_crds_and_manifests_print_what_a_cluster_needs(syncline: Command) -> None:
    crds = list(yaml.safe_load_all(syncline("crds")))
    syncs = ("configmapsyncs", "manifestsyncs", "configsyncs", "workspacesyncs", "ignitionsyncs")
    plurals = (*syncs, "synctargets", "tenantpolicies")
    assert [crd["metadata"]["name"] for crd in crds] == [f"{plural}.syncline.dev" for plural in plurals]
    everything = list(yaml.safe_load_all(syncline("manifests", "--image", "example.com/syncline:1")))
    assert everything == json.loads(json.dumps(deploy.everything("example.com/syncline:1")))
    kinds = [one["kind"] for one in everything]
    assert (kinds[0], kinds[-1]) == ("Namespace", "Deployment")


@pytest.mark.parametrize("command", [("run",), ("plan", "-f", "-"), ("install",), ("uninstall",)], ids=lambda c: c[0])
def test_a_command_without_a_usable_kubeconfig_says_so_in_one_line(
    refused: Refused, sandbox: Sandbox, tmp_path: Path, command: tuple[str, ...]
) -> None:
    sync = manifest("a", destinationNamespace="b")
    missing = tmp_path / "none"
    line = refused(*command, "--kubeconfig", missing, stdin=sync)
    assert line == f"syncline: cannot read {missing}: No such file or directory\n"
    assert "'other'" in refused(*command, "--kubeconfig", sandbox.kubeconfig, "--context", "other", stdin=sync)
    broken = tmp_path / "broken"
    broken.write_text("{", encoding="utf-8")
    assert str(broken) in refused(*command, "--kubeconfig", broken, stdin=sync)


def test_run_says_in_one_line_that_a_port_is_in_use(installed: Path, syncline: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = syncline("run", "--kubeconfig", installed, "--health-bind", f"127.0.0.1:{port}", code=1)
    assert f"--health-bind 127.0.0.1:{port}: port {port} is in use" in one_line(told)


def test_run_refuses_a_duration_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--min-interval", "soon"])
    assert "'soon' is not a duration; write e.g. 30s, 10m or 1h30m" in capsys.readouterr().err
