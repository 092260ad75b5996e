from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.kube.cache import Cache, CacheChange, CacheEntry, Key, is_older

KEY = Key("team", "settings")


def test_versions_are_numbers_where_they_can_be() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "9")
    assert not is_older("10", "10")
    assert not is_older("a", "b")
    assert not is_older("b", "a")


def test_what_is_older_or_the_same_is_no_news() -> None:
    cache: Cache[str] = Cache()
    assert cache.observe(KEY, "u", "9", "nine") == CacheChange(KEY, None, "nine")
    assert cache.observe(KEY, "u", "10", "ten") == CacheChange(KEY, "nine", "ten")
    assert cache.observe(KEY, "u", "10", "again") is None
    assert cache.observe(KEY, "u", "9", "nine") is None
    assert cache.get(KEY) == "ten"


def test_versions_without_an_order_are_taken_as_they_come() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "x", "x")
    assert cache.observe(KEY, "u", "x", "x") is None
    assert cache.observe(KEY, "u", "a", "a") == CacheChange(KEY, "x", "a")
    assert cache.vanish(KEY, "u", "b") == CacheChange(KEY, "a", None)


def test_our_own_write_is_known_before_its_echo() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "old")
    cache.observe(KEY, "u", "8", "ours")
    assert cache.get(KEY) == "ours"
    assert cache.observe(KEY, "u", "7", "before ours") is None
    assert cache.observe(KEY, "u", "8", "ours") is None
    assert cache.observe(KEY, "u", "9", "theirs") == CacheChange(KEY, "ours", "theirs")
    cache.observe(KEY, "u", "8", "ours, told late")
    assert cache.get(KEY) == "theirs"


def test_what_we_deleted_stays_gone_while_the_watch_catches_up() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "old")
    cache.vanish(KEY, "u", None)
    assert cache.get(KEY) is None
    assert cache.observe(KEY, "u", "6", "its last change") is None
    assert cache.vanish(KEY, "u", "7") is None
    assert cache.observe(KEY, "v", "8", "a successor") == CacheChange(KEY, None, "a successor")


def test_forgetting_does_not_touch_a_successor() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "v", "8", "a successor")
    cache.vanish(KEY, "u", None)
    assert cache.get(KEY) == "a successor"
    assert cache.observe(KEY, "v", "9", "it lives on") == CacheChange(KEY, "a successor", "it lives on")


def test_the_deletion_of_a_predecessor_is_no_news() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "v", "9", "ours")
    assert cache.vanish(KEY, "u", "8") is None
    assert cache.observe(KEY, "u", "7", "old") is None
    assert cache.get(KEY) == "ours"


def test_a_label_that_we_put_back_outlives_the_news_of_its_loss() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "labelled")
    cache.observe(KEY, "u", "7", "labelled again by us")
    assert cache.vanish(KEY, "u", "6") is None
    assert cache.get(KEY) == "labelled again by us"


def test_what_the_watch_has_seen_go_is_not_brought_back_by_what_happened_before() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "made by us")
    assert cache.vanish(KEY, "u", "6") == CacheChange(KEY, "made by us", None)
    cache.observe(KEY, "u", "5", "the late answer to our write")
    assert cache.observe(KEY, "u", "5", "a replay") is None
    assert cache.get(KEY) is None


def test_an_object_that_left_the_selection_may_come_back() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "labelled")
    cache.vanish(KEY, "u", "6")
    assert cache.observe(KEY, "u", "7", "labelled again") == CacheChange(KEY, None, "labelled again")


def test_an_object_that_was_passed_over_can_be_told_of_later() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", None)
    cache.observe(Key("team", "other"), "o", "6", "other")
    cache.observe(KEY, "u", "5", "wanted by now, and read")
    assert cache.get(KEY) == "wanted by now, and read"


