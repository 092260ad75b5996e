"""Values of Secrets that are left to others: they survive every write, and everything else becomes the source's."""

from hypothesis import given
from hypothesis import strategies as st
from tests.core.server import ApiServer
from tests.core.strategies import Edit, happen, rarely
from tests.core.world import Sync, want
from tests.sampling import thorough

from syncline.core.objects import Desired, Target
from syncline.core.plan import Policy, Verb

SECRET = Target("team-a", "settings", "Secret")
THEIRS = ("data", "b")
TYPES = ("Opaque", "kubernetes.io/basic-auth", "example.com/own")


@st.composite
def secrets(draw: st.DrawFn) -> Desired:
    return want(
        draw(st.dictionaries(st.sampled_from(("a", "b", "c")), st.sampled_from(("MQ==", "Mg==")))),
        target=SECRET,
        secret_type=draw(st.sampled_from(TYPES)),
        immutable=draw(rarely),
        ignored=(THEIRS,),
    )


@thorough
@given(secrets(), st.sampled_from(("", "MQ==", "Mw==")), rarely, secrets())
def test_a_secret_gets_the_type_of_its_source_and_keeps_the_values_of_others(
    before: Desired, edited: str, frozen: bool, after: Desired
) -> None:
    sync = Sync(ApiServer(), Policy())
    sync.reconcile(before)
    happen(sync.server, SECRET, Edit("set data", "b", edited) if edited else Edit("drop", "b"))
    if frozen:
        happen(sync.server, SECRET, Edit("freeze"))
    theirs = sync.server.objects[SECRET].get("data", {}).get("b")

    sync.reconcile(after)

    stored = sync.server.objects[SECRET]
    assert stored["type"] == after.content.type
    assert stored.get("data", {}).get("b") == theirs
    ours = {key: value for key, value in stored.get("data", {}).items() if key != "b"}
    assert ours == {key: value for key, value in after.content.data.items() if key != "b"}
    assert sync.plan(after)[0].verb is Verb.LEAVE
