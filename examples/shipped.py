"""What is shipped, for `make demo SHIPPED=1`: the chart, installed by helm, and the operator from the image's root.

There is no kubelet here. The demo starts what a kubelet would start, from the pod spec that the API server has.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from stage import StageError
from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.image_pod import ImagePod
from syncline.testing.operator import OperatorProcess
from telling import Teller

ROOT = Path(__file__).parents[1]
HELM = Path(sys.executable).with_name("helm")
# A standby takes over 15 seconds after a crash; the demo has one replica, and restarts it itself.
VALUES = {"leaderElection": False, "rights": {"profile": "config"}, "extraArgs": ["--allow-loopback"]}
RELEASE = ("syncline", "--namespace", deploy.NAMESPACE)


def raise_shipped(sandbox: Sandbox, teller: Teller, ends: ExitStack) -> Callable[[], OperatorProcess]:
    """Unpack the image and install the chart; return how to start the operator of that Deployment."""
    sys.path.insert(0, str(ROOT / "deploy" / "image"))
    import build  # noqa: PLC0415 - a script of the tree
    import oci  # noqa: PLC0415

    folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="syncline-image-")))
    with teller.step("the image, unpacked"):
        root = folder / "root"
        root.mkdir()
        config = oci.unpack(build.image() / build.archive_name(), root)
    with teller.step("helm install syncline deploy/chart/syncline"):
        install_chart(sandbox)
    pod = ImagePod(root, config, sandbox, deploy.NAMESPACE, folder)
    return lambda: OperatorProcess(sandbox.kubeconfig, *pod.flags, launch=pod.launch)


def install_chart(sandbox: Sandbox) -> None:
    """Install the chart, and wait until an operator can start."""
    _helm(sandbox, "install", RELEASE[0], str(ROOT / "deploy/chart/syncline"), *RELEASE[1:], "--create-namespace")
    _wait(sandbox)


def remove_shipped(sandbox: Sandbox) -> None:
    """Remove the release, and check that its Services are gone."""
    _helm(sandbox, "uninstall", *RELEASE)
    path = f"/api/v1/namespaces/{deploy.NAMESPACE}/services"
    if sandbox.request("GET", path)["items"]:
        raise StageError("the release is removed, and Services are left")


def _helm(sandbox: Sandbox, *arguments: str) -> None:
    values = ["--values", "-"] if arguments[0] == "install" else []
    ended = subprocess.run(
        [HELM, *arguments, *values],
        input=json.dumps(VALUES),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(sandbox.folder), "KUBECONFIG": str(sandbox.kubeconfig)},
    )
    if ended.returncode:
        raise StageError(f"helm {arguments[0]}: {ended.stderr.strip()}")


def _wait(sandbox: Sandbox) -> None:
    """Wait until the kinds are served and the control plane has aggregated the operator's role."""
    while not _is_installed(sandbox):
        time.sleep(0.05)


def _is_installed(sandbox: Sandbox) -> bool:
    try:
        for kind in ALL_KINDS:
            sandbox.request("GET", f"/apis/{API_VERSION}/{kind.plural}")
        role = sandbox.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/syncline")
    except RequestError:
        return False
    return bool(role.get("rules"))
