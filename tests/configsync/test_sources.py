"""How sources are reached: servers that go away, credentials that change, and whose rights count."""

from collections.abc import Iterator

import pytest
from tests.configsync.world import GitWorld, config_map
from tests.tenancy.accounts import ALL, Account

from syncline.testing.gitserver import GitServer
from syncline.testing.gitssh import SshServer
from syncline.testing.operator import OperatorProcess

TOKEN = "canary-of-a-git-token-1"
OTHER = "canary-of-a-git-token-2"
READ = ("get",)


@pytest.fixture
def account(world: GitWorld) -> Iterator[Account]:
    """An account at home without rights."""
    account = Account(world)
    yield account
    account.end()


def test_while_git_is_away_the_sync_says_so_and_drift_is_still_repaired(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(commit)
    world.server.statuses[world.name] = 503
    sync.now()
    ready = sync.becomes("GitUnreachable")
    assert (ready["status"], sync.conditions["InvalidSource"]["status"]) == ("Unknown", "Unknown")
    assert sync.revision == commit
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    app.holds_data(colour="red")
    app.delete()
    app.holds_data(colour="red")
    later = world.push({"app.yaml": config_map(colour="blue")})
    del world.server.statuses[world.name]
    sync.now()
    sync.at(later)


def test_a_sync_can_be_deleted_while_git_is_away_and_takes_its_objects_along(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map()})
    sync = world.csync()
    sync.at(commit)
    world.server.statuses[world.name] = 503
    sync.now()
    sync.becomes("GitUnreachable")
    sync.delete()
    sync.gone()
    assert world.find("ConfigMap", world.home).look() is None


def test_an_outage_does_not_keep_a_rollback_from_what_was_read_before(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(first)
    second = world.push({"app.yaml": config_map(colour="blue")})
    sync.now()
    sync.at(second)
    world.server.statuses[world.name] = 503
    sync.change(rollback={"to": "Previous"})
    world.find("ConfigMap", world.home).holds_data(colour="red")
    sync.holds_at("RolledBack", first)


def test_a_wrong_credential_is_told_and_a_right_one_is_taken_up_at_once(world: GitWorld) -> None:
    world.server.require_basic(world.name, "robot", TOKEN)
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync(git={"auth": {"type": "Basic", "secretRef": {"name": "login"}}})
    assert "login" in sync.becomes("ReferenceNotFound")["message"]
    login = world.secret("login", username="robot", password="canary-of-a-wrong-password")
    assert sync.becomes("AuthenticationFailed")["status"] == "False"
    login.keep(password=TOKEN)
    sync.at(commit)
    world.server.require_basic(world.name, "robot", OTHER)
    later = world.push({"app.yaml": config_map(colour="blue")})
    sync.now()
    sync.becomes("AuthenticationFailed")
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "red"}
    login.keep(password=OTHER)
    sync.at(later)


def test_a_secret_that_lacks_a_key_is_told_by_the_name_of_the_key(world: GitWorld) -> None:
    world.push({"app.yaml": config_map()})
    world.secret("login", wrong="canary-under-a-wrong-key")
    sync = world.csync(git={"auth": {"type": "Token", "secretRef": {"name": "login"}}})
    assert "token" in sync.becomes("CredentialError")["message"]
    assert sync.conditions["Stalled"]["status"] == "True"


def test_a_server_of_an_unknown_authority_is_not_trusted_until_it_is_named(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map()})
    sync = world.csync(git={"caSecretRef": None})
    assert "ca.crt" in sync.becomes("CertificateUntrusted")["message"]
    sync.change(source=world.git())
    sync.at(commit)


@pytest.fixture(scope="module")
def ssh_server(git_server: GitServer) -> Iterator[SshServer]:
    """The same repositories over ssh."""
    with SshServer(git_server.folder) as server:
        yield server