def test_only_so_many_ends_are_remembered() -> None:
    cache: Cache[str] = Cache()
    for number in range(10_000):
        cache.vanish(Key("team", str(number)), "u", str(number))
    assert len(cache._gone) == 4096


def test_nothing_is_held_of_what_is_not_wanted() -> None:
    cache: Cache[str] = Cache()
    assert cache.observe(KEY, "u", "5", None) is None
    cache.observe(KEY, "u", "6", "wanted")
    assert cache.observe(KEY, "u", "7", None) == CacheChange(KEY, "wanted", None)
    assert len(cache) == 0


def test_a_list_tells_what_came_changed_and_went() -> None:
    cache: Cache[str] = Cache()
    same, changed, gone, reborn, new = (Key("team", name) for name in ("same", "changed", "gone", "reborn", "new"))
    for key in (same, changed, gone, reborn):
        cache.observe(key, key.name, "5", "old")
    cache.begin_list()
    listed = {
        same: CacheEntry("same", "5", "old"),
        changed: CacheEntry("changed", "6", "new"),
        reborn: CacheEntry("another", "7", "new"),
        new: CacheEntry("new", "8", "new"),
    }
    assert cache.replace(listed, "9") == [
        CacheChange(gone, "old", None),
        CacheChange(changed, "old", "new"),
        CacheChange(reborn, "old", "new"),
        CacheChange(new, None, "new"),
    ]
    assert dict(cache.items()) == {same: "old", changed: "new", reborn: "new", new: "new"}


def test_a_list_that_missed_our_writes_does_not_undo_them() -> None:
    cache: Cache[str] = Cache()
    made, deleted, untouched = Key("team", "made"), Key("team", "deleted"), Key("team", "untouched")
    for key in (deleted, untouched):
        cache.observe(key, key.name, "5", "old")
    cache.begin_list()
    cache.observe(made, "made", "12", "ours")
    cache.vanish(deleted, "deleted", None)
    listed = {deleted: CacheEntry("deleted", "5", "old"), untouched: CacheEntry("untouched", "5", "old")}
    assert cache.replace(listed, "10") == []
    assert dict(cache.items()) == {made: "ours", untouched: "old"}
    assert cache.observe(deleted, "deleted", "5", "old") is None
    assert cache.vanish(deleted, "deleted", "13") is None


def test_a_list_taken_after_our_writes_is_the_truth_about_them() -> None:
    cache: Cache[str] = Cache()
    key = Key("team", "made")
    cache.begin_list()
    cache.observe(key, "made", "8", "ours")
    assert cache.replace({}, "10") == [CacheChange(key, "ours", None)], "somebody deleted it between 8 and 10"


def test_a_list_from_a_restored_backup_is_the_truth_although_it_is_older() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "500", "lost with the disk")
    cache.begin_list()
    assert cache.replace({KEY: CacheEntry("u", "90", "restored")}, "100") == [
        CacheChange(KEY, "lost with the disk", "restored")
    ]
    assert cache.observe(KEY, "u", "101", "new life") == CacheChange(KEY, "restored", "new life")


class Life:
    """The true history of one object: what it was at each version, for a cache that hears of it in any order."""

    def __init__(self, states: list[bool]) -> None:
        self.history: list[tuple[str, str, str | None]] = []
        uid = 0
        for version, alive in enumerate(states, start=1):
            was_alive = bool(self.history) and self.history[-1][2] is not None
            uid += alive and not was_alive
            if alive or was_alive:
                self.history.append((str(uid), str(version), f"state {version}" if alive else None))


