"""Every way in which a sync of Secrets can fail, and no value of them in anything that is said about it."""

import base64
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.configmapsync.world import until
from tests.fleet.world import kubeconfig
from tests.manifestsync.world import Json, Manifests, ManifestSync
from tests.tenancy.canaries import Canaries

from syncline.testing.operator import OperatorProcess, execute

VALUE = f"CANARY-{secrets.token_hex(12)}"
ENCODED = base64.b64encode(VALUE.encode()).decode()
INVALID_LABEL = f"{VALUE} with spaces"

# What goes wrong with the content: the spec, and the reason that is given.
CONTENT: dict[str, Json] = {
    "transform-without-such-a-filter": {"transforms": [{"key": "*", "template": "{{ value | nothing }}"}]},
    "transform-of-what-is-not-there": {"transforms": [{"key": "password", "template": "{{ value.no.such }}"}]},
    "transform-that-grows": {
        "transforms": [{"key": "password", "template": "{% for i in range(9000) %}{{ value * 9 }}{% endfor %}"}]
    },
    "name-of-nothing": {"targetName": "{{ nothing.there }}"},
    "patch-that-tests": {
        "patch": {"patchStrategy": "JSONPatch", "patchContentRef": {"kind": "Secret", "name": "patch", "key": "tests"}}
    },
    "patch-of-no-path": {
        "patch": {"patchStrategy": "JSONPatch", "patchContentRef": {"kind": "Secret", "name": "patch", "key": "path"}}
    },
    "patch-of-a-secret-path": {
        "patch": {"patchStrategy": "JSONPatch", "patchContentRef": {"kind": "Secret", "name": "patch", "key": "named"}}
    },
    "patch-of-a-secret-annotation": {
        "patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "annotation"}}
    },
    "patch-of-a-secret-key": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "key"}}},
    "patch-of-a-secret-field": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "field"}}},
    "patch-that-is-no-yaml": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "broken"}}},
    "patch-that-is-text": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "text"}}},
    "patch-that-is-no-template": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "template"}}},
    "patch-with-a-bad-label": {"patch": {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "label"}}},
    "type-that-needs-more": {"patch": {"patchContent": '{"type": "kubernetes.io/tls"}'}},
    "type-that-is-parsed": {
        "keys": {"rename": {"password": ".dockerconfigjson"}},
        "patch": {"patchContent": '{"type": "kubernetes.io/dockerconfigjson"}'},
    },
}
PATCHES = {
    "tests": f'[{{"op": "test", "path": "/data/password", "value": "{VALUE}"}}]',
    "path": f'[{{"op": "replace", "path": "/nothing/there", "value": "{VALUE}"}}]',
    "named": f'[{{"op": "replace", "path": "/data/{VALUE}/there", "value": "x"}}]',
    "annotation": f'metadata: {{annotations: {{"{VALUE}": 1}}}}',
    "key": f'data: {{"{VALUE}": "not base64"}}',
    "field": f'metadata: {{"{VALUE}": "x"}}',
    "broken": f"data: [{VALUE}\n  }}: {VALUE}",
    "text": VALUE,
    "template": f"metadata: {{{{ '{VALUE}' | nothing }}}}",
    "label": f'metadata: {{labels: {{a: "{INVALID_LABEL}"}}}}',
}


@pytest.fixture
def world(alone: Manifests) -> Manifests:
    return alone


@pytest.fixture
def talkative(world: Manifests, quiet: Path) -> Iterator[OperatorProcess]:
    """An operator that says everything."""
    flags = ("--watch-namespaces", world.home, "--allow-loopback", "--log-level", "debug")
    # With arguments and an environment of its own, which are searched too.
    with OperatorProcess(quiet, *flags, launch=execute) as running:
        yield running


def broken(world: Manifests) -> Iterator[ManifestSync]:
    """Create a sync for each thing that can go wrong here."""
    source = world.secret(password=VALUE, username="admin")
    world.secret("patch", **PATCHES)
    for name, spec in CONTENT.items():
        yield world.msync(name, source, into=[world.namespace(name[:40])], **spec)
    foreign = world.namespace("foreign")
    world.secret(namespace=foreign, password=f"{VALUE}-foreign")
    yield world.msync("foreign", source, into=[foreign])
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "patch"}
    same = {"targetName": "same", "sourceRefs": [ref, {**ref, "name": "app"}]}
    world.source("plain", colour="red")
    plain = {
        "sourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "plain"},
        **CONTENT["patch-with-a-bad-label"],
    }
    yield world.msync("plain", into=[world.namespace("plain")], **plain)
    yield world.msync("same", into=[world.namespace("same")], **same)


