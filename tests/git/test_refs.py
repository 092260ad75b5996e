"""Which commit a revision means."""

import pytest

from syncline.git.errors import InvalidSource, RepositoryUnreachable, RevisionNotFound, TooLarge
from syncline.git.refs import Commit, Refs, check_revision, choose, needs_all, pinned

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
REFS = Refs(
    {
        "HEAD": A,
        "refs/heads/main": A,
        "refs/heads/both": B,
        "refs/heads/1.x": D,
        "refs/tags/both": C,
        "refs/tags/v1.2.0": B,
        "refs/tags/v1.10.0": C,
        "refs/tags/v1.10.0^{}": D,
        "refs/tags/v2.0.0-rc.1": A,
        "refs/tags/nightly": A,
        "refs/pull/7/head": C,
    },
    "refs/heads/main",
)


@pytest.mark.parametrize(
    ("revision", "commit"),
    [
        ("main", Commit(A, "refs/heads/main")),
        ("refs/heads/main", Commit(A, "refs/heads/main")),
        ("HEAD", Commit(A, "refs/heads/main")),
        ("both", Commit(B, "refs/heads/both")),
        ("refs/tags/both", Commit(C, "refs/tags/both")),
        ("nightly", Commit(A, "refs/tags/nightly")),
        ("refs/pull/7/head", Commit(C, "refs/pull/7/head")),
        ("v1.10.0", Commit(D, "refs/tags/v1.10.0", C)),
        ("1.10.0", Commit(D, "refs/tags/v1.10.0", C)),
        ("^1.2", Commit(D, "refs/tags/v1.10.0", C)),
        (">=1.2.0 <1.10", Commit(B, "refs/tags/v1.2.0")),
        (">=2.0.0-0", Commit(A, "refs/tags/v2.0.0-rc.1")),
        ("1.x", Commit(D, "refs/heads/1.x")),
        ("e" * 40, Commit("e" * 40)),
        ("E" * 40, Commit("e" * 40)),
        ("e" * 64, Commit("e" * 64)),
        ("a" * 7, Commit(A)),
        ("D" * 12, Commit(D)),
    ],
)
def test_a_revision_means_one_commit(revision: str, commit: Commit) -> None:
    assert choose(REFS, revision) == commit


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("trunk", "no branch or tag 'trunk'; its branches are 1.x, both, main"),
        ("^3", "no tag has a version in '^3'"),
        (">=2.0.0", "no tag has a version"),
        ("refs/heads/gone", "no ref 'refs/heads/gone'"),
        ("refs/pull/8/head", "no ref"),
        ("1234567", "write the full commit id"),
    ],
)
def test_a_revision_that_means_nothing_says_what_there_is(revision: str, said: str) -> None:
    with pytest.raises(RevisionNotFound, match=said.replace("^", r"\^")):
        choose(REFS, revision)


def test_an_abbreviation_of_two_commits_means_neither() -> None:
    refs = Refs({"refs/heads/a": "abcdef1" + "0" * 33, "refs/heads/b": "abcdef1" + "1" * 33})
    with pytest.raises(RevisionNotFound, match="several commits"):
        choose(refs, "abcdef1")


def test_an_empty_repository_says_so() -> None:
    with pytest.raises(RevisionNotFound, match="empty"):
        choose(Refs({}), "main")


@pytest.mark.parametrize(
    "revision",
    [
        "",
        "-x",
        "--upload-pack=x",
        "a b",
        "a\nb",
        "a..b",
        "a:b",
        "a~1",
        "a^",
        "HEAD@{1}",
        "a\\b",
        "x" * 300,
        "/.a",
        "a.lock",
    ],
)
def test_what_can_be_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(InvalidSource):
        check_revision(revision)


@pytest.mark.parametrize(
    "revision", ["main", "feature/a-b_c", ">=1.2.0 <2", "^1.4", "1.*", "refs/pull/1/head", "v1.0+x"]
)
def test_what_may_be_a_revision_is_not(revision: str) -> None:
    assert check_revision(revision) is None


def test_only_a_full_id_is_known_without_asking() -> None:
    assert pinned("e" * 40) == Commit("e" * 40)
    assert pinned("e" * 39) is None
    assert pinned("main") is None


def test_only_unusual_refs_need_the_whole_list() -> None:
    assert [needs_all(each) for each in ("main", "refs/heads/x", "refs/tags/x", "^1", "HEAD", "refs/pull/1/head")] == [
        *(False, False, False, False, True, True)
    ]


def test_the_list_of_a_server_is_read() -> None:
    listing = (
        f"ref: refs/heads/main\tHEAD\n{A}\tHEAD\n{A}\trefs/heads/main\n{C}\trefs/tags/v1\n{D}\trefs/tags/v1^{{}}\n"
    )
    refs = Refs.parse(listing.encode(), limit=10)
    assert refs.head == "refs/heads/main"
    assert choose(refs, "v1") == Commit(D, "refs/tags/v1", C)
    assert refs.digest == Refs.parse(listing.encode(), limit=10).digest
    with pytest.raises(TooLarge):
        Refs.parse(listing.encode(), limit=2)
    with pytest.raises(RepositoryUnreachable):
        Refs.parse(b"<html>", limit=2)


def test_the_highest_of_many_tags_is_found_again_at_once() -> None:
    refs = Refs({f"refs/tags/v1.{minor}.{patch}": A for minor in range(100) for patch in range(100)})
    assert choose(refs, "^1").ref == "refs/tags/v1.99.99"
    assert refs.versions is refs.versions
