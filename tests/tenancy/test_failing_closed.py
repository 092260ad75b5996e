"""Without the policies that check authors, nobody borrows the operator's rights: not meanwhile, and not afterwards."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import Json, Thing, until
from tests.manifestsync.world import Manifests, ManifestSync
from tests.tenancy.accounts import ALL, Account, is_allowed
from tests.tenancy.mallory import ADMISSION, POLICY, Mallory, is_younger

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.faults import Asked, Fault
from syncline.testing.operator import OperatorProcess, install
from syncline.testing.proxy import FaultProxy

TARGET_POLICY = "synctargets-authors.syncline.dev"


@pytest.fixture
def operator(arena: Sandbox, quiet: Path) -> Iterator[OperatorProcess]:
    """An operator of this test's own; the policies are put right afterwards."""
    with OperatorProcess(quiet) as running:
        yield running
    install(arena)


@pytest.fixture
def binding(arena: Sandbox) -> Thing:
    return Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", POLICY)


def readiness(operator: OperatorProcess) -> tuple[int, str]:
    return operator.get("health", "/readyz")


@pytest.mark.own_rights
def test_whoever_writes_a_sync_while_the_binding_is_gone_copies_nothing(
    arena: Sandbox, alone: Manifests, operator: OperatorProcess, binding: Thing
) -> None:
    victim, target = alone.namespaces("victim", "target")
    secret = alone.secret("db", namespace=victim)
    source = alone.secret("shared")
    admins = alone.msync("admins", source, into=[target])
    admins.becomes("Synced", synced=1)
    mallory = Mallory(alone)
    until(lambda: mallory.steal(victim, secret.name), lambda told: "may not get" in told or "may not read" in told)

    binding.delete()
    until(lambda: mallory.steal(victim, secret.name), lambda told: not told)
    theft = ManifestSync(arena, mallory.namespace, "theft")
    told = theft.becomes("AuthorUnchecked")["message"]
    assert told.startswith("run `syncline install` of this version: the ValidatingAdmissionPolicyBinding")
    theft.tells("AuthorUnchecked")
    stolen = alone.find("Secret", mallory.namespace, secret.name)
    assert stolen.look() is None
    status, text = readiness(operator)
    assert status == 503
    assert (
        f"[-] policies: run `syncline install` of this version: the ValidatingAdmissionPolicyBinding {POLICY}" in text
    )

    # What was checked before waits too, and its copies stay as they are.
    admins.becomes("PolicyMissing")
    admins.tells("PolicyMissing")
    copy = alone.find("Secret", target, "shared")
    before = copy.version
    source.keep(password="changed-meanwhile-1")
    robot = Account(alone)
    robot.may(alone.home, "secrets", "get")
    robot.may(target, "secrets", *ALL)
    own = alone.msync("own", alone.secret("mine"), into=[target], serviceAccountName=robot.name)
    own.becomes("Synced", synced=1)  # with an account, the API server checks every step
    assert copy.version == before

    install(arena)
    admins.becomes("Synced", synced=1)
    copy.holds(password="changed-meanwhile-1")
    until(lambda: readiness(operator), lambda answer: answer == (200, "ok\n"))
    assert "nobody has checked" in theft.becomes("AuthorUnchecked")["message"]
    assert stolen.look() is None

    # Who may not do it cannot have it done by writing it again; who may, can.
    until(lambda: mallory.edit(theft), lambda told: " 403 " in told)
    theft.change(suspend=True)
    theft.becomes("Suspended")
    theft.change(suspend=False)
    theft.becomes("Synced", synced=1)
    theft.delete()
    theft.gone()
    robot.end()


def test_a_sync_from_a_time_without_policies_is_not_carried_out_by_an_operator_that_starts_later(
    arena: Sandbox, alone: Manifests, quiet: Path, binding: Thing
) -> None:
    victim = alone.namespace("victim")
    secret = alone.secret("db", namespace=victim)
    mallory = Mallory(alone)
    binding.delete()
    try:
        until(lambda: mallory.steal(victim, secret.name), lambda told: not told)
        theft = ManifestSync(arena, mallory.namespace, "theft")
        created = theft.read()["metadata"]["creationTimestamp"]
        until(lambda: is_younger(arena, created), bool)
        with OperatorProcess(quiet):
            theft.becomes("AuthorUnchecked")
        with OperatorProcess(quiet):  # it still knows after a restart
            # It claims nothing either, though it is the older one.
            own = alone.secret(secret.name, password="their own")
            alone.msync("rightful", own, into=[mallory.namespace]).becomes("Synced", synced=1)
            theft.becomes("AuthorUnchecked")
        alone.find("Secret", mallory.namespace, secret.name).holds(password="their own")
        theft.delete()
        theft.gone()
    finally:
        install(arena)


