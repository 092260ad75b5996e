"""An operator that can do nothing says so, and does not linger when it is told to stop."""

import secrets

import pytest
from tests.faults.scene import wait_until

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess, install


def test_an_operator_without_its_namespace_is_not_ready_and_stops_at_once(arena: Sandbox) -> None:
    with OperatorProcess(install(arena), "--namespace", "never-made", wait=False) as operator:
        told = "cannot read or make the key of digests"
        wait_until(lambda: told in operator.get("health", "/readyz")[1], "the operator to say what it lacks")
        status, text = operator.get("health", "/readyz")
        assert status == 503
        assert "[-] work: " in text
        wait_until(lambda: "[+] watches: " in operator.get("health", "/readyz")[1], "the watches to be live")
        with operator.log_file.open(encoding="utf-8") as log:
            assert operator.stop() == 0
            # No pass can be in hand, so none is waited for.
            assert '"patience": 0.0' in log.read()


@pytest.mark.usefixtures("arena_kubeconfig")
def test_an_operator_is_not_ready_from_the_moment_its_namespace_is_deleted(arena: Sandbox) -> None:
    name = f"home-{secrets.token_hex(3)}"
    path, held = f"/api/v1/namespaces/{name}", f"/api/v1/namespaces/{name}/configmaps/held"
    arena.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    metadata = {"name": "held", "finalizers": ["example.com/held"]}
    arena.request("POST", f"{path}/configmaps", {"metadata": metadata})
    with OperatorProcess(arena.kubeconfig, "--namespace", name) as operator:
        wait_until(operator.is_ready, "the operator to be ready")
        arena.request("DELETE", path)
        told = (
            "[-] namespace: once the operator's namespace is gone, run `syncline install` of this version: it is being"
        )
        wait_until(lambda: told in operator.get("health", "/readyz")[1], "the operator to say that its namespace goes")
        assert operator.get("health", "/readyz")[0] == 503
        arena.request("PUT", held, {**arena.request("GET", held), "metadata": {"name": "held", "namespace": name}})
        gone = "[-] namespace: run `syncline install` of this version: the operator's namespace does not exist"
        wait_until(lambda: gone in operator.get("health", "/readyz")[1], "the operator to say that it is gone")
        assert operator.stop() == 0
