"""What a repository points to, and which commit a revision means.

In this order, and the first that fits wins:

    1. `HEAD`, or a full ref such as `refs/heads/main`, `refs/tags/v1`, `refs/pull/1/head`
    2. a full commit id
    3. a branch of this name
    4. a tag of this name
    5. a range of versions (see `versions`): the tag with the highest version in it
    6. an abbreviated commit id, of at least seven digits, of something that a ref points to

So a tag never takes the place of a branch, and a branch that is called `1.x` is that branch.
"""

import re
import sys
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b

from msgspec import Struct

from syncline.git.errors import GitError, InvalidSource, NeedsMore, RepositoryUnreachable, RevisionNotFound, TooLarge
from syncline.git.versions import Range, Version

HEADS = "refs/heads/"
TAGS = "refs/tags/"
_PEELED = "^{}"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ABBREVIATED = re.compile(r"[0-9a-fA-F]{7,64}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|\.lock(?:/|$)|(?:^|/)\.|^-|\.$")
_MAX_LENGTH = 256
_SHOWN = 5
_ID_COST = 200  # the id, and the place of both in a dict
_LARGEST_FACTOR = 300


class Commit(Struct, frozen=True):
    """What a revision means now."""

    sha: str
    ref: str = ""
    """The full ref that led here; empty for a commit that was named itself."""
    tag: str = ""
    """The id of the annotated tag that led here; its signature may stand for the commit's."""

    @property
    def tag_name(self) -> str:
        """The short name of the tag that led here, if one did."""
        return self.ref.removeprefix(TAGS) if self.ref.startswith(TAGS) else ""


class Refs:
    """What a repository points to, as it was at one time. Not to be changed."""

    def __init__(self, ids: Mapping[str, str], head: str = "") -> None:
        self.ids = ids
        """Object ids by full ref; with the suffix `^{}`, what an annotated tag is about."""
        self.head = head
        """The ref that HEAD stands for, where it was asked for."""

    @classmethod
    def parse(cls, listing: bytes, *, limit: int) -> "Refs":
        """Read what `git ls-remote --symref` prints, all of it."""
        reader = RefsReader(refs=limit, size=len(listing) * _LARGEST_FACTOR)
        reader.feed(listing)
        return reader.finish()

    @cached_property
    def digest(self) -> bytes:
        """Names the whole of it: equal digests mean equal refs."""
        hashed = blake2b(self.head.encode(errors="surrogatepass"))
        for name in sorted(self.ids):
            hashed.update(f"\n{name}\t{self.ids[name]}".encode(errors="surrogatepass"))
        return hashed.digest()

    @cached_property
    def size(self) -> int:
        """About how many bytes it takes of memory."""
        return sum(_cost(name) for name in self.ids)

    @cached_property
    def versions(self) -> list[tuple[Version, str]]:
        """The versions among the tags, the highest first."""
        found = [
            (version, name)
            for name in self.ids
            if name.startswith(TAGS) and (version := Version.parse(name.removeprefix(TAGS)))
        ]
        return sorted(found, reverse=True)

    def commit(self, ref: str) -> Commit | None:
        """Return what a full ref points to."""
        sha = self.ids.get(ref)
        if sha is None:
            return None
        peeled = self.ids.get(ref + _PEELED)
        return Commit(peeled, ref, sha) if peeled else Commit(sha, ref)


