"""An operator with the profile `none` writes nothing but as accounts, started as the guide says."""

from collections.abc import Iterator

import pytest
from tests.cli.conftest import Command
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account

from syncline.sandbox import Sandbox
from syncline.testing.audit import OPERATOR, AuditLog
from syncline.testing.operator import OperatorProcess

# What the operator writes for itself, with rights that every profile has.
OWN = frozenset({"configmapsyncs", "manifestsyncs", "configsyncs", "synctargets", "events", "leases"})


@pytest.fixture(scope="module")
def operator(installed_with_none: Sandbox) -> Iterator[OperatorProcess]:
    with OperatorProcess(installed_with_none.kubeconfig, "--as-installed") as running:
        yield running


@pytest.fixture
def world(installed_with_none: Sandbox, operator: OperatorProcess) -> Iterator[Manifests]:
    world = Manifests(installed_with_none, account="")
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


def test_the_first_line_of_the_log_names_identity_server_and_profile(operator: OperatorProcess) -> None:
    first = operator.events()[0]
    assert first["event"] == "operator"
    assert first["identity"] == OPERATOR
    assert first["server"].startswith("https://127.0.0.1:")
    assert first["rights"] == "none"
    assert "not with those that were installed" not in operator.log()


def test_a_sync_without_an_account_is_told_what_to_do_and_works_once_it_has_one(
    world: Manifests, operator: OperatorProcess
) -> None:
    world.source()
    target, account = world.namespace("a"), Account(world)
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    sync = world.sync(destinationNamespace=target)
    ready = sync.becomes("AccountRequired")
    assert ready["message"].startswith(
        "set serviceAccountName to an account of this namespace that has the rights, or install with --rights config"
    )
    assert sync.conditions["Stalled"]["status"] == "True"
    sync.change(serviceAccountName=account.name)
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced", synced=1)
    assert operator.is_ready()


def test_everything_that_is_written_is_written_as_an_account(world: Manifests, operator: OperatorProcess) -> None:
    target, account = world.namespace("a"), Account(world)
    for resource in ("secrets", "deployments", "services"):
        account.may(world.home, resource, "get")
        account.may(target, resource, *ALL)
    sources = [world.secret(), world.deployment(), world.service()]
    mark = world.mark()
    sync = world.msync("sync", *sources, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=3)
    copies = [world.find(source.kind, target) for source in sources]
    copies[1].put("spec", "replicas", value=7)
    copies[1].shows("spec", "replicas", value=2)
    copies[0].delete()
    until(copies[0].look, lambda seen: seen is not None)
    sync.change(sourceRefs=[source.ref for source in sources[:2]])
    copies[2].gone()
    sync.delete()
    sync.gone()
    assert [copy.look() for copy in copies] == [None, None, None]
    entries = AuditLog(world.sandbox).entries(OPERATOR, since=mark, until=world.mark())
    written = [one for one in entries if one.changes and one.resource not in OWN]
    assert written
    assert {one.impersonated for one in written} == {account.user}
    assert not [str(one) for one in entries if one.denied]
    assert operator.is_ready()


def test_the_kinds_that_an_application_has_are_watched_and_others_are_told(
    world: Manifests, operator: OperatorProcess
) -> None:
    source = world.make("LimitRange", spec={"limits": []})
    account = Account(world)
    sync = world.msync("sync", source, into=[world.namespace("a")], serviceAccountName=account.name)
    assert sync.becomes("KindNotWatched")["message"].startswith("run `syncline grant --read limitranges`: ")
    assert operator.is_ready()


def test_a_plan_says_that_the_operator_writes_nothing_of_its_own(world: Manifests, syncline: Command) -> None:
    world.source()
    spec = f"{{sourceNamespace: {world.home}, configMapName: app, destinationNamespace: {world.namespace('a')}}}"
    sync = f"{{apiVersion: syncline.dev/v1alpha1, kind: ConfigMapSync, metadata: {{name: sync}}, spec: {spec}}}"
    command = ("plan", "-n", world.home, "-f", "-")
    told = syncline(*command, stdin=sync, code=1, kubeconfig=world.sandbox.kubeconfig)
    assert "AccountRequired: set serviceAccountName to an account of this namespace" in told


def test_an_operator_that_runs_as_somebody_else_says_so(installed_with_none: Sandbox) -> None:
    with OperatorProcess(installed_with_none.kubeconfig) as running:
        first, second = running.events()[:2]
    assert (first["event"], first["identity"], first["rights"]) == ("operator", "admin", "none")
    assert "`syncline run --as-installed`" in second["event"]
