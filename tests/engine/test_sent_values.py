"""What was written to a source, until its copy records it."""

from syncline.core.twoway import Base
from syncline.engine.sent_values import MAX_TRIES, MAX_VALUES, SentValues

BASE = Base.same({"data/a": "1", "data/b": "1"})


def test_a_value_that_the_source_has_as_it_was_sent_is_agreed() -> None:
    sent = SentValues()
    sent.note("pair", BASE, {"data/a": "2", "data/b": "", "data/c": "2"})
    assert sent.added_to(BASE, "pair", {"data/a": "2", "data/c": "of another"}) == Base.same({"data/a": "2"})
    assert sent.added_to(BASE, "other", {"data/a": "2"}) == BASE
    assert sent.added_to(None, "pair", {"data/a": "2"}) is None


def test_each_of_several_writes_may_be_the_one_that_arrived() -> None:
    sent = SentValues()
    for digest in ("2", "3"):
        sent.note("pair", BASE, {"data/a": digest})
    for digest in ("2", "3"):
        found = sent.added_to(BASE, "pair", {"data/a": digest, "data/b": "1"})
        assert found == Base.same({"data/a": digest, "data/b": "1"})


def test_a_new_base_ends_it() -> None:
    """Otherwise a source that goes back to an earlier value would count as unchanged."""
    sent = SentValues()
    sent.note("pair", BASE, {"data/a": "2"})
    later = Base.same({"data/a": "3"})
    assert sent.added_to(later, "pair", {"data/a": "2"}) == later
    assert sent.added_to(BASE, "pair", {"data/a": "2"}) == BASE
    assert not len(sent)


def test_pairs_of_a_tenant_whose_copies_are_never_written_take_little_memory() -> None:
    sent = SentValues()
    for number in range(200):
        for attempt in range(2 * MAX_TRIES):
            sent.note(f"pair{number}", BASE, {f"data/k{key}": str(attempt) for key in range(100)})
            assert len(sent) <= MAX_VALUES
    sent.note("large", BASE, {f"data/k{key}": "1" for key in range(MAX_VALUES + 1)})
    assert len(sent) <= MAX_VALUES