def test_a_repository_is_read_over_ssh_from_a_known_host_only(world: GitWorld, ssh_server: SshServer) -> None:
    commit = world.push({"app.yaml": config_map()})
    identity = ssh_server.identity.decode()
    stranger = "other.example.com " + ssh_server.known_hosts.decode().split(" ", 1)[1].split("\n")[0]
    key = world.secret("key", identity=identity, known_hosts=stranger)
    auth = {"type": "SSH", "secretRef": {"name": "key"}}
    sync = world.csync(source={"git": {"repo": ssh_server.url(world.name), "auth": auth}})
    sync.becomes("HostKeyUnknown")
    key.keep(known_hosts=ssh_server.known_hosts.decode())
    sync.at(commit)


def test_everything_is_read_and_written_as_the_account_of_the_sync(world: GitWorld, account: Account) -> None:
    values = world.put(world.home, "values", **{"values.yaml": "colour: red\n"})
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {colour: '{{ colour }}'}\n"
    commit = world.push({"app.yaml": text})
    account.may(world.home, "secrets", *READ)
    sync = world.csync(serviceAccountName=account.name, template={"enabled": True, "valuesFrom": [{"name": "values"}]})
    ready = sync.becomes("ReferenceUnreadable")
    assert account.user in ready["message"]
    account.may(world.home, "configmaps", "get")
    sync.now()
    ready = sync.becomes("Forbidden", failed=1)
    assert account.user in ready["message"]
    account.may(world.home, "configmaps", *ALL)
    mark = world.mark()
    sync.now()
    sync.at(commit)
    wrote = [entry for entry in world.requests(mark) if entry.changes and entry.resource == "configmaps"]
    assert {entry.impersonated for entry in wrote} == {account.user}
    values.set(**{"values.yaml": "colour: blue\n"})
    world.find("ConfigMap", world.home).holds_data(colour="blue")


def test_an_account_without_rights_over_secrets_cannot_use_one(world: GitWorld, account: Account) -> None:
    world.server.require_basic(world.name, "robot", TOKEN)
    world.push({"app.yaml": config_map()})
    world.secret("login", username="robot", password=TOKEN)
    account.may(world.home, "configmaps", *ALL)
    sync = world.csync(
        serviceAccountName=account.name,
        source={"git": {"repo": world.url, "auth": {"type": "Basic", "secretRef": {"name": "login"}}}},
    )
    assert account.user in sync.becomes("ReferenceUnreadable")["message"]
    assert world.find("ConfigMap", world.home).look() is None


def test_a_reference_is_to_the_namespace_of_the_sync_and_to_no_other(world: GitWorld, account: Account) -> None:
    elsewhere = world.namespace("elsewhere")
    for resource in ("configmaps", "secrets"):
        account.may("", resource, *READ)
    world.put(elsewhere, "values", **{"values.yaml": "a: 1\n"})
    world.push({"app.yaml": config_map()})
    sync = world.csync(serviceAccountName=account.name, template={"enabled": True, "valuesFrom": [{"name": "values"}]})
    assert world.home in sync.becomes("ReferenceNotFound")["message"]


def test_an_account_cannot_reach_beyond_its_namespaces(world: GitWorld, account: Account) -> None:
    closed = world.namespace("closed")
    world.push({"near.yaml": config_map("near"), "far.yaml": config_map("far", closed)})
    account.may(world.home, "secrets", *READ)
    account.may(world.home, "configmaps", *ALL)
    sync = world.csync(serviceAccountName=account.name)
    sync.becomes("Forbidden", synced=1, failed=1)
    assert world.find("ConfigMap", world.home, "near").marked
    assert world.find("ConfigMap", closed, "far").look() is None


def test_no_credential_is_told_to_anybody(world: GitWorld, operator: OperatorProcess) -> None:
    world.server.require_basic(world.name, "robot", TOKEN)
    world.push({"app.yaml": config_map()})
    world.secret("login", username="robot", password=TOKEN)
    sync = world.csync(git={"auth": {"type": "Basic", "secretRef": {"name": "login"}}})
    sync.becomes("Synced", synced=1)
    world.server.statuses[world.name] = 500
    sync.now()
    sync.becomes("GitUnreachable")
    texts = [str(sync.read()), str(sync.events()), operator.log(), operator.get("metrics", "/metrics")[1]]
    assert not [text for text in texts for token in (TOKEN, OTHER) if token in text]
