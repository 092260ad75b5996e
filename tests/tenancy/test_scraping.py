"""Who learns from the metrics which syncs there are: on a real API server, as those who ask."""

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account

from syncline.deploy.rights import METRICS_READER
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture
def guarded(quiet: Path) -> Iterator[OperatorProcess]:
    """An operator whose metrics are guarded, as they are where it is installed."""
    with OperatorProcess(quiet, secure_metrics=True) as running:
        yield running


def scrape(operator: OperatorProcess, token: str, *, scheme: str = "https") -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{scheme}://{operator.address('metrics')}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_tenant_learns_nothing_of_others_from_the_metrics(
    arena: Sandbox, alone: Manifests, guarded: OperatorProcess
) -> None:
    (target,) = alone.namespaces("a")
    alone.msync("payroll-rollout", alone.secret(), into=[target]).becomes("Synced")
    mallory = Account(alone)
    token = arena.service_account_token(alone.home, mallory.name)

    for status, presented in ((401, ""), (401, "made-up"), (403, token)):
        answered, text = scrape(guarded, presented)
        assert answered == status, text
        assert "payroll-rollout" not in text
        assert target not in text
    assert guarded.get("metrics", "/metrics") == (0, "")  # nor over plain HTTP

    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"scraper-{alone.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": METRICS_READER},
        "subjects": [{"kind": "ServiceAccount", "namespace": alone.home, "name": mallory.name}],
    }
    arena.request("POST", BINDINGS, binding)
    try:
        _, text = until(lambda: scrape(guarded, token), lambda answer: answer[0] == 200)
        assert 'name="payroll-rollout"' in text
    finally:
        arena.request("DELETE", f"{BINDINGS}/scraper-{alone.name}")
        mallory.end()
