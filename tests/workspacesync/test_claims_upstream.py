"""Who may not write an upstream object keeps nobody else from writing it."""

import pytest
from tests.configmapsync.world import until
from tests.fleet.world import Remote
from tests.workspacesync.world import Workspaces, report, resource

from syncline.sandbox import Sandbox

BOTH = resource("configmaps", direction="Bidirectional")
READER = "reader"
WITH_READER = {"connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": READER}}}


@pytest.fixture
def reader(sandbox: Sandbox) -> Remote:
    """A credential for the upstream that may only read there."""
    remote = Remote(sandbox)
    remote.allow(groups=("*",), read=("*",))
    return remote


def test_an_older_sync_that_may_only_read_the_upstream_keeps_nobody_from_writing_there(
    wide: Workspaces, reader: Remote
) -> None:
    wide.credential(READER, reader)
    namespace = wide.above("shop")
    source = wide.data(namespace)
    mallory = wide.wsync("mallory", BOTH, to=["east"], conflictStrategy="MergeChanges", upstream=WITH_READER)
    mallory.is_ready()
    victim = wide.wsync("victim", BOTH, to=["west"], conflictStrategy="MergeChanges")
    victim.is_ready()
    west = wide.down("ConfigMap", namespace, at="west")
    west.put("data", "colour", value="western")
    source.holds_data(colour="western")
    wide.down("ConfigMap", namespace).holds_data(colour="western")


def test_an_older_sync_that_may_not_write_statuses_and_never_tries_keeps_nobody_from_writing_them(
    wide: Workspaces, reader: Remote
) -> None:
    wide.credential(READER, reader)
    for cluster in (wide.upstream, *wide.clusters.values()):
        wide.define_widgets(cluster)
    namespace = wide.above("shop")
    source = wide.widget(namespace, size=1)
    mallory = wide.wsync("mallory", wide.widgets(), to=["east"], statusSync=True, upstream=WITH_READER)
    wide.down("Widget", namespace).appears()
    until(lambda: mallory.conditions.get("Ready", {}).get("status"), bool)
    victim = wide.wsync("victim", wide.widgets(), to=["west"], statusSync=True)
    west = wide.down("Widget", namespace, at="west")
    west.appears()
    report(west, phase="Western")
    source.shows("status", "phase", value="Western")
    victim.is_ready()


def test_a_sync_whose_credential_was_revoked_keeps_nobody_from_writing_upstream(
    wide: Workspaces, sandbox: Sandbox
) -> None:
    former = Remote(sandbox)
    former.allow("*", groups=("*",))
    wide.credential(READER, former)
    namespace = wide.above("shop")
    source = wide.data(namespace)
    mallory = wide.wsync("mallory", BOTH, to=["east"], conflictStrategy="MergeChanges", upstream=WITH_READER)
    mallory.is_ready()
    victim = wide.wsync("victim", BOTH, to=["west"], conflictStrategy="MergeChanges")
    victim.tells_of("mallory")
    former.allow()
    wide.keep_credential(READER, {})
    mallory.has_trouble("upstream")
    west = wide.down("ConfigMap", namespace, at="west")
    west.put("data", "colour", value="western")
    source.holds_data(colour="western")
