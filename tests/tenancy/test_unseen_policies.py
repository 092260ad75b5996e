"""While the API server does not show the policies that check authors, nothing is judged for good."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import Thing, until
from tests.manifestsync.world import Manifests, ManifestSync
from tests.tenancy.mallory import ADMISSION, POLICY, Mallory, is_younger

from syncline.sandbox import Sandbox
from syncline.testing.faults import Asked, Fault, Rule
from syncline.testing.operator import OperatorProcess, install
from syncline.testing.proxy import FaultProxy

pytestmark = pytest.mark.own_rights

REFUSED = "the admission policies cannot be read"
ADMISSION_RESOURCES = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


@pytest.fixture
def proxy(arena: Sandbox) -> Iterator[FaultProxy]:
    with FaultProxy(arena) as proxy:
        yield proxy


def is_about_policies(asked: Asked) -> bool:
    return asked.resource in ADMISSION_RESOURCES


def refuse_policies(proxy: FaultProxy, operator: OperatorProcess | None = None) -> Rule:
    """Refuse to show the policies, as an API server does that has just started; wait until an operator knows."""
    rule = proxy.inject(Fault(status=403), when=is_about_policies)
    if operator is not None:
        proxy.cut_watches()
        until(lambda: {asked.resource for asked in rule.hits}, lambda hit: len(hit) == len(ADMISSION_RESOURCES))
        until(lambda: operator.get("health", "/readyz"), lambda answer: answer[0] == 503 and "may not" in answer[1])
    return rule


def waits(operator: OperatorProcess, sync: ManifestSync, text: str = REFUSED) -> None:
    """Wait until a reconcile of a sync has ended because of the policies."""
    name = sync.path.split("/")[-3] + "/" + sync.name
    until(operator.events, lambda lines: any(one.get("sync") == name and text in one.get("error", "") for one in lines))


def test_a_sync_that_is_written_while_the_api_server_does_not_show_the_policies_is_reconciled_later(
    alone: Manifests, quiet: Path, proxy: FaultProxy
) -> None:
    targets = alone.namespaces("a", "b")
    deleted = alone.msync("deleted", alone.secret("third"), into=targets)
    edited = alone.msync("edited", alone.secret("first"), into=targets[:1])
    with OperatorProcess(proxy.kubeconfig(quiet)) as operator:
        for sync, number in ((edited, 1), (deleted, 2)):
            sync.becomes("Synced", synced=number)
        refused = refuse_policies(proxy, operator)
        created = alone.msync("created", alone.secret("second"), into=targets)
        edited.change(targets={"inCluster": {"namespaces": targets}})
        deleted.delete()
        for sync in (edited, created, deleted):
            waits(operator, sync)
        assert created.read().get("status") is None
        refused.lift()
        for sync in (edited, created):
            sync.becomes("Synced", synced=2)
        deleted.gone()
    for target in targets:
        assert alone.find("Secret", target, "third").look() is None  # and were not left as those of an unknown author


def test_an_operator_that_starts_while_the_policies_are_not_shown_judges_nothing_for_good(
    alone: Manifests, quiet: Path, proxy: FaultProxy
) -> None:
    sync = alone.msync("sync", alone.secret(), into=[alone.namespace("target")])
    refused = refuse_policies(proxy)
    with OperatorProcess(proxy.kubeconfig(quiet), wait=False) as operator:
        waits(operator, sync)
        # A server that has just started refuses for a moment. If it goes on, the user is told, and nothing is final.
        told = sync.becomes("PolicyUnknown")["message"]
        assert told.startswith("run `syncline install` of this version: the operator may not list or watch validating")
        refused.lift()
        sync.becomes("Synced", synced=1)


def test_an_edit_from_a_time_when_the_policy_was_replaced_unseen_copies_nothing(
    arena: Sandbox, alone: Manifests, quiet: Path, proxy: FaultProxy
) -> None:
    mallory, victim = Mallory(alone), alone.namespace("victim")
    secret = alone.secret("db", namespace=victim, password="theirs")
    alone.secret("db", namespace=mallory.namespace, password="hers")
    until(lambda: mallory.steal(mallory.namespace, secret.name, "copy"), lambda told: not told)
    theft = ManifestSync(arena, mallory.namespace, "theft")
    own, target = alone.secret("own"), alone.namespace("target")
    rightful = alone.msync("rightful", own, into=[target])
    binding = Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", POLICY)
    with OperatorProcess(proxy.kubeconfig(quiet)) as operator:
        for sync in (theft, rightful):
            sync.becomes("Synced", synced=1)
        silence = proxy.inject(
            Fault(silent=True), when=lambda asked: asked.verb == "watch" and is_about_policies(asked)
        )
        try:
            binding.delete()
            until(lambda: mallory.edit(theft, namespace=victim), lambda told: not told)
            edited = theft.read()["metadata"]["managedFields"][-1]["time"]
            until(lambda: is_younger(arena, edited), bool)
            waits(operator, theft, f"{POLICY} is being changed")
            # The list that follows tells of the new binding, and nothing of the time between.
            silence.lift()
            proxy.inject(Fault(status=410), when=lambda asked: asked.follows and is_about_policies(asked), times=2)
            proxy.cut_watches()
            theft.becomes("AuthorUnchecked")
            alone.find("Secret", mallory.namespace, "copy").holds(password="hers")
            # A sync that nobody edited meanwhile can be edited as before, once it was looked at again.
            own.keep(password="changed")
            alone.find("Secret", target, "own").holds(password="changed")
            rightful.change(suspend=True)
            rightful.becomes("Suspended")
            theft.delete()
            theft.gone()
        finally:
            install(arena)
