"""`syncline diff`: what the next turn would change, object by object, and never the value of a Secret."""

import base64
import json

import pytest
from tests.cli.conftest import Command
from tests.manifestsync.world import Json, Manifests, Object

from syncline.api.common import API_VERSION
from syncline.api.configmapsync import KIND as CONFIG_MAP_SYNC
from syncline.api.manifestsync import KIND as MANIFEST_SYNC
from syncline.cli import main
from syncline.testing.audit import AuditLog

CANARY = "canary-4711-do-not-show"
OTHER = "canary-0815-neither"


def maps(world: Manifests, **spec: object) -> str:
    """Write a ConfigMapSync of `app`."""
    spec = {"sourceNamespace": world.home, "configMapName": "app", **spec}
    return manifest(world, CONFIG_MAP_SYNC, spec)


def anything(world: Manifests, source: Object, *into: str, **spec: object) -> str:
    """Write a ManifestSync of an object."""
    spec = {"sourceRef": source.ref, "targets": {"inCluster": {"namespaces": list(into)}}, **spec}
    return manifest(world, MANIFEST_SYNC, spec)


def manifest(world: Manifests, kind: str, spec: Json) -> str:
    metadata = {"name": "sync", "namespace": world.home}
    return json.dumps({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": world.acting(spec)})


def changed(told: str) -> list[str]:
    """Return the lines that go and the lines that come, but our own marks."""
    lines = [line for line in told.splitlines() if line[:1] in "+-" and line[:4] not in ("+++ ", "--- ")]
    return [line for line in lines if "syncline.dev/" not in line]


def secrets_in(told: str) -> list[str]:
    values = [CANARY, OTHER, *(base64.b64encode(value.encode()).decode() for value in (CANARY, OTHER))]
    return [value for value in values if value in told]


def test_a_new_sync_creates_its_copies_and_the_diff_does_not(world: Manifests, syncline: Command) -> None:
    world.source(colour="red", poem="one\ntwo\n")
    target, taken = world.namespaces("a", "taken")
    world.put(taken, theirs="1")
    log = AuditLog(world.sandbox)
    mark = log.mark()
    told = syncline("diff", "-f", "-", stdin=maps(world, destinationNamespaces=[target, taken]), code=1)
    lines = told.splitlines()
    assert lines[0] == f"# ConfigMapSync {world.home}/sync"
    assert f"# create {target}/app: the target has no such object" in lines
    assert f"+++ wanted {target}/app" in lines
    assert "+  colour: red" in lines
    assert lines[lines.index("+  poem: |") :][1:3] == ["+    one", "+    two"]
    assert f"+  namespace: {target}" in lines
    assert any(line.startswith(f"# not changed: {taken}/app: an object of this name exists") for line in lines)
    writes = [entry for entry in log.writes("admin", since=mark) if "dryRun=All" not in entry.uri]
    assert {entry.resource for entry in writes} <= {"subjectaccessreviews"}
    assert world.config_map(target).look() is None


def test_a_sync_at_rest_shows_no_difference(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    world.source()
    world.sync("maps", destinationNamespace=target).becomes("Synced")
    world.msync("deployments", world.deployment(), into=[target]).becomes("Synced")
    assert syncline("diff", "cms", "maps", "-n", world.home) == ""
    assert syncline("diff", "msync/deployments", "-n", world.home) == ""


def test_an_edit_of_a_living_sync_shows_what_changes_what_comes_and_what_goes(
    world: Manifests, syncline: Command
) -> None:
    source = world.source(colour="red", size="1")
    stays, leaves, comes = world.namespaces("stays", "leaves", "comes")
    sync = world.sync(destinationNamespaces=[stays, leaves])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    assert syncline("diff", "cms/sync", "-n", world.home).splitlines()[1:] == [
        "# spec.suspend is true: nothing is read or written"
    ]
    source.set(colour="blue", size=None)
    wanted = maps(world, destinationNamespaces=[stays, comes], keys={"exclude": ["none"]})
    told = syncline("diff", "-f", "-", stdin=wanted, code=1)
    update, create, delete = (told.index(f"# {what}") for what in ("update", "create", "delete"))
    assert changed(told[update : min(at for at in (create, delete, len(told)) if at > update)]) == [
        *("-  colour: red", "-  size: '1'", "+  colour: blue")
    ]
    assert f"# delete {leaves}/app: no longer a destination of this sync" in told
    assert f"--- live {leaves}/app" in told
    assert "+  colour: blue" in told[create:]
    assert world.config_map(stays).data == {"colour": "red", "size": "1"}


def test_a_deployment_shows_the_fields_that_change_and_no_defaults(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.put("spec", "template", "spec", "containers", 0, "env", value=[{"name": "MODE", "value": "slow"}])
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target, suspend=False), code=1)
    assert f"# update Deployment.apps {target}/app: the source has changed" in told
    assert [line.replace(" ", "") for line in changed(told)] == [
        *("-value:fast", "--name:COLOUR", "-value:red", "+value:slow")
    ]
    copy = world.find("Deployment", target)
    assert copy.at("spec", "template", "spec", "containers", 0, "env", 0, "value") == "fast"


def test_the_values_of_a_secret_are_never_shown(world: Manifests, syncline: Command) -> None:
    source = world.secret(password=CANARY, user="same", old="1")
    target, fresh = world.namespaces("a", "fresh")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.keep(password=OTHER, old=None, new="2")
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target, fresh), code=1)
    update, create = told.index("# update"), told.index("# create")
    assert changed(told[update:create]) == [
        *("-  old: <value>", "-  password: <value>", "+  new: <value>", "+  password: <changed>")
    ]
    assert "   user: <value>" in told
    assert "+  password: <value>" in told[create:]
    assert secrets_in(told) == []
    assert "digest" not in told