@pytest.mark.own_rights
def test_a_sync_that_was_edited_while_neither_policies_nor_an_operator_were_there_copies_nothing(
    arena: Sandbox, alone: Manifests, quiet: Path, binding: Thing
) -> None:
    mallory, victim = Mallory(alone), alone.namespace("victim")
    secret = alone.secret("db", namespace=victim, password="theirs")
    alone.secret("db", namespace=mallory.namespace, password="hers")
    until(lambda: mallory.steal(mallory.namespace, secret.name, "copy"), lambda told: not told)
    theft = ManifestSync(arena, mallory.namespace, "theft")
    copy = alone.find("Secret", mallory.namespace, "copy")
    with OperatorProcess(quiet):
        theft.becomes("Synced", synced=1)
    try:
        binding.delete()
        until(lambda: mallory.edit(theft, namespace=victim), lambda told: not told)
        edited = theft.read()["metadata"]["managedFields"][-1]["time"]
        until(lambda: is_younger(arena, edited), bool)
        with OperatorProcess(quiet):
            theft.becomes("AuthorUnchecked")
            copy.holds(password="hers")
            # Whoever may have it written again is checked now.
            until(lambda: mallory.edit(theft), lambda told: " 403 " in told)
            assert not mallory.edit(theft, namespace=mallory.namespace)
            theft.becomes("Synced", synced=1)
            theft.delete()
            theft.gone()
    finally:
        install(arena)


@pytest.mark.own_rights
def test_a_sync_that_was_deleted_while_neither_policies_nor_an_operator_were_there_leaves_its_copies(
    arena: Sandbox, alone: Manifests, quiet: Path
) -> None:
    targets = alone.namespaces("a", "b")
    before, after = (alone.msync(name, alone.secret(name), into=targets) for name in ("before", "after"))
    with OperatorProcess(quiet):
        for sync in (before, after):
            sync.becomes("Synced", synced=2)
    removers = Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", "manifestsyncs-removers.syncline.dev")
    try:
        removers.delete()
        before.delete()
        deleted = before.read()["metadata"]["deletionTimestamp"]
        until(lambda: is_younger(arena, deleted, removers), bool)
        made = removers.read()["metadata"]["creationTimestamp"]
        until(lambda: _is_deleted_after(after, made), bool)
        with OperatorProcess(quiet):
            for sync in (before, after):
                sync.gone()
    finally:
        install(arena)
    assert [alone.find("Secret", target, "before").look() is not None for target in targets] == [True, True]
    assert [alone.find("Secret", target, "after").look() is not None for target in targets] == [False, False]


def _is_deleted_after(sync: ManifestSync, made: str) -> bool:
    """Delete a sync in a later second than something was made: the time of a dry run tells which one it is."""
    folder, _, _ = sync.path.rpartition("/")
    spec = {key: value for key, value in sync.read().items() if key in ("apiVersion", "kind", "spec")}
    tried = sync.sandbox.request("POST", f"{folder}?dryRun=All", {**spec, "metadata": {"name": "clock"}})
    if tried["metadata"]["creationTimestamp"] <= made:
        return False
    sync.delete()
    return True


WEAKENED: dict[str, tuple[str, Callable[[Json], object]]] = {
    "it only warns": ("validatingadmissionpolicybindings", lambda spec: spec.update(validationActions=["Warn"])),
    "it is for some namespaces": (
        "validatingadmissionpolicybindings",
        lambda spec: spec.update(matchResources={"namespaceSelector": {"matchLabels": {"checked": "true"}}}),
    ),
    "it lets pass what it cannot decide": (
        "validatingadmissionpolicies",
        lambda spec: spec.update(failurePolicy="Ignore"),
    ),
    "it checks less": ("validatingadmissionpolicies", lambda spec: spec["validations"].pop()),
}


