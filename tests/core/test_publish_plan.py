"""What a publish does, over all that can be in a folder: nothing foreign is deleted, and it converges."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.sampling import thorough

from syncline.core.publish_plan import LiveFile, ManagedFile, PublishPlan, PublishRules, WantedFile, plan_publish

PATHS = ("a", "b", "d/a", "d/resource.json", "d/e/f", "x/y")
HASHES = ("1", "2", "3")

hashes = st.sampled_from(HASHES)
wanteds = st.dictionaries(
    st.sampled_from(PATHS),
    st.builds(lambda one, run: WantedFile("", "", "", one, executable=run), hashes, st.booleans()),
)
manageds = st.dictionaries(
    st.sampled_from(PATHS),
    st.builds(lambda one, place: ManagedFile(one, "", place, "", ""), hashes, st.sampled_from(("", "d"))),
)
lives = st.dictionaries(
    st.sampled_from(PATHS),
    st.one_of(
        st.builds(lambda one, run: LiveFile("file", one, run), hashes, st.booleans()),
        st.sampled_from((LiveFile("link"), LiveFile("folder"), LiveFile("other"))),
    ),
)
ruleses = st.builds(
    PublishRules,
    drift=st.sampled_from(("Correct", "Report")),
    missing=st.frozensets(st.sampled_from(("", "d"))),
    left=st.frozensets(st.sampled_from(PATHS), max_size=2),
)
worlds = st.tuples(wanteds, manageds, lives, ruleses)
World = tuple[Mapping[str, WantedFile], Mapping[str, ManagedFile], Mapping[str, LiveFile], PublishRules]


def carried_out(world: World, plan: PublishPlan) -> World:
    """Return the world after a publish."""
    wanted, managed, live, rules = world
    deleted = {*plan.first, *plan.deletes}
    after = {path: found for path, found in live.items() if path not in deleted}
    after |= {path: LiveFile("file", wanted[path].hash, wanted[path].executable) for path in plan.writes}
    after |= {path: replace(after[path], executable=wanted[path].executable) for path in plan.modes}
    unwritten = {*plan.left, *plan.waiting}
    entries = {path: managed[path] for path in {*plan.retained, *(unwritten & managed.keys())}}
    entries |= {path: ManagedFile(one.hash, "", "", "", "") for path, one in wanted.items() if path not in unwritten}
    return wanted, entries, after, rules


@given(worlds)
@thorough
def test_only_managed_files_that_are_not_wanted_are_deleted(world: World) -> None:
    wanted, managed, live, rules = world
    plan = plan_publish(wanted, managed, live, rules)
    for path in (*plan.first, *plan.deletes):
        assert path in managed
        assert path not in wanted
        assert live[path].kind in ("file", "link")
        assert managed[path].destination not in rules.missing


@given(worlds)
@thorough
def test_what_somebody_else_wrote_is_kept_before_it_goes(world: World) -> None:
    wanted, managed, live, rules = world
    plan = plan_publish(wanted, managed, live, rules)
    for path in (*plan.first, *plan.writes, *plan.deletes):
        found = live.get(path)
        if found is not None and found.kind in ("file", "link"):
            ours = path in managed and found.hash == managed[path].hash
            assert (path in plan.kept) is not ours


@given(worlds)
@thorough
def test_a_second_publish_has_nothing_to_do(world: World) -> None:
    plan = plan_publish(*world)
    if plan.blocked:
        return
    again = plan_publish(*carried_out(world, plan))
    assert not again.changes
    assert again.taken == ()


@given(worlds)
@thorough
def test_every_wanted_file_is_there_afterwards_unless_it_is_said_why_not(world: World) -> None:
    plan = plan_publish(*world)
    if plan.blocked:
        return
    wanted, _, after, _ = carried_out(world, plan)
    for path, one in wanted.items():
        if path not in plan.left and path not in plan.waiting:
            assert after[path] == LiveFile("file", one.hash, one.executable)


@given(worlds)
@thorough
def test_a_resource_file_is_written_after_the_others_of_its_folder(world: World) -> None:
    writes = plan_publish(*world).writes
    if "d/resource.json" in writes and "d/a" in writes:
        assert writes.index("d/a") < writes.index("d/resource.json")
