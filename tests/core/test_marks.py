"""Proofs of marks: what we wrote is known as ours, and nothing else is."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from tests.core.server import KEYS
from tests.core.world import CLUSTER, EARLIER, HOME, OTHER, OWNER, here, want
from tests.sampling import quick

from syncline.core.marks import UNCHECKED, UNSIGNED, MarkKeys, Proof, key_id, sync_id
from syncline.core.objects import Marker, Observed
from syncline.core.ownership import MARKER, Marks, Owner, Ownership, must_renew, ownership_of, read_marks, recognise
from syncline.core.plan import Policy, Verb, plan
from syncline.core.prune_plan import plan_prune

OLD, NEW, LOST = b"o" * 32, b"n" * 32, b"l" * 32
MARK = Marker(sync=OWNER.ref, object_id=here(HOME), digest="d", owner=OWNER.label)


def text(marker: Marker = MARK, key: bytes | None = None) -> str:
    return (MarkKeys([key]) if key else KEYS).write(marker)


def read(value: str, keys: MarkKeys = KEYS, *, unsigned: bool = False) -> Marks:
    return read_marks({MARKER: value}, keys, unsigned=unsigned)


def seen(value: str, keys: MarkKeys = KEYS, *, label: str = OWNER.label, unsigned: bool = False) -> Observed:
    marker, claim = read(value, keys, unsigned=unsigned)
    digest = want({"a": "1"}).digest
    return Observed(target=HOME, uid="u", version="1", digest=digest, owner=label, marker=marker, claim=claim)


def with_keys(keys: MarkKeys, owner: Owner = OWNER) -> Owner:
    return structs.replace(owner, keys=keys)


class TestProofs:
    def test_what_we_wrote_is_proven_and_names_its_key(self) -> None:
        assert read(text()) == Marks(marker=structs.replace(MARK, proof=KEYS.current))

    def test_a_marker_is_json_with_the_proof_at_its_end(self) -> None:
        said = msgspec.json.decode(text())
        assert list(said)[-1] == "proof"
        assert said["proof"].startswith(f"{KEYS.current}.")

    @quick
    @given(st.integers(0, 400), st.characters(min_codepoint=32, max_codepoint=126))
    def test_whatever_is_changed_of_it_nothing_is_ours(self, at: int, by: str) -> None:
        value = text()
        at %= len(value)
        changed = value[:at] + by + value[at + 1 :]
        assume(changed != value)
        assert read(changed).marker is None

    @quick
    @given(st.text(max_size=40))
    def test_whatever_is_added_to_it_nothing_is_ours(self, more: str) -> None:
        assume(more)
        assert read(text() + more).marker is None
        assert read(more + text()).marker is None

    @pytest.mark.parametrize("proof", ["", ".", "x", f"{KEYS.current}", f"{KEYS.current}.", f"{KEYS.current}.00"])
    def test_a_proof_that_is_made_up_proves_nothing(self, proof: str) -> None:
        assert read(msgspec.json.encode(structs.replace(MARK, proof=proof)).decode()).marker is None

    def test_the_proof_of_one_object_proves_nothing_of_another(self) -> None:
        mac = msgspec.json.decode(text())["proof"]
        moved = structs.replace(MARK, object_id="elsewhere", proof=mac)
        assert read(msgspec.json.encode(moved).decode()) == Marks()

    def test_fields_of_a_newer_version_are_covered_too(self) -> None:
        newer = '{"sync":"s","at":"p","new":1}'
        signed = KEYS._sign(newer, KEYS.current)
        assert read(signed).marker is not None
        assert read(signed.replace('"new":1', '"new":2')) == Marks()

    def test_keys_are_in_no_text_about_them(self) -> None:
        keys = MarkKeys([b"SECRET-SECRET-SECRET-SECRET-SECRET"])
        assert "SECRET" not in repr(keys)
        assert "SECRET" not in repr(with_keys(keys))


class TestRotation:
    ring = MarkKeys([OLD, NEW], key_id(NEW))

    def test_marks_of_a_former_key_go_on_to_count(self) -> None:
        found = seen(text(key=OLD), self.ring)
        assert ownership_of(found, with_keys(self.ring), here(HOME)) is Ownership.OURS

    def test_they_are_to_be_signed_anew_and_those_of_the_current_key_are_not(self) -> None:
        owner = with_keys(self.ring)
        assert must_renew(seen(text(key=OLD), self.ring), owner, here(HOME))
        assert not must_renew(seen(text(key=NEW), self.ring), owner, here(HOME))

    def test_a_key_that_was_dropped_proves_nothing_any_more(self) -> None:
        found = seen(text(key=OLD), self.ring)
        assert ownership_of(found, with_keys(MarkKeys([NEW])), here(HOME)) is not Ownership.OURS


class TestLostKeys:
    def test_an_object_of_an_unknown_key_is_neither_touched_nor_taken_for_foreign(self) -> None:
        for management in ("Sync", "Keep", "Adopt", "Overwrite"):
            policy = Policy(management=management)  # type: ignore[arg-type]
            action = plan(want({"a": "2"}), seen(text(key=LOST)), OWNER, here(HOME), policy)
            assert (action.verb, action.reason) == (Verb.LEAVE, "MarkUnproven")
            assert "syncline keys heal" in action.message
        assert plan_prune(seen(text(key=LOST)), OWNER, CLUSTER, "Pruned", "gone") is None

    def test_healed_it_is_ours_where_it_is_wanted_and_is_still_not_removed(self) -> None:
        keys = MarkKeys([NEW], takeovers={key_id(LOST): frozenset({sync_id(OWNER.uid)})})
        owner, found = with_keys(keys), seen(text(key=LOST), keys)
        assert ownership_of(found, owner, here(HOME)) is Ownership.RENEWABLE
        assert must_renew(found, owner, here(HOME))
        assert plan(want({"a": "2"}), found, owner, here(HOME), Policy()).verb is Verb.UPDATE
        assert plan_prune(found, owner, CLUSTER, "Pruned", "gone") is None
        assert ownership_of(found, with_keys(keys, EARLIER), here(HOME)) is Ownership.UNPROVEN

    def test_a_key_that_never_was_is_made_up_and_makes_an_object_foreign(self) -> None:
        keys = MarkKeys([NEW]).knowing_lost(frozenset({key_id(NEW), key_id(LOST)}))
        lost, made_up = seen(text(key=LOST), keys), seen(text(key=b"m" * 32), keys)
        assert ownership_of(lost, with_keys(keys), here(HOME)) is Ownership.UNPROVEN
        assert ownership_of(made_up, with_keys(keys), here(HOME)) is Ownership.FOREIGN
        assert plan(want({"a": "2"}), made_up, with_keys(keys), here(HOME), Policy()).reason == "NotOurs"
        assert plan_prune(made_up, with_keys(keys), CLUSTER, "Pruned", "gone") is None

    def test_the_mark_of_another_hub_keeps_us_away_whatever_its_key(self) -> None:
        far = structs.replace(MARK, hub_uid="another cluster")
        assert ownership_of(seen(text(far, key=LOST)), OWNER, here(HOME)) is Ownership.OTHER_SYNC
        assert ownership_of(seen(msgspec.json.encode(far).decode()), OWNER, here(HOME)) is Ownership.OTHER_SYNC


class TestUnsignedMarks:
    unsigned = msgspec.json.encode(structs.replace(MARK, owner="")).decode()
    keys = MarkKeys([NEW], takeovers={UNSIGNED: frozenset({sync_id(OWNER.uid)})})

    def test_they_are_nothing_where_there_is_nothing_to_take_over(self) -> None:
        for first in (True, False):
            assert ownership_of(seen(self.unsigned, unsigned=first), OWNER, here(HOME)) is Ownership.FOREIGN

    def test_those_that_were_there_first_are_ours_until_the_takeover_ends(self) -> None:
        owner, found = with_keys(self.keys), seen(self.unsigned, self.keys, unsigned=True)
        assert ownership_of(found, owner, here(HOME)) is Ownership.OURS
        removal = plan_prune(found, owner, CLUSTER, "Pruned", "gone")
        assert removal is not None
        assert removal.verb is Verb.DELETE
        ended = with_keys(MarkKeys([NEW]))
        assert ownership_of(found, ended, here(HOME)) is Ownership.FOREIGN
        assert plan_prune(found, ended, CLUSTER, "Pruned", "gone") is None

    def test_those_that_appear_later_are_ours_only_where_they_are_wanted(self) -> None:
        owner, found = with_keys(self.keys), seen(self.unsigned, self.keys)
        assert ownership_of(found, owner, here(HOME)) is Ownership.RENEWABLE
        assert plan_prune(found, owner, CLUSTER, "Pruned", "gone") is None

    def test_one_that_is_as_it_should_be_is_not_written_but_signed_anew(self) -> None:
        desired = want({"a": "1"})
        sent = structs.replace(MARK, owner="", digest=desired.digest, source=desired.source, revision=desired.revision)
        found = seen(msgspec.json.encode(sent).decode(), self.keys)
        owner = with_keys(self.keys)
        assert plan(desired, found, owner, here(HOME), Policy()).verb is Verb.LEAVE
        assert must_renew(recognise(found, owner, here(HOME)), owner, here(HOME))

    def test_a_sync_that_came_later_takes_nothing_over_and_leaves_it_to_the_one_that_may(self) -> None:
        for first in (True, False):
            found = seen(self.unsigned, self.keys, unsigned=first)
            assert ownership_of(found, with_keys(self.keys, EARLIER), here(HOME)) is Ownership.FOREIGN
            assert ownership_of(found, with_keys(self.keys, OTHER), here(HOME)) is Ownership.OTHER_SYNC


def test_a_label_that_somebody_put_on_does_not_make_the_object_of_a_former_sync_ours() -> None:
    former = structs.replace(MARK, owner=EARLIER.label)
    assert ownership_of(seen(text(former)), OWNER, here(HOME)) is Ownership.PREVIOUS


def test_who_may_not_read_the_keys_takes_marks_at_their_word() -> None:
    keys = MarkKeys(checked=False)
    for value in (text(), text(key=LOST), TestUnsignedMarks.unsigned):
        found = seen(value, keys)
        assert found.marker is not None
        assert found.marker.proof == UNCHECKED
        assert ownership_of(found, with_keys(keys), here(HOME)) is Ownership.OURS
        assert not must_renew(found, with_keys(keys), here(HOME))


def test_a_proof_is_one_of_four() -> None:
    assert {KEYS.check(text(), msgspec.json.decode(text())["proof"])[1], KEYS.check("{}", "")[1]} == {
        Proof.PROVEN,
        Proof.UNSIGNED,
    }
