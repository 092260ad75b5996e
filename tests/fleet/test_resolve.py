"""References to clusters lead where they may, and say what to do where they do not."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs
from tests.fleet.forms import AUTHORITY, CANARY, SERVER, encode, kubeconfig, secret

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.api.connection import ClusterConnection, NameRef, SecretKeyRef
from syncline.api.synctarget import SyncTarget, SyncTargetSpec
from syncline.fleet import MemberKey, NotResolved, SecretWire, may_use, resolve, resolve_target, targets_of
from syncline.kube import Forbidden, NotFound

SECRET = ClusterConnection(type="KubeconfigSecret", kubeconfig_secret_ref=SecretKeyRef(name="edge"))
BY_NAME = ClusterConnection(type="SyncTarget", sync_target_ref=NameRef(name="edge"))
FROM_OPS = ClusterConnection(type="SyncTarget", sync_target_ref=NameRef(name="edge"), sync_target_namespace="ops")
BY_LABEL = ClusterConnection(type="SyncTarget", selector=LabelSelector(match_labels={"tier": "edge"}))


class Secrets:
    """Secrets by place; notes what was read."""

    def __init__(self, *wires: SecretWire, forbidden: bool = False) -> None:
        self.read: list[tuple[str, str]] = []
        self._wires = {(wire.metadata.namespace, wire.metadata.name): wire for wire in wires}
        self._forbidden = forbidden

    async def __call__(self, namespace: str, name: str) -> SecretWire:
        self.read.append((namespace, name))
        about = {"verb": "get", "resource": "secrets", "namespace": namespace, "name": name}
        if self._forbidden:
            raise Forbidden(403, "Forbidden", "", **about)  # type: ignore[arg-type]
        if (namespace, name) not in self._wires:
            raise NotFound(404, "NotFound", "", **about)  # type: ignore[arg-type]
        return self._wires[namespace, name]


def target(
    namespace: str = "team-a",
    name: str = "edge",
    *,
    allowed: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    unschedulable: bool = False,
    connection: ClusterConnection = SECRET,
) -> SyncTarget:
    return SyncTarget(
        metadata=ObjectMeta(namespace=namespace, name=name, labels=labels or {"tier": "edge"}),
        spec=SyncTargetSpec(connection=connection, allowed_namespaces=list(allowed), unschedulable=unschedulable),
    )


async def refused(work: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(NotResolved) as caught:
        await work
    assert CANARY not in str(caught.value)
    return caught.value.reason, str(caught.value)


async def test_a_kubeconfig_is_read_from_a_secret_of_the_same_namespace() -> None:
    secrets = Secrets(secret({"value": kubeconfig()}))
    found = await resolve(SECRET, "team-a", read_secret=secrets)
    assert (found.key, found.name) == (MemberKey("team-a", "Secret", "edge"), "edge")
    assert found.credentials.connection.token == CANARY
    assert secrets.read == [("team-a", "edge")]
    assert not found.unschedulable


async def test_different_keys_of_a_secret_are_different_clusters() -> None:
    secrets = Secrets(secret({"one": kubeconfig(), "two": kubeconfig(server="https://two.example.com")}))
    keys = []
    for key in ("one", "two"):
        connection = ClusterConnection(
            type="KubeconfigSecret", kubeconfig_secret_ref=SecretKeyRef(name="edge", key=key)
        )
        keys.append((await resolve(connection, "team-a", read_secret=secrets)).key)
    assert len(set(keys)) == 2
    assert {str(key) for key in keys} == {"Secret team-a/edge"}


async def test_a_token_is_completed_by_what_the_connection_says() -> None:
    secrets = Secrets(secret({"token": CANARY}))
    found = []
    for server in (SERVER, "https://two.example.com"):
        connection = ClusterConnection(
            type="ServiceAccountToken",
            service_account_token_ref=SecretKeyRef(name="edge"),
            server=server,
            ca_data=encode(AUTHORITY.certificate),
        )
        found.append(await resolve(connection, "team-a", read_secret=secrets))
    assert [each.credentials.connection.server for each in found] == [SERVER, "https://two.example.com"]
    assert found[0].credentials.connection.ca_pem == AUTHORITY.certificate
    assert found[0].key != found[1].key


async def test_a_secret_that_is_not_there_is_named() -> None:
    assert await refused(resolve(SECRET, "team-a", read_secret=Secrets())) == (
        "SecretNotFound",
        "there is no Secret team-a/edge: create it",
    )


async def test_what_the_reader_may_not_read_is_not_read_by_another() -> None:
    with pytest.raises(Forbidden):
        await resolve(
            SECRET,
            "team-a",
            read_secret=Secrets(forbidden=True),
            read_target_secret=Secrets(secret({"value": kubeconfig()})),
        )


@pytest.mark.parametrize(
    "connection",
    [
        ClusterConnection(type="KubeconfigSecret"),
        ClusterConnection(type="ServiceAccountToken", server=SERVER),
        ClusterConnection(type="ServiceAccountToken", service_account_token_ref=SecretKeyRef(name="edge")),
        ClusterConnection(type="SyncTarget"),
    ],
)
async def test_a_connection_that_says_too_little_is_refused(connection: ClusterConnection) -> None:
    reason, _ = await refused(resolve(connection, "team-a", read_secret=Secrets()))
    assert reason == "InvalidSpec"


async def test_a_server_on_this_machine_needs_to_be_allowed() -> None:
    secrets = Secrets(secret({"value": kubeconfig(server="https://127.0.0.1:6443")}))
    reason, message = await refused(resolve(SECRET, "team-a", read_secret=secrets))
    assert reason == "InvalidCredentials"
    assert "--allow-loopback" in message
    assert await resolve(SECRET, "team-a", read_secret=secrets, allow_loopback=True)


@pytest.mark.parametrize(
    ("allowed", "namespace", "may"),
    [
        ((), "ops", True),
        ((), "team-a", False),
        (("team-a",), "team-a", True),
        (("team-a",), "team-ab", False),
        (("team-*",), "team-b", True),
        (("team-?",), "team-bc", False),
        (("*",), "anything", True),
        (("other", "team-a"), "team-a", True),
        (("other",), "ops", True),
    ],
)
def test_a_sync_target_says_which_namespaces_may_use_it(allowed: tuple[str, ...], namespace: str, may: bool) -> None:
    assert may_use(target("ops", allowed=allowed), namespace) is may


async def test_a_sync_target_of_the_same_namespace_is_used_by_name() -> None:
    secrets = Secrets(secret({"value": kubeconfig()}))
    found = await resolve(BY_NAME, "team-a", read_secret=secrets, targets=[target(), target(name="other")])
    assert (found.key, found.name) == (MemberKey("team-a", "SyncTarget", "edge"), "edge")
    assert found.target is not None


async def test_a_sync_target_of_a_named_namespace_is_used_where_it_allows_it_and_the_operator_reads_its_secret() -> (
    None
):
    own, operators = Secrets(forbidden=True), Secrets(secret({"value": kubeconfig()}, namespace="ops"))
    found = await resolve(
        FROM_OPS,
        "team-a",
        read_secret=own,
        targets=[target("ops", allowed=("team-*",)), target("more-ops", allowed=("*",)), target("ops", "other")],
        read_target_secret=operators,
    )
    assert found.key == MemberKey("ops", "SyncTarget", "edge")
    assert (own.read, operators.read) == ([], [("ops", "edge")])


@pytest.mark.parametrize("connection", [BY_NAME, BY_LABEL])
def test_a_strangers_sync_target_that_allows_everybody_draws_nobody(connection: ClusterConnection) -> None:
    trap = target("stranger", allowed=("*",))
    assert [each.metadata.namespace for each in targets_of(connection, "team-a", [trap, target()])] == ["team-a"]


async def test_of_a_sync_target_that_may_not_be_used_it_is_not_said_that_it_exists() -> None:
    there = await refused(resolve(FROM_OPS, "team-a", read_secret=Secrets(), targets=[target("ops")]))
    absent = await refused(resolve(FROM_OPS, "team-a", read_secret=Secrets(), targets=[]))
    assert there == absent
    reason, message = there
    assert (reason, message.partition(":")[0]) == (
        *("SyncTargetNotFound", "there is no SyncTarget edge in namespace ops that allows team-a"),
    )
    assert message.endswith("ask its owner to add team-a to its allowedNamespaces")


async def test_whoever_may_read_a_sync_target_is_told_that_it_excludes_them() -> None:
    there = await refused(resolve(FROM_OPS, "team-a", read_secret=Secrets(), targets=[target("ops")], readable=True))
    assert there == (
        "SyncTargetNotAllowed",
        "SyncTarget edge in namespace ops does not allow team-a: add team-a to its allowedNamespaces",
    )
    absent = await refused(resolve(FROM_OPS, "team-a", read_secret=Secrets(), targets=[], readable=True))
    assert absent[0] == "SyncTargetNotFound"


def test_labels_select_all_sync_targets_of_one_namespace_that_may_be_used() -> None:
    targets = [
        target(name="b"),
        target(name="a"),
        target(name="c", labels={"tier": "core"}),
        target("ops", "d", allowed=("team-*",)),
        target("ops", "e"),
    ]
    assert [each.metadata.name for each in targets_of(BY_LABEL, "team-a", targets)] == ["a", "b"]
    elsewhere = structs.replace(BY_LABEL, sync_target_namespace="ops")
    assert [each.metadata.name for each in targets_of(elsewhere, "team-a", targets)] == ["d"]
    assert targets_of(BY_LABEL, "team-z", []) == ()


async def test_a_selector_is_not_one_cluster() -> None:
    reason, _ = await refused(
        resolve(BY_LABEL, "team-a", read_secret=Secrets(), targets=[target(name="a"), target(name="b")])
    )
    assert reason == "SyncTargetAmbiguous"


async def test_an_unschedulable_sync_target_is_found_and_said_to_be_so() -> None:
    secrets = Secrets(secret({"value": kubeconfig()}))
    found = await resolve(BY_NAME, "team-a", read_secret=secrets, targets=[target(unschedulable=True)])
    assert found.unschedulable


@pytest.mark.parametrize(
    "operators",
    [
        Secrets,
        lambda: Secrets(forbidden=True),
        lambda: Secrets(secret({"value": CANARY}, namespace="ops")),
        lambda: Secrets(secret({"value": kubeconfig(server="https://127.0.0.1")}, namespace="ops")),
    ],
)
async def test_what_is_wrong_with_the_secret_of_another_namespace_is_told_only_there(
    operators: Callable[[], Secrets],
) -> None:
    theirs = target("ops", allowed=("team-a",))
    reason, message = await refused(resolve_target(theirs, "team-a", read_secret=operators()))
    assert (reason, message) == (
        "SyncTargetNotReady",
        "SyncTarget edge of namespace ops has no usable credential: see its status",
    )
    with pytest.raises((NotResolved, Forbidden), match="ops"):
        await resolve_target(theirs, "ops", read_secret=operators())


async def test_a_sync_target_does_not_lead_to_another_one() -> None:
    reason, _ = await refused(resolve_target(target(connection=BY_NAME), "team-a", read_secret=Secrets()))
    assert reason == "InvalidSpec"


async def test_a_sync_target_is_never_resolved_for_a_namespace_that_it_does_not_allow() -> None:
    secrets = Secrets(secret({"value": kubeconfig()}, namespace="ops"))
    reason, _ = await refused(resolve_target(target("ops"), "team-a", read_secret=secrets))
    assert (reason, secrets.read) == ("SyncTargetNotFound", [])
