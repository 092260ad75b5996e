"""Of several syncs that take the status of one upstream object, the oldest writes it."""

from msgspec import structs

from syncline.core.objects import Target
from syncline.engine.status_writers import StatusWriters, place_name
from syncline.kube.config import Connection

OLD, MIDDLE, NEW = (f"WorkspaceSync/fleet/{name}" for name in ("old", "middle", "new"))
WEB, API = (("place", Target("team", name, "Deployment.apps")) for name in ("web", "api"))


class Told:
    """The index, and who was enqueued."""

    def __init__(self) -> None:
        self.refs: list[str] = []
        self.writers = StatusWriters(self.refs.append)

    def taken(self) -> list[str]:
        found, self.refs[:] = sorted(self.refs), []
        return found


def test_the_oldest_writes_and_the_others_know_of_it() -> None:
    told = Told()
    told.writers.put(NEW, "3", frozenset({WEB, API}))
    told.writers.put(OLD, "1", frozenset({WEB}))
    assert told.taken() == [NEW]
    told.writers.put(MIDDLE, "2", frozenset({WEB}))
    assert told.taken() == [NEW]
    assert told.writers.lost(OLD) == {}
    assert told.writers.lost(MIDDLE) == {WEB: OLD}
    assert told.writers.lost(NEW) == {WEB: OLD}


def test_an_object_that_is_taken_no_more_goes_to_the_next() -> None:
    told = Told()
    for ref, created in ((OLD, "1"), (MIDDLE, "2"), (NEW, "3")):
        told.writers.put(ref, created, frozenset({WEB}))
    told.taken()
    told.writers.put(OLD, "1", frozenset({API}))
    assert told.taken() == [MIDDLE, NEW]
    assert told.writers.lost(NEW) == {WEB: MIDDLE}
    told.writers.drop(MIDDLE)
    assert told.taken() == [NEW]
    assert told.writers.lost(NEW) == {}


def test_syncs_of_one_second_have_an_order_too() -> None:
    told = Told()
    told.writers.put(OLD, "1", frozenset({WEB}))
    told.writers.put(NEW, "1", frozenset({WEB}))
    assert (told.writers.lost(OLD), told.writers.lost(NEW)) == ({WEB: NEW}, {})


def test_a_pass_that_changes_nothing_enqueues_nobody_and_the_end_leaves_nothing() -> None:
    told = Told()
    for _ in range(2):
        told.writers.put(OLD, "1", frozenset({WEB}))
        told.writers.put(NEW, "2", frozenset({WEB}))
    assert told.taken() == []
    for ref in (OLD, NEW, NEW):
        told.writers.drop(ref)
    assert (told.writers._claims, told.writers._by_object, told.writers._contested) == ({}, {}, set())


def test_a_server_that_tells_the_uid_of_another_one_is_another_place() -> None:
    """Or a tenant with a server of their own could keep the statuses of others from being written."""
    real = Connection(name="a", server="https://kcp.example:6443/clusters/root:team", ca_pem=b"ca")
    same = structs.replace(real, name="b", server="https://KCP.example:6443/clusters/abc", token="t")
    fakes = [
        structs.replace(real, server="https://evil.example:6443/clusters/root:team"),
        structs.replace(real, ca_pem=b"my own"),
        structs.replace(real, tls_server_name="evil.example"),
    ]
    assert place_name("uid", same) == place_name("uid", real)
    assert place_name("uid", real) not in [place_name("uid", fake) for fake in fakes]
    assert place_name("uid", real) != place_name("another", real)