@pytest.mark.own_rights
@pytest.mark.parametrize(("plural", "change"), WEAKENED.values(), ids=WEAKENED)
def test_a_policy_that_was_weakened_counts_as_missing(
    arena: Sandbox, alone: Manifests, operator: OperatorProcess, plural: str, change: Callable[[Json], object]
) -> None:
    target = alone.namespace("target")
    sync = alone.msync("sync", alone.secret(), into=[target])
    sync.becomes("Synced", synced=1)
    weakened = Thing(arena, f"{ADMISSION}/{plural}", POLICY)
    weakened.edit(lambda body: change(body["spec"]))
    try:
        assert sync.becomes("PolicyMissing")["message"].startswith("delete the ValidatingAdmissionPolicy")
        assert readiness(operator)[0] == 503
    finally:
        weakened.delete()  # as the message says: applying would keep what others have written
        install(arena)
    sync.becomes("Synced", synced=1)


@pytest.mark.own_rights
def test_whoever_deletes_a_sync_while_the_binding_is_gone_deletes_no_copy(
    arena: Sandbox, alone: Manifests, operator: OperatorProcess, binding: Thing
) -> None:
    target = alone.namespace("target")
    sync = alone.msync("sync", alone.secret(), into=[target])
    sync.becomes("Synced", synced=1)
    binding.delete()
    sync.becomes("PolicyMissing")
    sync.delete()
    sync.gone()
    assert "were left where they are" in sync.tells("CopiesLeft")["note"]
    install(arena)
    until(lambda: readiness(operator), lambda answer: answer[0] == 200)
    assert alone.find("Secret", target).look() is not None