@settings(deadline=None)
@given(st.data(), st.lists(st.booleans(), min_size=1, max_size=12))
def test_notes_and_replays_in_between_never_change_where_a_watch_ends(data: st.DataObject, states: list[bool]) -> None:
    """Our own writes are noted at any moment from when they happened; old events come again. The end is the truth."""
    history = Life(states).history
    cache: Cache[str] = Cache()
    for index, (uid, version, value) in enumerate(history):
        for other_uid, other_version, other_value in data.draw(
            st.lists(st.sampled_from(history[: index + 1]), max_size=3)
        ):
            if (other_value is not None and data.draw(st.booleans())) or other_value is not None:
                cache.observe(KEY, other_uid, other_version, other_value)
        if value is None:
            cache.vanish(KEY, uid, version)
            assert cache.get(KEY) is None
        else:
            cache.observe(KEY, uid, version, value)
            assert cache.get(KEY) == value


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.booleans()), max_size=30))
def test_what_is_told_adds_up_to_what_is_held(events: list[tuple[str, int, bool]]) -> None:
    """Whoever applies all changes to an empty dict ends with what the cache holds."""
    cache: Cache[str] = Cache()
    told: dict[Key, str] = {}
    for name, version, alive in events:
        key = Key("", name)
        if alive:
            change = cache.observe(key, name, str(version), f"{name}{version}")
        else:
            change = cache.vanish(key, name, str(version))
        if change:
            assert told.get(key) == change.old
            if change.new is None:
                del told[key]
            else:
                told[key] = change.new
    assert told == dict(cache.items())


def test_only_a_deletion_that_a_watch_tells_is_known_as_one() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "here")
    assert not cache.has_told_end(KEY, "u")
    cache.vanish(KEY, "u", "9")
    assert cache.has_told_end(KEY, "u")
    assert not cache.has_told_end(KEY, "another")
    cache.replace({}, "20")
    assert cache.has_told_end(KEY, "u"), "a list without it changes nothing"
    cache.observe(KEY, "v", "21", "back")
    assert not cache.has_told_end(KEY, "u")


def test_an_object_that_a_list_does_not_have_was_not_told_to_be_deleted() -> None:
    """As in a cluster that was restored from a backup, which never had the object."""
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "here")
    cache.replace({}, "20")
    assert cache.get(KEY) is None
    assert not cache.has_told_end(KEY, "u")


def test_what_we_have_deleted_ourselves_was_not_told_to_be_deleted() -> None:
    cache: Cache[str] = Cache()
    cache.observe(KEY, "u", "5", "here")
    cache.vanish(KEY, "u", None)
    cache.vanish(KEY, "u", "9")
    assert not cache.has_told_end(KEY, "u")


_moves = st.lists(st.tuples(st.sampled_from(["observe", "amend", "vanish", "list"]), st.integers(0, 5)), max_size=40)


@given(moves=_moves, at=st.integers(0, 40))
def test_what_has_changed_since_a_position_is_known(moves: list[tuple[str, int]], at: int) -> None:
    cache: Cache[str] = Cache()
    position, before = 0, dict(cache.items())
    for number, (move, one) in enumerate(moves):
        if number == at:
            position, before = cache.changes.position, dict(cache.items())
        key, version = Key("team", str(one)), str(number + 1)
        held = cache.entry(key)
        if move == "observe":
            cache.observe(key, "u", version, f"v{number}")
        elif move == "amend" and held is not None:
            cache.amend(key, held.uid, held.version, f"v{number}")
        elif move == "vanish":
            cache.vanish(key, "u", version)
        elif move == "list":
            cache.begin_list()
            cache.replace({key: CacheEntry("u", version, f"v{number}")}, version)
    now, since = dict(cache.items()), cache.changes.since(position)
    differ = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    assert since is not None
    assert differ <= set(since)
    assert len(since) == len(set(since))


def test_changes_that_are_too_many_to_remember_are_not_known() -> None:
    cache: Cache[str] = Cache()
    early = cache.changes.position
    for number in range(1000):
        cache.observe(Key("team", str(number)), "u", "1", "new")
    late = cache.changes.position
    cache.observe(KEY, "u", "1", "new")
    assert cache.changes.since(early) is None
    assert cache.changes.since(late) == [KEY]
    assert cache.changes.since(cache.changes.position) == []
