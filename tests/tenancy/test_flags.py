"""What an operator was told about tenants when it was started."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.configmapsync.world import Sync, Thing, until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account, is_allowed

from syncline import deploy
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

Start = Callable[..., OperatorProcess]

KINDS = pytest.mark.parametrize("kind", ["ConfigMapSync", "ManifestSync"])


@pytest.fixture
def world(alone: Manifests) -> Manifests:
    return alone


@pytest.fixture
def start(world: Manifests, quiet: Path) -> Iterator[Start]:
    """Start an operator for the namespace of the syncs, with more flags."""
    with ExitStack() as running:

        def begin(*flags: str) -> OperatorProcess:
            return running.enter_context(OperatorProcess(quiet, "--watch-namespaces", world.home, *flags))

        yield begin


def copying(world: Manifests, kind: str, *namespaces: str, **spec: object) -> Sync:
    """Create a sync of one kind or the other of the ConfigMap `app`."""
    if kind == "ConfigMapSync":
        return world.sync(destinationNamespaces=list(namespaces), **spec)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"}
    return world.msync("sync", into=namespaces, sourceRef=ref, **spec)


@KINDS
def test_a_sync_must_name_an_account_where_the_operator_asks_for_one(world: Manifests, start: Start, kind: str) -> None:
    world.account = ""
    world.source()
    target, account = world.namespace("a"), Account(world)
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    start("--require-service-account")
    sync = copying(world, kind, target)
    ready = sync.becomes("AccountRequired")
    assert ready["message"] == (
        "this operator acts only as service accounts: set serviceAccountName to one of this namespace"
    )
    assert sync.conditions["Stalled"]["status"] == "True"
    assert world.config_map(target).look() is None
    sync.change(serviceAccountName=account.name)
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")


@KINDS
def test_a_default_account_stands_in_for_none_with_its_own_rights(world: Manifests, start: Start, kind: str) -> None:
    world.account = ""
    world.source()
    target = world.namespace("a")
    start("--default-service-account", "tenant", "--require-service-account")
    sync = copying(world, kind, target)
    ready = sync.becomes("SourceForbidden")  # it does not exist
    assert f"system:serviceaccount:{world.home}:tenant" in ready["message"]
    account = Account(world, "tenant")
    sync.now()
    sync.becomes("SourceForbidden")  # it has no rights
    assert world.config_map(target).look() is None
    account.may(world.home, "configmaps", "get")
    sync.becomes("Forbidden", failed=1)
    account.may(target, "configmaps", *ALL)
    world.config_map(target).becomes(colour="red")


def test_a_sync_may_name_another_account_than_the_default(world: Manifests, start: Start) -> None:
    world.source()
    target, account = world.namespace("a"), Account(world)
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    start("--default-service-account", "nobody")
    copying(world, "ConfigMapSync", target, serviceAccountName=account.name).becomes("Synced", synced=1)


@pytest.mark.own_rights  # the first operator writes with its own
def test_a_flag_that_comes_later_is_no_way_to_delete_with_the_operators_rights(world: Manifests, start: Start) -> None:
    world.source()
    target = world.namespace("a")
    first = start()
    sync = copying(world, "ConfigMapSync", target)
    sync.becomes("Synced", synced=1)
    first.stop()
    start("--require-service-account")
    sync.becomes("AccountRequired")
    mark = world.mark()
    sync.delete()
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}
    assert [str(entry) for entry in world.requests(mark) if entry.changes and entry.resource == "configmaps"] == []


@KINDS
def test_syncs_of_other_namespaces_are_left_alone(world: Manifests, start: Start, kind: str) -> None:
    world.source()
    target = world.namespace("a")
    away = Manifests(world.sandbox)
    away.source()
    other_target = away.namespace("a")
    mark = world.mark()
    start()
    other = copying(away, kind, other_target)
    copying(world, kind, target).becomes("Synced", synced=1)
    assert world.config_map(target).data == {"colour": "red"}
    assert away.config_map(other_target).look() is None
    body = other.read()
    assert "status" not in body
    assert "finalizers" not in body["metadata"]
    assert [str(entry) for entry in away.requests(mark) if entry.changes] == []
    away.end_alone()


@KINDS
def test_globs_and_selectors_do_not_reach_protected_namespaces_and_names_do(
    world: Manifests, start: Start, kind: str
) -> None:
    world.source()
    free, vault, guarded = (world.namespace(name, team=world.name) for name in ("free", "vault", "guarded"))
    start("--protect-namespaces", f"{vault},{world.name}-guard*")
    sync = copying(world, kind, f"{world.name}-*")
    sync.becomes("Synced", synced=1, desired=1)
    assert world.config_map(free).data == {"colour": "red"}
    selector = {"matchLabels": {"team": world.name}}
    if kind == "ConfigMapSync":
        sync.change(destinationNamespaces=[guarded], destinationNamespaceSelector=selector)
    else:
        sync.change(targets={"inCluster": {"namespaces": [guarded], "namespaceSelector": selector}})
    sync.becomes("Synced", synced=2, desired=2)
    assert world.config_map(guarded).data == {"colour": "red"}
    assert world.config_map(vault).look() is None


@KINDS
def test_system_namespaces_and_the_operators_own_are_reached_only_by_name(
    world: Manifests, start: Start, kind: str
) -> None:
    world.source(f"{world.name}-app")
    start("--protect-namespaces", "default")
    if kind == "ConfigMapSync":
        sync: Sync = world.sync(configMapName=f"{world.name}-app", destinationNamespaces=["kube-*", "syncline-*"])
    else:
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{world.name}-app"}
        sync = world.msync("sync", into=["kube-*", "syncline-*"], sourceRef=ref)
    sync.becomes("Synced", desired=0)
    named = ["kube-public", deploy.NAMESPACE]
    if kind == "ConfigMapSync":
        sync.change(destinationNamespaces=named)
    else:
        sync.change(targets={"inCluster": {"namespaces": named}})
    sync.becomes("Synced", synced=2)
    for namespace in named:
        assert world.config_map(namespace, f"{world.name}-app").data == {"colour": "red"}
    sync.delete()
    sync.gone()


def test_a_protected_kind_is_copied_only_by_an_operator_that_was_told_so(world: Manifests, start: Start) -> None:
    target = world.namespace("a")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{world.home}/leases"
    world.sandbox.request("POST", leases, {"metadata": {"name": "app"}, "spec": {"leaseDurationSeconds": 5}})
    _let_copy_leases(world.sandbox)
    ref = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "app"}
    first = start()
    sync = world.msync("sync", into=[target], sourceRef=ref)
    ready = sync.becomes("KindProtected")
    assert "--allow-kinds=Lease.coordination.k8s.io" in ready["message"]
    first.stop()
    start("--allow-kinds", "Lease.coordination.k8s.io")
    sync.becomes("Synced", synced=1)
    copy = world.sandbox.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{target}/leases/app")
    assert copy["spec"] == {"leaseDurationSeconds": 5}
    sync.delete()
    sync.gone()


@pytest.mark.own_rights
def test_without_rights_over_secrets_the_rest_goes_on_and_a_secret_says_what_is_missing(
    world: Manifests, start: Start
) -> None:
    world.source()
    target = world.namespace("a")
    with operator_may(world.sandbox, "secrets"):
        start()
        copying(world, "ConfigMapSync", target).becomes("Synced", synced=1)
        ready = world.msync("secretive", world.secret(), into=[target]).becomes("KindNotWatched")
        assert "cannot watch secrets" in ready["message"]
        assert ready["message"].startswith("run `syncline grant secrets` or install with --rights config: ")


def test_an_operator_that_may_only_look_copies_with_the_rights_of_accounts(world: Manifests, start: Start) -> None:
    source, target, account = world.secret(), world.namespace("a"), Account(world)
    account.may(world.home, "secrets", "get")
    account.may(target, "secrets", *ALL)
    with operator_may(world.sandbox, "secrets", "get", "list", "watch"):
        start("--require-service-account")
        sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
        sync.becomes("Synced", synced=1)
        source.keep(password="blue")
        world.find("Secret", target).holds(password="blue")
        sync.delete()
        sync.gone()
        assert world.find("Secret", target).look() is None


@contextmanager
def operator_may(sandbox: Sandbox, resource: str, *verbs: str) -> Iterator[None]:
    """Let the operator itself do only this with a kind, as an admin does."""
    role = Thing(sandbox, "/apis/rbac.authorization.k8s.io/v1/clusterroles", f"syncline-{resource}")
    operator = f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}"
    rules = role.read()["rules"]

    def grant(granted: list[dict[str, object]]) -> None:
        role.edit(lambda body: body.update(rules=granted))
        for verb in ("list", "create"):
            wanted = any(verb in rule["verbs"] for rule in granted)  # type: ignore[operator]
            until(
                lambda: is_allowed(sandbox, operator, "default", resource, verb),  # noqa: B023 - called at once
                lambda allowed: allowed == wanted,  # noqa: B023
            )

    grant([{**rules[0], "verbs": list(verbs)}] if verbs else [])
    try:
        yield
    finally:
        grant(rules)


def _let_copy_leases(sandbox: Sandbox) -> None:
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "tests-leases", "labels": {deploy.names.AGGREGATE_LABEL: "true"}},
        "rules": [rule],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tests-leases?fieldManager=tests&force=true"
    sandbox.request("PATCH", path, body)
