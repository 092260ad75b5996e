"""Digests: equal for what says the same, different for what does not."""

from hypothesis import given
from hypothesis import strategies as st
from tests.core.server import ApiServer
from tests.core.strategies import contents
from tests.sampling import quick

from syncline.core.digest import BRIEF, DigestKey, brief, combined_digest, short_digest, value_digests
from syncline.core.objects import Content, Target

HERE = Target("team-a", "settings")

Maps = tuple[dict[str, str], dict[str, str]]
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


def seen_digest(**content: object) -> str:
    """Return the digest of a ConfigMap as it comes from the server."""
    server = ApiServer()
    server.objects[HERE] = {"metadata": {"namespace": "team-a", "name": "settings"}, **content}
    observed = server.see(HERE, body=True)
    assert observed is not None
    return observed.digest


def test_an_empty_map_and_an_absent_one_say_the_same() -> None:
    empty = Content().digest()
    for content in ({}, {"data": {}}, {"binaryData": {}}, {"data": None, "binaryData": None}):
        assert seen_digest(**content) == empty


def test_immutable_is_not_part_of_what_it_says() -> None:
    assert seen_digest(data={"a": "1"}, immutable=True) == Content(data={"a": "1"}).digest()


@quick
@given(contents(), st.data())
def test_the_order_of_keys_does_not_matter(maps: Maps, data: st.DataObject) -> None:
    shuffled = [dict(data.draw(st.permutations(list(part.items())))) for part in maps]
    assert Content(*shuffled).digest() == Content(*maps).digest()


@quick
@given(contents(), contents())
def test_contents_are_equal_exactly_when_their_digests_are(one: Maps, other: Maps) -> None:
    assert (Content(*one).digest() == Content(*other).digest()) is (one == other)


@quick
@given(st.dictionaries(texts, texts, max_size=4), st.dictionaries(texts, texts, max_size=4))
def test_a_whole_is_named_by_the_digests_of_its_values(data: dict[str, str], binary: dict[str, str]) -> None:
    content = Content(data, binary)
    assert combined_digest(content.value_digests()) == content.digest()
    for path in content.value_digests():
        part, _, name = path.partition("/")
        assert content.value_at(path) == {"data": data, "binaryData": binary}[part][name]


def test_a_key_in_data_and_one_in_binary_data_are_two_things() -> None:
    assert Content(data={"a": "AA=="}).digest() != Content(binary_data={"a": "AA=="}).digest()


def test_a_keyed_digest_cannot_be_compared_without_the_key() -> None:
    plain, keyed = value_digests({"a": "1"}, {}, DigestKey()), value_digests({"a": "1"}, {}, DigestKey(b"key"))
    assert plain != keyed
    assert keyed == value_digests({"a": "1"}, {}, DigestKey(b"key"))
    assert keyed != value_digests({"a": "1"}, {}, DigestKey(b"another key"))


def test_parts_are_not_run_together() -> None:
    assert short_digest("ab", "c") != short_digest("a", "bc")
    assert short_digest("a", "") != short_digest("a")


@quick
@given(st.text(max_size=200))
def test_a_short_digest_is_a_label_s_value(text: str) -> None:
    value = short_digest(text)
    assert len(value) <= 63
    assert value.isalnum()


@quick
@given(st.text("ab", max_size=BRIEF + 40))
def test_a_long_value_is_held_briefly(value: str) -> None:
    assert len(brief(value)) <= BRIEF
    assert (brief(value) == value) is (len(value) <= BRIEF)


def test_two_long_values_are_told_apart() -> None:
    assert brief("x" * 100) != brief("x" * 101)
