"""What `kubectl describe` shows is enough to understand a failure: who, what, and what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.manifestsync.world import Manifests

from syncline.cli.details import resource_words, source_words
from syncline.core.redact import REDACTED, strip_server_text
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


def account(world: Manifests, name: str) -> None:
    """Create a service account without rights."""
    world.sandbox.request("POST", f"/api/v1/namespaces/{world.home}/serviceaccounts", {"metadata": {"name": name}})


def test_an_account_without_rights_is_named_with_the_right_that_it_lacks(world: Manifests) -> None:
    account(world, "courier")
    target = world.namespace("a")
    sync = world.msync("sync", world.secret(), into=[target], serviceAccountName="courier")
    ready = sync.becomes("SourceForbidden")
    who = f"system:serviceaccount:{world.home}:courier"
    assert ready["message"].startswith(f"give {who} the right to get secrets there: cannot get secrets")
    entry = sync.target(target)
    assert (entry["status"], entry["message"]) == ("Unknown", "not read: see the Ready condition of the sync")


def test_a_patch_that_is_not_there_is_named(world: Manifests) -> None:
    patch = {"patchContentRef": {"name": "changes", "key": "patch"}}
    sync = world.msync("sync", world.secret(), into=[world.namespace("a")], patch=patch)
    ready = sync.becomes("PatchNotFound")
    assert ready["message"] == (
        f"the ConfigMap {world.home}/changes, which patchContentRef names, does not exist: create it"
    )


@pytest.mark.own_rights
def test_a_kind_that_the_operator_may_not_watch_is_told_with_the_way_to_allow_it(world: Manifests) -> None:
    source = world.make("LimitRange", spec={"limits": []})
    ready = world.msync("sync", source, into=[world.namespace("a")]).becomes("KindNotWatched")
    assert ready["message"].startswith("run `syncline grant limitranges`: cannot ")
    assert ready["message"].count("limitranges: 403") == 1


@pytest.fixture
def strict(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[Manifests]:
    """A world in a cluster whose operator acts only as service accounts."""
    world = Manifests(arena)
    with OperatorProcess(arena_kubeconfig, "--require-service-account"):
        yield world
    world.end_alone()


@pytest.mark.own_rights
def test_an_operator_that_wants_an_account_says_so(strict: Manifests) -> None:
    sync = strict.msync("sync", strict.secret(), into=[strict.namespace("a")])
    ready = sync.becomes("AccountRequired")
    assert "set serviceAccountName to one of this namespace" in ready["message"]
    assert sync.conditions["Stalled"]["reason"] == "AccountRequired"


def test_what_the_server_says_of_a_patch_from_a_secret_is_told_without_the_value(world: Manifests) -> None:
    canary = "canary-1234"
    world.secret("patch", content=f"spec: {{sessionAffinity: {canary}}}")
    patch = {"patchContentRef": {"kind": "Secret", "name": "patch", "key": "content"}}
    sync = world.msync("sync", world.service(), into=[world.namespace("a")], patch=patch)
    ready = sync.becomes("Invalid")
    assert "422 Invalid, see spec.sessionAffinity (what the server says is not repeated" in ready["message"]
    assert canary not in str(sync.read())
    assert canary not in str(sync.events())


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("namespace 'a' does not exist", "namespace 'a' does not exist"),
        (
            "cannot create services in namespace 'a': 422 Invalid: spec.type: Unsupported value: \"SECRET\": no type",
            f"cannot create services in namespace 'a': 422 Invalid, see spec.type ({REDACTED})",
        ),
        (
            "cannot patch deployments 'x' in namespace 'a': 400 BadRequest: SECRET",
            f"cannot patch deployments 'x' in namespace 'a': 400 BadRequest ({REDACTED})",
        ),
        (
            "cluster edge: cannot patch things 'x': 422 Invalid: a.b[0].c: Invalid value: \"d e: Forbidden\": no",
            f"cluster edge: cannot patch things 'x': 422 Invalid, see a.b[0].c ({REDACTED})",
        ),
    ],
    ids=["our own words", "a value", "no field", "a value that looks like a field"],
)
def test_only_names_of_fields_are_left_of_what_the_server_says(message: str, told: str) -> None:
    assert strip_server_text(message) == told


@pytest.mark.parametrize(
    ("states", "words"), [((), "-"), (("Accepted",), "1"), (("Incompatible", "Accepted"), "2, 1 incompatible")]
)
def test_the_resources_of_a_cluster_are_counted(states: tuple[str, ...], words: str) -> None:
    assert resource_words({"syncedResources": [{"name": "x", "state": state} for state in states]}) == words


@pytest.mark.parametrize(
    ("upstream", "words"),
    [
        (None, "this cluster"),
        ({"workspace": "root:team", "connection": {"kubeconfigSecretRef": {"name": "kcp"}}}, "root:team"),
        ({"apiExport": {"workspace": "root:provider", "name": "apps"}}, "APIExport root:provider/apps"),
        ({"connection": {"syncTargetRef": {"name": "hub"}}}, "SyncTarget hub"),
        ({"connection": {"kubeconfigSecretRef": {"name": "kcp"}}}, "Secret kcp"),
        ({"connection": {"serviceAccountTokenRef": {"name": "t"}, "server": "https://kcp.io"}}, "https://kcp.io"),
    ],
)
def test_the_source_of_a_workspacesync_is_its_upstream(upstream: dict[str, Any] | None, words: str) -> None:
    spec = {"upstream": upstream} if upstream is not None else {}
    assert source_words({"kind": "WorkspaceSync", "spec": spec}) == words
