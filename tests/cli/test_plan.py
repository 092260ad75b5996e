"""`syncline plan` for syncs of any kind: what would be done where, and why."""

import json

from tests.cli.conftest import Command
from tests.manifestsync.world import Manifests, Object

from syncline.api.common import API_VERSION
from syncline.api.manifestsync import KIND

HEADER = ["ACTION", "CLUSTER", "KIND", "TARGET", "THEN", "WHY"]


def planned(told: str) -> dict[str, list[str]]:
    """Return the rows of the table, by the target."""
    lines = told.splitlines()
    assert lines[1].split() == HEADER
    return {line.split()[3]: line.split(maxsplit=5) for line in lines[2:-1]}


def manifest(world: Manifests, *sources: Object, into: list[str], **spec: object) -> str:
    refs = [source.ref for source in sources]
    spec = {"sourceRefs": refs, "targets": {"inCluster": {"namespaces": into}}, **spec}
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "sync", "namespace": world.home}}
    return json.dumps({**body, "spec": spec})


def test_plan_shows_the_kind_of_each_target(world: Manifests, syncline: Command) -> None:
    new, taken, missing = world.namespace("new"), world.namespace("taken"), f"{world.name}-missing"
    world.secret(name="key", namespace=taken, password="theirs")
    wanted = manifest(world, world.secret("key"), world.deployment(), into=[new, taken, missing])
    told = syncline("plan", "-f", "-", stdin=wanted)
    assert told.splitlines()[0] == f"ManifestSync {world.home}/sync"
    rows = planned(told)
    assert rows[f"{new}/key"] == [
        *("create", "-", "Secret", f"{new}/key", "Synced", "the target has no such object"),
    ]
    assert rows[f"{new}/app"][:3] == ["create", "-", "Deployment.apps"]
    assert rows[f"{taken}/key"][0] == "leave"
    assert "is not ours; delete it, or set resourceManagementPolicy" in rows[f"{taken}/key"][5]
    assert rows[f"{missing}/app"][::4] == ["-", "Pending"]
    assert told.splitlines()[-1] == "3 to create, 1 to leave"
    assert world.find("Secret", new, "key").look() is None


def test_plan_of_an_edit_shows_what_follows_the_source_and_what_is_let_go(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.msync("sync", source, into=[stays, leaves])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.put("spec", "replicas", value=5)
    rows = planned(syncline("plan", "-f", "-", stdin=manifest(world, source, into=[stays])))
    assert rows[f"{stays}/app"][0] == "update"
    assert rows[f"{leaves}/app"][0] == "delete"
    assert world.find("Deployment", stays).at("spec", "replicas") == 2


def test_plan_says_what_to_do_about_a_kind_that_is_not_served(world: Manifests, syncline: Command) -> None:
    unknown = Object(world.sandbox, "Widget", world.home, "app", ("none.example.com/v1", "widgets"))
    told = syncline("plan", "-f", "-", stdin=manifest(world, unknown, into=[world.namespace("a")]), code=1)
    assert "KindNotServed: " in told
    assert told.splitlines()[-1] == "nothing to do"


def test_plan_takes_the_flags_that_the_operator_has(world: Manifests, syncline: Command) -> None:
    secret = world.secret()
    closed, target = world.namespaces("closed", "open")
    wanted = manifest(world, secret, into=[f"{world.name}-*"])
    assert f"{closed}/app" in planned(syncline("plan", "-f", "-", stdin=wanted))
    rows = planned(syncline("plan", "-f", "-", "--protect-namespaces", f"*-closed,{world.home}", stdin=wanted))
    assert set(rows) == {f"{target}/app"}
    told = syncline("plan", "-f", "-", "--require-service-account", stdin=wanted, code=1)
    assert "AccountRequired: this operator acts only as service accounts" in told