class Carol:
    """Somebody who may write SyncTargets at home, and read no Secret there."""

    def __init__(self, world: Manifests) -> None:
        self._sandbox, self._account, self._home = world.sandbox, Account(world, "carol"), world.home
        self._account.may(world.home, "synctargets", "get", "create")
        self._token = world.sandbox.service_account_token(world.home, self._account.name)
        self._folder = f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets"
        self._secret = world.secret("prod-token", token="somebody else's").name
        self.trap = Thing(world.sandbox, self._folder, "trap")

    def set_trap(self) -> str:
        """Have a token sent to her server; return what the API server says, or nothing where it agrees."""
        connection = {
            "type": "ServiceAccountToken",
            "serviceAccountTokenRef": {"name": self._secret},
            "server": "https://192.0.2.1",
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "SyncTarget",
            "metadata": {"name": "trap"},
            "spec": {"connection": connection},
        }
        try:
            self._sandbox.request("POST", self._folder, body, token=self._token)
        except RequestError as refusal:
            return str(refusal)
        return ""

    def say_that_it_was_checked(self) -> None:
        """Write the status that the operator writes about a SyncTarget that it uses."""
        self._account.may(self._home, "synctargets/status", "patch")
        body = self.trap.read()
        said = {"type": "Ready", "status": "Unknown", "reason": "Unreachable", "message": "no answer"}
        ready = {**said, "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
        status = {"observedGeneration": body["metadata"]["generation"], "conditions": [ready]}
        head = {"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": {"name": "trap"}}
        path = f"{self.trap.path}/status?fieldManager=carol&force=true"
        self._sandbox.request("PATCH", path, {**head, "status": status}, token=self._token)

    def end(self) -> None:
        self.trap.delete()
        self._account.end()


def test_whoever_names_a_credential_while_the_binding_is_gone_has_it_sent_nowhere(
    arena: Sandbox, alone: Manifests, operator: OperatorProcess
) -> None:
    carol = Carol(alone)
    until(carol.set_trap, lambda told: "you may not" in told)
    Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", TARGET_POLICY).delete()
    until(carol.set_trap, lambda told: not told)
    until(lambda: _ready(carol.trap), lambda ready: ready.get("reason") == "AuthorUnchecked")
    install(arena)
    until(lambda: readiness(operator), lambda answer: answer[0] == 200)
    assert _ready(carol.trap)["reason"] == "AuthorUnchecked"
    carol.trap.edit(lambda target: target["spec"].update(unschedulable=True))
    until(lambda: _ready(carol.trap), lambda ready: ready.get("reason") not in ("AuthorUnchecked", None))
    carol.end()


def test_whoever_is_faster_than_the_news_that_the_binding_is_gone_gains_nothing(
    arena: Sandbox, alone: Manifests, quiet: Path, binding: Thing
) -> None:
    victim = alone.namespace("victim")
    secret = alone.secret("db", namespace=victim)
    mallory, carol = Mallory(alone), Carol(alone)
    with FaultProxy(arena) as proxy, OperatorProcess(proxy.kubeconfig(quiet)) as operator:
        silence = proxy.inject(Fault(silent=True), when=_watches_bindings)
        try:
            binding.delete()
            Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", TARGET_POLICY).delete()
            until(lambda: mallory.steal(victim, secret.name), lambda told: not told)
            until(carol.set_trap, lambda told: not told)
            for policy in (POLICY, TARGET_POLICY):
                changing = f"the ValidatingAdmissionPolicyBinding {policy} is being changed"
                until(operator.log, lambda text: changing in text)  # noqa: B023 - it is asked at once
            theft = ManifestSync(arena, mallory.namespace, "theft")
            stolen = alone.find("Secret", mallory.namespace, secret.name)
            assert stolen.look() is None
            assert not _ready(carol.trap)

            silence.lift()
            proxy.cut_watches()
            theft.becomes("AuthorUnchecked")
            until(lambda: _ready(carol.trap), lambda ready: ready.get("reason") == "AuthorUnchecked")
            assert stolen.look() is None
            theft.delete()
            theft.gone()
        finally:
            install(arena)
    carol.end()


def test_whoever_names_a_credential_without_policies_and_forges_the_status_of_the_synctarget_has_it_sent_nowhere(
    arena: Sandbox, alone: Manifests, quiet: Path
) -> None:
    carol, binding = Carol(alone), Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", TARGET_POLICY)
    binding.delete()
    try:
        until(carol.set_trap, lambda told: not told)
        carol.say_that_it_was_checked()
        created = carol.trap.read()["metadata"]["creationTimestamp"]
        until(lambda: is_younger(arena, created, binding), bool)
    finally:
        install(arena)
    with OperatorProcess(quiet):
        until(lambda: _ready(carol.trap), lambda ready: ready.get("reason") == "AuthorUnchecked")
    with OperatorProcess(quiet):
        until(lambda: carol.trap.read()["status"].get("proof"), bool)
        assert _ready(carol.trap)["reason"] == "AuthorUnchecked"
    carol.end()


def _watches_bindings(asked: Asked) -> bool:
    return asked.verb == "watch" and asked.resource == "validatingadmissionpolicybindings"


def _ready(target: Thing) -> Json:
    conditions = (target.read().get("status") or {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})


def test_authors_may_go_unchecked_if_the_operator_is_told_so(
    arena: Sandbox, alone: Manifests, quiet: Path, binding: Thing
) -> None:
    binding.delete()
    try:
        with OperatorProcess(quiet, "--allow-unchecked-authors") as operator:
            sync = alone.msync("sync", alone.secret(), into=[alone.namespace("target")])
            sync.becomes("Synced", synced=1)
            assert "--allow-unchecked-authors" in operator.log()
            assert "syncline_authors_unchecked 1.0" in operator.get("metrics", "/metrics")[1]
            sync.delete()
            sync.gone()
    finally:
        install(arena)


def test_the_policies_that_are_shipped_say_which_version_they_are_of() -> None:
    assert {manifest["metadata"]["labels"]["app.kubernetes.io/version"] for manifest in deploy.policy()} == {"0.1.0"}


def test_a_right_that_the_operator_lacks_is_told_by_readyz_until_it_is_given(arena: Sandbox, quiet: Path) -> None:
    role = Thing(arena, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "syncline-core")
    role.edit(lambda body: body.update(rules=[one for one in body["rules"] if "impersonate" not in one["verbs"]]))
    lacking = "[-] rights: run `syncline install` of this version: the operator may not impersonate serviceaccounts"
    try:
        until(lambda: _may_impersonate(arena), lambda allowed: not allowed)
        with OperatorProcess(quiet, wait=False) as operator:
            until(lambda: readiness(operator), lambda answer: answer[0] == 503 and lacking in answer[1])
            install(arena)
            until(lambda: readiness(operator), lambda answer: answer == (200, "ok\n"))
    finally:
        install(arena)


def _may_impersonate(arena: Sandbox) -> bool:
    return is_allowed(arena, f"system:serviceaccount:{deploy.NAMESPACE}:syncline", "", "serviceaccounts", "impersonate")
