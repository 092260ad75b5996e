"""A real kcp: by command, in Python, as fixtures."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline.sandbox import Options, RequestError, Sandbox, SandboxError, versions
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.kcp import KcpExport, KcpWorkspace

Syncline = Callable[..., subprocess.CompletedProcess[str]]
Eventually = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"

# Starts a kcp, kills and starts it again, tells what it found, and stays.
STARTER = """
import json, sys
from syncline.sandbox import Options, Sandbox
from syncline.testing.kcp import KcpWorkspace
sandbox = Sandbox.create(Options(kcp=True))
workspace = KcpWorkspace.create(sandbox, "team")
path = "/api/v1/namespaces/default/configmaps"
workspace.request("POST", path, {"metadata": {"name": "kept"}})
sandbox.kill("kcp")
sandbox.start("kcp")
kept = workspace.wait_for(f"{path}/kept")["metadata"]["name"]
print(json.dumps({"kept": kept, "pids": sandbox.pids}), flush=True)
sys.stdin.read()
"""


def test_a_kcp_stays_from_up_to_down(
    own_folders: Path, syncline: Syncline, lives: Lives, eventually: Eventually
) -> None:
    up = syncline("up", "--name", "story", "--kcp")
    assert up.returncode == 0, up.stderr
    kubeconfig = Path(up.stdout.splitlines()[-1])
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    sandbox = Sandbox.attach("story")
    pids = sandbox.pids
    assert set(pids) == {"etcd", "kcp", "supervisor"}

    [cluster] = config["clusters"]
    assert cluster["cluster"]["server"] == sandbox.server
    assert sandbox.server.startswith("https://127.0.0.1:")
    assert sandbox.server.endswith("/clusters/root")
    assert set(cluster["cluster"]) == {"server", "certificate-authority-data"}
    assert set(config["users"][0]["user"]) == {"token"}
    assert config["current-context"] == config["contexts"][0]["name"]
    assert sandbox.request("GET", LOGICAL_CLUSTER)["status"]["phase"] == "Ready"
    version = sandbox.request("GET", "/version")["gitVersion"]
    assert version == versions.kubernetes_version(versions.KCP)
    port = int(sandbox.server.split(":")[2].partition("/")[0])
    assert {address for pid in pids.values() for address in _listening(pid)} == {("127.0.0.1", port)}

    status = syncline("status").stdout.splitlines()
    assert status[1].split() == ["story", "ready", sandbox.server, str(kubeconfig)]
    ran = syncline("exec", "--name", "story", "--", "sh", "-c", 'echo "$KUBECONFIG"; exit 7')
    assert (ran.stdout.strip(), ran.returncode) == (str(kubeconfig), 7)
    other = syncline("up", "--name", "story")
    assert "is up with other options" in other.stderr

    assert syncline("down", "--name", "story").stdout == "sandbox story is down\n"
    eventually(lambda: not any(map(lives, pids.values())))
    assert not list((own_folders / "XDG_STATE_HOME" / "syncline" / "sandbox").iterdir())


def test_kcp_keeps_its_data_over_a_restart_and_leaves_nothing_when_its_starter_is_killed(
    own_folders: Path, lives: Lives, eventually: Eventually
) -> None:
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            told = json.loads(starter.stdout.readline())
            assert told["kept"] == "kept"
            assert all(map(lives, told["pids"].values()))
        finally:
            starter.kill()
    eventually(lambda: not any(map(lives, told["pids"].values())))
    assert not list((own_folders / "TMPDIR").iterdir())


@pytest.mark.usefixtures("own_folders")
def test_flags_that_make_no_sense_with_kcp_are_refused(syncline: Syncline) -> None:
    for flag in ("--apiserver-arg", "--controller-manager-arg"):
        refused = syncline("up", "--kcp", flag, "v=2")
        assert refused.returncode == 1
        assert refused.stderr == (
            "syncline sandbox: kcp has neither kube-apiserver nor kube-controller-manager: leave out their flags, or"
            " use --kcp-arg\n"
        )
    refused = syncline("up", "--kcp-arg", "v=2")
    assert (refused.returncode, refused.stderr) == (
        1,
        "syncline sandbox: --kcp-arg is for a sandbox with kcp: add --kcp\n",
    )
    with pytest.raises(SandboxError, match="add --kcp"):
        Sandbox.create(Options(kcp_args=("--v=2",)))
    assert syncline("status").stdout == "no sandbox is up\n"


@pytest.mark.usefixtures("own_folders")
def test_a_kcp_that_cannot_start_shows_the_end_of_its_log(syncline: Syncline) -> None:
    up = syncline("up", "--kcp", "--kcp-arg", "no-such-flag")
    assert up.returncode == 1
    assert "kcp exited with 1; its log ends:\n" in up.stderr
    assert "unknown flag: --no-such-flag" in up.stderr
    assert syncline("status").stdout == "no sandbox is up\n"


def test_workspaces_are_separate(workspace_factory: WorkspaceFactory) -> None:
    one, other = workspace_factory(), workspace_factory()
    below = workspace_factory("below", parent=one)
    assert below.path == f"{one.path}:below"
    one.request("POST", CONFIGMAPS, {"metadata": {"name": "mine"}})
    for elsewhere in (other, below):
        with pytest.raises(RequestError) as missing:
            elsewhere.request("GET", f"{CONFIGMAPS}/mine")
        assert missing.value.status == 404
    assert len({each.request("GET", LOGICAL_CLUSTER)["metadata"]["uid"] for each in (one, other, below)}) == 3


def test_a_workspace_comes_with_a_kubeconfig_and_accounts(workspace: KcpWorkspace, eventually: Eventually) -> None:
    config = yaml.safe_load(workspace.kubeconfig.read_text(encoding="utf-8"))
    assert config["clusters"][0]["cluster"]["server"] == workspace.server
    assert workspace.server.endswith(f"/clusters/root:{workspace.name}")
    assert "kubeconfig" in workspace.kubeconfig_secret("kcp")["data"]

    workspace.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    token = workspace.service_account_token("default", "reader")

    def is_known() -> bool:
        with pytest.raises(RequestError) as refused:
            workspace.request("GET", CONFIGMAPS, token=token)
        # kcp knows a new account from a watch, and its tokens from then on.
        return refused.value.status == 403

    eventually(is_known)


def test_a_deleted_workspace_goes(workspace: KcpWorkspace, eventually: Eventually) -> None:
    workspace.delete()
    eventually(workspace.is_gone)
    with pytest.raises(RequestError) as missing:
        workspace.request("GET", CONFIGMAPS)
    assert missing.value.status == 404
    workspace.delete()


def test_deployments_and_services_are_served_where_they_are_asked_for(
    workspace: KcpWorkspace, workspace_factory: WorkspaceFactory
) -> None:
    with pytest.raises(RequestError):
        workspace.request("GET", DEPLOYMENTS)
    served = workspace_factory(workloads=True)
    made = served.request("POST", DEPLOYMENTS, _deployment())
    assert made["spec"] == _deployment()["spec"]
    service = served.request("POST", SERVICES, _service())
    assert service["spec"] == _service()["spec"]

    status = {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}
    changed = served.request("PATCH", f"{DEPLOYMENTS}/app/status?fieldManager=tests", _with_status(made, status))
    assert changed["status"] == status
    assert changed["metadata"]["generation"] == 1
    ignored = served.request("PATCH", f"{DEPLOYMENTS}/app?fieldManager=tests", _with_status(made, {"replicas": 9}))
    assert ignored["status"] == status
    addresses = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    changed = served.request("PATCH", f"{SERVICES}/app/status?fieldManager=tests", _with_status(service, addresses))
    assert changed["status"] == addresses

    scale = served.request("GET", f"{DEPLOYMENTS}/app/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 2})
    served.request("PUT", f"{DEPLOYMENTS}/app/scale", scale | {"spec": {"replicas": 5}})
    assert served.request("GET", f"{DEPLOYMENTS}/app")["spec"]["replicas"] == 5


def test_lists_of_a_deployment_are_merged_by_their_keys(workspace_factory: WorkspaceFactory) -> None:
    workspace = workspace_factory(workloads=True)
    path = f"{DEPLOYMENTS}/app?fieldManager="
    workspace.request("PATCH", f"{path}one", _deployment())
    container = {"name": "app", "env": [{"name": "ALSO", "value": "2"}], "ports": [{"containerPort": 9090}]}
    sidecar = {"name": "sidecar", "image": "sidecar:1"}
    selector = _deployment()["spec"]["selector"]
    spec = {"selector": selector, "template": {"spec": {"containers": [container, sidecar]}}}
    merged = workspace.request("PATCH", f"{path}two", {**_deployment(), "spec": spec})
    app, other = merged["spec"]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in app["env"]] == ["MODE", "TOKEN", "ALSO"]
    assert [port["containerPort"] for port in app["ports"]] == [8080, 9090]
    assert other == sidecar


def test_a_deployment_that_is_none_is_refused(workspace_factory: WorkspaceFactory) -> None:
    workspace = workspace_factory(workloads=True)
    with pytest.raises(RequestError, match=r"spec\.replicas") as refused:
        workspace.request("POST", DEPLOYMENTS, {**_deployment(), "spec": {"replicas": "many"}})
    assert refused.value.status == 422


def test_what_a_cluster_answers_is_kept_whole_by_a_workspace(
    sandbox: Sandbox, workspace_factory: WorkspaceFactory
) -> None:
    workspace = workspace_factory(workloads=True)
    sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kcp-facts"}})
    for path, body in ((DEPLOYMENTS, _deployment()), (SERVICES, _service())):
        answer = sandbox.request("POST", path.replace("default", "kcp-facts"), body)
        copy = {**body, "spec": answer["spec"]}
        assert workspace.request("POST", path, copy)["spec"] == answer["spec"]


def test_one_client_follows_all_workspaces_that_are_bound_to_an_export(
    api_export: KcpExport, workspace_factory: WorkspaceFactory, eventually: Eventually
) -> None:
    one, other = workspace_factory(), workspace_factory()
    for workspace in (one, other):
        api_export.bind(workspace)
        workspace.request("POST", DEPLOYMENTS, _deployment())
        workspace.request("POST", CONFIGMAPS, {"metadata": {"name": "mine"}})
    both = {one.cluster, other.cluster}
    eventually(lambda: _clusters(api_export, "/apis/apps/v1/deployments", "app") == both)
    eventually(lambda: _clusters(api_export, "/api/v1/configmaps", "mine") == both)
    found = api_export.access(one.cluster).request("GET", f"{CONFIGMAPS}/mine")
    assert found["metadata"]["annotations"]["kcp.io/cluster"] == one.cluster

    api_export.reject(other, "configmaps")
    eventually(lambda: _clusters(api_export, "/api/v1/configmaps", "mine") == {one.cluster})
    assert other.request("GET", f"{CONFIGMAPS}/mine")["metadata"]["name"] == "mine"
    api_export.unbind(other)
    eventually(lambda: _clusters(api_export, "/apis/apps/v1/deployments", "app") == {one.cluster})


def test_all_workers_of_a_run_share_one_kcp(kcp: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        f"def test_it(kcp, worker_id):\n    assert kcp.pids == {kcp.pids}\n    print(worker_id)\n", encoding="utf-8"
    )
    # Two workers more of the run that this test is in.
    run = kcp.folder.name.removeprefix("kcp-")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "each", "--testrunuid", run, "-rP", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout
    assert {"gw0", "gw1"} <= set(done.stdout.split())
    assert kcp.request("GET", LOGICAL_CLUSTER)["kind"] == "LogicalCluster"


def _clusters(export: KcpExport, path: str, name: str) -> set[str]:
    found = export.everywhere.request("GET", path)["items"]
    return {each["metadata"]["annotations"]["kcp.io/cluster"] for each in found if each["metadata"]["name"] == name}


def _with_status(made: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    kept = {key: made[key] for key in ("apiVersion", "kind")}
    return {**kept, "metadata": {"name": made["metadata"]["name"]}, "status": status}


def _deployment() -> dict[str, Any]:
    labels = {"app": "app"}
    container = {
        "name": "app",
        "image": "app:1",
        "args": ["--serve"],
        "env": [
            {"name": "MODE", "value": "plain"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "app", "key": "token", "optional": True}}},
        ],
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": "/etc/app", "readOnly": True}],
    }
    toleration = {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    template = {
        "containers": [container],
        "nodeSelector": {"disk": "fast"},
        "serviceAccountName": "app",
        "tolerations": [toleration],
        "volumes": [{"name": "files", "configMap": {"name": "app", "items": [{"key": "a", "path": "a.txt"}]}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "app"},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "app"},
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            ],
        },
    }


def _listening(pid: int) -> set[tuple[str, int]]:
    """Find the addresses where a process accepts TCP connections."""
    folder = Path(f"/proc/{pid}/fd")
    sockets = {str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                dotted = ".".join(str(part) for part in reversed(bytes.fromhex(address)))
                found.add((dotted, int(port, 16)))
    return found