def unreachable(world: Manifests) -> Iterator[ManifestSync]:
    """Create a sync for each thing that can go wrong with a credential."""
    server, authority = world.sandbox.server, world.sandbox.ca
    credentials = {
        "no-yaml": f"users: [{VALUE}\n  }}",
        "no-kubeconfig": VALUE,
        "exec": f"users: [{{name: u, user: {{exec: {{command: {VALUE}}}}}}}]",
        "refused": kubeconfig("https://127.0.0.1:1", authority, {"token": VALUE}),
        "unknown": kubeconfig(server, authority, {"token": VALUE}),
        "no-server": kubeconfig(f"https://{VALUE}@127.0.0.1:1", authority, {"token": VALUE}),
        "no-key": kubeconfig(server, authority, {"client-certificate-data": ENCODED, "client-key-data": ENCODED}),
    }
    source = world.find("Secret", world.home)
    for name, text in credentials.items():
        world.secret(name, value=text)
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": name}}
        place = {"clusterName": "edge", "connection": connection, "namespaces": ["default"]}
        yield world.msync(f"edge-{name}", source, targets={"remoteClusters": [place]})


def command(world: Manifests, *arguments: str) -> str:
    """Return all that the command says, whether it can do it or not."""
    program = Path(sys.executable).with_name("syncline")
    asked = [program, *arguments, "-n", world.home, "--kubeconfig", world.sandbox.kubeconfig]
    result = subprocess.run(asked, capture_output=True, text=True, timeout=180, check=False)
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def test_no_failure_tells_a_value(
    world: Manifests, talkative: OperatorProcess, canaries: Canaries, tmp_path: Path
) -> None:
    syncs = [*broken(world), *unreachable(world)]
    for sync in syncs:
        until(lambda: sync.conditions.get("Ready", {}), lambda ready: ready.get("status") in {"False", "Unknown"})  # noqa: B023
    drifted = world.namespace("drifted")
    sync = world.msync("drifted", world.find("Secret", world.home), into=[drifted])
    sync.becomes("Synced")
    world.find("Secret", drifted).keep(manager="nightly-fix", password=f"{VALUE}-drifted")
    sync.tells("DriftRepaired")
    canaries.search_operator(talkative)
    canaries.search_cluster(world.sandbox)
    file = tmp_path / "syncs.yaml"
    file.write_text(yaml.safe_dump_all([each.read() for each in (*syncs, sync)]))
    for words in (("get", "-o", "json"), ("get",), ("plan", "-f", str(file)), ("diff", "-f", str(file))):
        told = command(world, *words)
        assert all(each.name in told for each in syncs)
        canaries.search(f"syncline {words[0]}", told)
    canaries.search("syncline get", command(world, "get", "manifestsync", "foreign"))
    assert canaries.found == []


def test_a_value_is_found_in_whatever_form_it_takes() -> None:
    canaries = Canaries()
    canaries.note(VALUE)
    canaries.note(kubeconfig("https://10.0.0.1", "authority", {"token": "a-token-of-some-length"}))
    assert canaries.leaks(f"it is {VALUE}!")
    assert canaries.leaks(base64.b64encode(f"{{'a': '{VALUE}'}}".encode()).decode())
    assert canaries.leaks(base64.b64encode(f"-{VALUE}-".encode()).decode())
    assert canaries.leaks(base64.b64encode(f"--{VALUE}--".encode()).decode())
    assert canaries.leaks("Bearer a-token-of-some-length")
    assert not canaries.leaks("server https://10.0.0.1, CANARY-, authority")
    with pytest.raises(AssertionError, match="choose a value"):
        canaries.note("changed meanwhile")


def test_a_leak_names_the_test_that_wrote_the_value() -> None:
    canaries = Canaries()
    canaries.begin("tests/test_first.py::test_one")
    first = canaries.value
    canaries.begin("tests/test_second.py::test_two")
    canaries.search("a log", f"x{first}x")
    with pytest.raises(AssertionError, match=r"a log: \.\.\.x.*x\.\.\. \(written by tests/test_first\.py::test_one\)"):
        canaries.raise_for_leaks()
    canaries.search("a log", "nothing")
    canaries.raise_for_leaks()