class RefsReader:
    """Reads what `git ls-remote --symref` prints, as it comes, and no more than allowed."""

    def __init__(self, *, refs: int, size: int) -> None:
        self._most_refs = refs
        self._most_bytes = size
        self._ids: dict[str, str] = {}
        self._head = ""
        self._rest = b""
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Take a piece; raises `TooLarge` as soon as it is too much, and `NeedsMore` where only the bytes are."""
        try:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            self._check(len(self._rest))
        except GitError:
            # The error may be kept for a while, and with it everything that leads here.
            self._ids, self._rest = {}, b""
            raise

    def finish(self) -> Refs:
        """Return what was read."""
        if self._rest:
            self._take(self._rest)
        return Refs(self._ids, self._head)

    def _take(self, line: bytes) -> None:
        told, _, name = line.decode(errors="replace").removesuffix("\r").partition("\t")
        if told.startswith("ref: "):
            self._head = told.removeprefix("ref: ") if name == "HEAD" else self._head
        elif _COMMIT.fullmatch(told) and name:
            self._ids[name] = told
            self._size += _cost(name)
        else:
            raise RepositoryUnreachable(
                "the server's list of refs cannot be read; check that the URL is a Git repository"
            )
        self._check(0)

    def _check(self, pending: int) -> None:
        if len(self._ids) > self._most_refs:
            raise TooLarge(f"delete branches and tags: the repository has more than {self._most_refs}")
        if self._size + pending > self._most_bytes:
            raise NeedsMore(
                f"delete branches and tags: the names of those that the repository has take more than "
                f"{self._most_bytes} bytes"
            )


def _cost(name: str) -> int:
    return sys.getsizeof(name) + _ID_COST


def check_revision(revision: str) -> None:
    """Raise `InvalidSource` for what can be no revision."""
    if not revision or len(revision) > _MAX_LENGTH:
        raise InvalidSource(f"the revision must have 1 to {_MAX_LENGTH} characters")
    if _UNSAFE.search(revision) and Range.parse(revision) is None:
        raise InvalidSource(
            f"the revision {revision[:80]!r} is neither the name of a branch or tag, nor a range of versions, "
            "nor a commit"
        )


def pinned(revision: str) -> Commit | None:
    """Return the commit that a revision names by its full id; None for everything that only refs can tell."""
    lowered = revision.lower()
    return Commit(lowered) if _COMMIT.fullmatch(lowered) else None


def needs_all(revision: str) -> bool:
    """Whether branches and tags are not enough to tell what the revision means."""
    return revision == "HEAD" or (revision.startswith("refs/") and not revision.startswith((HEADS, TAGS)))


def choose(refs: Refs, revision: str) -> Commit:
    """Return the commit that a revision means; raise `RevisionNotFound` where there is none."""
    check_revision(revision)
    if commit := pinned(revision):
        return commit
    if not refs.ids:
        raise RevisionNotFound("the repository is empty; push a first commit")
    names = (revision,) if revision == "HEAD" or revision.startswith("refs/") else (HEADS + revision, TAGS + revision)
    for name in names:
        if commit := refs.commit(name):
            return Commit(commit.sha, refs.head) if name == "HEAD" and refs.head else commit
    if len(names) == 1:
        raise RevisionNotFound(f"the repository has no ref {revision!r}")
    if (wanted := Range.parse(revision)) and (commit := _highest(refs, wanted)):
        return commit
    if _ABBREVIATED.fullmatch(revision):
        return _abbreviated(refs, revision.lower())
    if wanted:
        raise RevisionNotFound(f"no tag has a version in {revision!r}; {_known(refs)}")
    raise RevisionNotFound(f"the repository has no branch or tag {revision!r}; {_known(refs)}")


def _highest(refs: Refs, wanted: Range) -> Commit | None:
    return next((refs.commit(name) for version, name in refs.versions if wanted.holds(version)), None)


def _abbreviated(refs: Refs, short: str) -> Commit:
    found = {sha for sha in refs.ids.values() if sha.startswith(short)}
    commits = {commit.sha for name in refs.ids if (commit := refs.commit(name)) and commit.sha in found}
    if len(commits) == 1:
        return Commit(commits.pop())
    if commits:
        raise RevisionNotFound(f"several commits begin with {short!r}; write the full commit id")
    raise RevisionNotFound(
        f"no branch or tag points to a commit that begins with {short!r}; write the full commit id (40 digits), "
        "since Git servers do not look up abbreviated ones"
    )


def _known(refs: Refs) -> str:
    branches = sorted(name.removeprefix(HEADS) for name in refs.ids if name.startswith(HEADS))
    if not branches:
        return "it has no branches"
    more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
    return f"its branches are {', '.join(branches[:_SHOWN])}{more}"
