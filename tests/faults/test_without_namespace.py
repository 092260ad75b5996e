"""An operator that can do nothing says so, and does not linger when it is told to stop."""

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