def test_what_a_secret_patches_into_other_kinds_is_not_shown_either(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    target = world.namespace("a")
    world.secret("patch", content=json.dumps({"metadata": {"annotations": {"token": CANARY}}}))
    patch = {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "content"}}
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target, patch=patch), code=1)
    assert "+    token: <value>" in told
    assert secrets_in(told) == []
    world.msync("sync", source, into=[target], patch=patch).becomes("Synced")
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target), code=1)
    assert "-    token: <value>" in told
    assert secrets_in(told) == []


def test_what_the_server_says_against_the_content_of_a_secret_is_not_shown(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    target = world.namespace("a")
    world.msync("sync", source, into=[target]).becomes("Synced")
    world.secret("patch", content=json.dumps({"metadata": {"labels": {"token": f"{CANARY} is no label"}}}))
    patch = {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "content"}}
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target, patch=patch), code=2)
    assert "# the difference cannot be shown: the message of the API server can contain the value of a Secret" in told
    assert secrets_in(told) == []


def test_what_kubectl_remembers_of_a_secret_is_not_shown(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    remembered = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"stringData": {"password": CANARY}})}
    theirs = world.make("Secret", target, stringData={"password": CANARY}, metadata={"annotations": remembered})
    wanted = anything(world, world.secret(password=OTHER), target, resourceManagementPolicy="Overwrite")
    told = syncline("diff", "-f", "-", stdin=wanted, code=1)
    assert f"# adopt Secret {target}/app: made exactly the source (Overwrite)" in told
    assert secrets_in(told) == []
    assert theirs.values == {"password": CANARY}


def test_of_a_two_way_sync_the_other_way_is_not_shown_and_that_is_said(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    world.source()
    world.sync("pair", destinationNamespace=target, direction="Bidirectional", conflictPolicy="Merge").becomes("Synced")
    told = syncline("diff", "cms/pair", "-n", world.home)
    assert told.splitlines() == [
        "# this sync is Bidirectional: changes of the source by edits of the copy are not shown"
    ]


def test_a_source_that_is_not_there_is_an_error(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    told = syncline("diff", "-f", "-", stdin=maps(world, destinationNamespace=target), code=2)
    assert f"syncline: ConfigMapSync {world.home}/sync: SourceNotFound: the source ConfigMap" in told


def test_a_sync_that_is_not_there_is_an_error(world: Manifests, syncline: Command) -> None:
    told = syncline("diff", "cms", "none", "-n", world.home, code=2)
    assert told.startswith("syncline: cannot get configmapsyncs 'none'")
    assert told.count("\n") == 1


def test_what_the_server_would_refuse_is_an_error(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced")
    patch = {"patchContent": "spec: {selector: {matchLabels: {app: other}}}"}
    told = syncline("diff", "-f", "-", stdin=anything(world, source, target, patch=patch), code=2)
    assert "# the difference cannot be shown: cannot patch deployments 'app'" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "write either -f FILE, or KIND and NAME"),
        (["cms", "a", "-f", "-"], "write either -f FILE, or KIND and NAME"),
        (["cms"], "the name of the ConfigMapSync is missing: write KIND and NAME"),
        (
            ["st", "a"],
            (
                "this command does not support the kind SyncTarget; "
                "write one of ConfigMapSync (cms), ManifestSync (msync), ConfigSync (csync), WorkspaceSync (wss), "
                "IgnitionSync (isync, igs)"
            ),
        ),
        (["-f", "/nowhere/none.yaml"], "cannot read /nowhere/none.yaml: No such file or directory"),
    ],
    ids=["nothing", "both", "no name", "no copies", "no file"],
)
def test_diff_refuses_what_makes_no_sense_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["diff", *arguments]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"syncline: {message}\n")
