"""The API server or etcd is away, late, frozen or back with other news: the operator stays up and sorts itself out."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.faults.scene import Scene, calm_operator, metric, wait_until

from syncline import deploy
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.fixtures import SandboxFactory
from syncline.testing.operator import OperatorProcess, install
from syncline.testing.proxy import FaultProxy


def says_why(operator: OperatorProcess, *words: str) -> bool:
    """Whether /readyz says no, with these words, while /healthz says yes."""
    status, text = operator.get("health", "/readyz")
    return status == 503 and all(word in text for word in words) and operator.get("health", "/healthz")[0] == 200


def crash(component: str) -> Callable[[Sandbox], Callable[[], None]]:
    def begin(sandbox: Sandbox) -> Callable[[], None]:
        sandbox.kill(component)
        return lambda: sandbox.start(component)

    return begin


def freeze(*components: str) -> Callable[[Sandbox], Callable[[], None]]:
    def begin(sandbox: Sandbox) -> Callable[[], None]:
        for component in components:
            sandbox.pause(component)

        def end() -> None:
            for component in components:
                sandbox.resume(component)

        return end

    return begin


@pytest.mark.parametrize(
    ("outage", "noticed"),
    [
        pytest.param(crash("kube-apiserver"), "cannot connect", id="api-server-killed"),
        # Watches are served from the API server's own cache meanwhile: they are live, and nothing can be written.
        pytest.param(crash("etcd"), "", id="etcd-killed"),
        pytest.param(freeze("kube-apiserver", "etcd"), "did not answer", id="both-frozen"),
    ],
)
@pytest.mark.usefixtures("mended")
def test_the_operator_outlives_an_outage_and_recovers_by_itself(
    scene: Scene, outage: Callable[[Sandbox], Callable[[], None]], noticed: str
) -> None:
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig) as operator:
        scene.wait_for(targets, "1")
        scene.source("2")
        end = outage(scene.sandbox)
        if noticed:
            wait_until(lambda: says_why(operator, "configmaps", noticed), "the operator to be up and not ready")
        else:
            time.sleep(10)
        end()
        scene.wait_for(targets, "2")
        wait_until(operator.is_ready, "the operator to be ready again")
        scene.source("3")
        scene.delete_config_map(targets[0])
        targets.append(scene.namespace("d"))
        scene.wait_for(targets, "3")
        scene.wait_until_quiet(3)


@pytest.mark.usefixtures("mended")
def test_news_that_the_server_no_longer_has_are_found_by_a_list(scene: Scene, proxy: FaultProxy) -> None:
    """A true 410: the watch is resumed at a server that was restarted and knows no version so old."""
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        # Refused for a while, not lost: after an outage all is listed anew in any case.
        away = proxy.inject(Fault(status=503), when=lambda _: True)
        proxy.cut_watches()
        scene.delete_config_map(targets[0])
        scene.source("2")
        scene.delete_namespace(targets.pop())
        targets.append(scene.namespace("d"))
        scene.sandbox.kill("kube-apiserver")
        scene.sandbox.start("kube-apiserver")
        away.lift()
        scene.wait_for(targets, "2")
        assert metric(operator, "syncline_watch_restarts_total", reason="Gone") >= 1
        scene.wait_until_quiet(3)


def test_an_operator_that_comes_first_waits_for_the_api_server_and_for_its_kinds(
    sandbox_factory: SandboxFactory,
) -> None:
    sandbox = sandbox_factory(audit_log=True)
    for manifest in (*deploy.namespace(), *deploy.rbac()):
        metadata = manifest["metadata"]
        path = deploy.resource(manifest).path(metadata.get("namespace"), metadata["name"])
        sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", manifest)
    token = sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT)
    kubeconfig = sandbox.kubeconfig_for(token, "early")
    sandbox.kill("kube-apiserver")
    with calm_operator(kubeconfig, wait=False) as operator:
        wait_until(lambda: says_why(operator, "namespaces: cannot connect"), "the operator to miss the API server")
        sandbox.start("kube-apiserver")
        wait_until(lambda: says_why(operator, "configmapsyncs", "404"), "the operator to miss its kinds")
        install(sandbox)
        wait_until(operator.is_ready, "the operator to be ready")
        scene = Scene(sandbox, kubeconfig)
        targets = [scene.namespace("a")]
        scene.source("1")
        scene.sync()
        scene.wait_for(targets, "1")
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")

        crd = deploy.crds()[0]["metadata"]["name"]
        sandbox.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}")
        wait_until(lambda: says_why(operator, "configmapsyncs"), "the operator to miss its kind", 120)
        install(sandbox)
        wait_until(operator.is_ready, "the operator to be ready again")
        scene.sync()
        scene.wait_for(targets, "1")


@pytest.mark.usefixtures("mended")
def test_a_cluster_that_is_restored_from_a_backup_is_followed_and_loses_nothing(
    scene: Scene, proxy: FaultProxy
) -> None:
    """What the operator knows is from a future that has not happened; when it looks again, the versions are as high."""
    data, backup = scene.sandbox.folder / "etcd", scene.sandbox.folder / "backup"
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        with _standing_still(scene.sandbox):
            shutil.copytree(data, backup)
        wait_until(operator.is_ready, "the operator to be ready again")
        later = scene.namespace("later")
        for edit in range(2, 12):
            scene.source(str(edit))
        scene.wait_for([*targets, later], "11")
        future = scene.version()
        away = proxy.inject(Fault(lost=True), when=lambda _: True)
        with _standing_still(scene.sandbox):
            shutil.rmtree(data)
            backup.rename(data)
        restored = scene.audit.mark()
        while scene.version() <= future:
            scene.config_map(scene.home, "busy", edit=str(scene.version()))
        wait_until(lambda: says_why(operator, "namespaces: "), "the operator to miss the API server")
        away.lift()
        scene.wait_for(targets, "1")
        wait_until(operator.is_ready, "the operator to be ready again")
        scene.source("new")
        scene.delete_config_map(targets[0])
        scene.wait_for(targets, "new")
        scene.wait_until_quiet()
        assert not [str(entry) for entry in scene.writes(restored) if entry.verb == "delete"]


@contextmanager
def _standing_still(sandbox: Sandbox) -> Iterator[None]:
    for component in ("kube-controller-manager", "kube-apiserver", "etcd"):
        sandbox.kill(component)
    yield
    for component in ("etcd", "kube-apiserver", "kube-controller-manager"):
        sandbox.start(component)
