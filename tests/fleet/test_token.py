"""A cluster by token and address: an account with exactly the rights of the recipe, its rotation and its end."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Thing, until
from tests.examples.scene import EXAMPLES, load, path
from tests.fleet.scene import Json, Scene, becomes, ready, targets, turns
from tests.fleet.world import Remote

from syncline.api.common import API_VERSION
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

RECIPE = EXAMPLES / "manifestsync" / "there" / "13-by-token.yaml"
INSIDE = "customs-pier"
HOME, ACCOUNT = "syncline-hub", "customs"


class Harbour(Scene):
    """A hub, and another cluster where an account has what the recipe gives it."""

    def __init__(self, hub: Sandbox, remote: Remote) -> None:
        super().__init__(hub, remote)
        for manifest in load(RECIPE):
            remote.sandbox.request("PATCH", f"{path(manifest)}?fieldManager=kubectl&force=true", manifest)

    def put_token(self, token: str) -> Thing:
        """Keep a token beside the syncs, with the authority that the server's certificate is of."""
        return self.secret(self.home, "pilot", {"token": token.encode(), "ca.crt": self.remote.sandbox.ca.encode()})

    def token(self, bound: str = "") -> str:
        """Make a token; one that is bound to a Secret ends with it."""
        there = self.remote.sandbox
        if not bound:
            return there.service_account_token(HOME, ACCOUNT)
        made = there.request("POST", f"/api/v1/namespaces/{HOME}/secrets", {"metadata": {"name": bound}})
        reference = {"kind": "Secret", "apiVersion": "v1", "name": bound, "uid": made["metadata"]["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": reference},
        }
        asked = f"/api/v1/namespaces/{HOME}/serviceaccounts/{ACCOUNT}/token"
        return str(there.request("POST", asked, body)["status"]["token"])

    def pilot(self, *namespaces: str) -> Json:
        connection = {
            "type": "ServiceAccountToken",
            "serviceAccountTokenRef": {"name": "pilot"},
            "server": self.remote.sandbox.server,
        }
        return {"clusterName": "pilot", "connection": connection, "namespaces": list(namespaces)}


@pytest.fixture
def harbour(sandbox: Sandbox, remote: Remote, operator: OperatorProcess) -> Iterator[Harbour]:
    scene = Harbour(sandbox, remote)
    yield scene
    scene.end()
    assert operator.returncode is None, operator.log()[-2000:]


def test_the_rights_of_the_recipe_are_enough_to_copy_repair_and_remove(harbour: Harbour) -> None:
    harbour.put_token(harbour.token())
    harbour.source(password="one")
    sync = harbour.sync(harbour.pilot(INSIDE), targetName=harbour.prefix)
    copy = harbour.copy(INSIDE, harbour.prefix)
    becomes(copy, "one")
    turns(sync, "True", "Synced")
    other = f"{harbour.prefix}-other"
    harbour.source(password="two")
    becomes(copy, "two")
    copy.edit(lambda body: body.update(data={"password": "eA=="}))
    becomes(copy, "two")
    sync.edit(lambda body: body["spec"].update(targetName=other))
    becomes(harbour.copy(INSIDE, other), "two")
    copy.gone()
    sync.delete()
    harbour.copy(INSIDE, other).gone()
    sync.gone()


def test_beyond_them_the_target_says_which_right_is_lacking(harbour: Harbour) -> None:
    outside = harbour.there("outside")
    harbour.put_token(harbour.token())
    harbour.source(password="one")
    sync = harbour.sync(harbour.pilot(INSIDE, outside), targetName=harbour.prefix)
    turns(sync, "False", "Forbidden")
    until(
        lambda: {one["namespace"]: one["status"] for one in targets(sync)}, {INSIDE: "Synced", outside: "Failed"}.__eq__
    )
    assert f"cannot create secrets in namespace '{outside}': 403 Forbidden" in ready(sync)["message"]
    assert harbour.copy(outside, harbour.prefix).look() is None


def test_a_new_token_takes_over_before_the_old_one_is_revoked_and_a_revoked_one_is_named(harbour: Harbour) -> None:
    first = f"{harbour.prefix}-first"
    harbour.put_token(harbour.token(first))
    harbour.source(password="one")
    sync = harbour.sync(harbour.pilot(INSIDE), targetName=harbour.prefix)
    copy = harbour.copy(INSIDE, harbour.prefix)
    becomes(copy, "one")
    second = f"{harbour.prefix}-second"
    harbour.put_token(harbour.token(second))
    revoked = Thing(harbour.remote.sandbox, f"/api/v1/namespaces/{HOME}/secrets", first)
    revoked.delete()
    harbour.source(password="two")
    becomes(copy, "two")
    Thing(harbour.remote.sandbox, f"/api/v1/namespaces/{HOME}/secrets", second).delete()
    told = turns(sync, "Unknown", "Unauthorized")
    assert f"Secret {harbour.home}/pilot" in told["message"]
    harbour.put_token(harbour.token())
    turns(sync, "True", "Synced")


def test_a_sync_target_may_be_reached_by_token_too(harbour: Harbour) -> None:
    harbour.put_token(harbour.token())
    harbour.source(password="one")
    folder = f"/apis/{API_VERSION}/namespaces/{harbour.home}/synctargets"
    target = Thing(harbour.hub, folder, "pilot")
    connection = harbour.pilot()["connection"]
    target.create(
        {
            "apiVersion": API_VERSION,
            "kind": "SyncTarget",
            "metadata": {"name": "pilot"},
            "spec": {"connection": connection},
        }
    )
    by_name = {"type": "SyncTarget", "syncTargetRef": {"name": "pilot"}}
    sync = harbour.sync({"connection": by_name, "namespaces": [INSIDE]}, targetName=harbour.prefix)
    turns(sync, "True", "Synced")
    assert turns(target, "True", "Reachable")
    assert "credentialExpiry" in target.read()["status"]
