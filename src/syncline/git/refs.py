"""The refs of a repository, and the commit of a revision.

The first match in this order:

    1. `HEAD`, or a full ref such as `refs/heads/main`, `refs/tags/v1`, `refs/pull/1/head`
    2. a full commit id
    3. a branch of this name
    4. a tag of this name
    5. a range of versions (see `versions`): the tag with the highest version in it
    6. an abbreviated commit id, of at least seven digits, of something that a ref points to

A tag therefore never hides a branch, and a branch with the name `1.x` is not a range.
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
_ID_COST = 200  # the id, and the entry in a dict
_LARGEST_FACTOR = 300


class Commit(Struct, frozen=True):
    """The resolved commit of a revision."""

    sha: str
    ref: str = ""
    """The full ref of the revision; empty if the revision is a commit."""
    tag: str = ""
    """The id of the annotated tag of the revision. Its signature can replace the signature of the commit."""

    @property
    def tag_name(self) -> str:
        """The short name of the tag of the revision, if there is one."""
        return self.ref.removeprefix(TAGS) if self.ref.startswith(TAGS) else ""


class Refs:
    """The refs of a repository at one time. Immutable."""

    def __init__(self, ids: Mapping[str, str], head: str = "") -> None:
        self.ids = ids
        """Object ids by full ref; with the suffix `^{}`, the target of an annotated tag."""
        self.head = head
        """The ref of HEAD, if it was requested."""

    @classmethod
    def parse(cls, listing: bytes, *, limit: int) -> "Refs":
        """Parse the complete output of `git ls-remote --symref`."""
        reader = RefsReader(refs=limit, size=len(listing) * _LARGEST_FACTOR)
        reader.feed(listing)
        return reader.finish()

    @cached_property
    def digest(self) -> bytes:
        """A digest of all refs: equal digests mean equal refs."""
        hashed = blake2b(self.head.encode(errors="surrogatepass"))
        for name in sorted(self.ids):
            hashed.update(f"\n{name}\t{self.ids[name]}".encode(errors="surrogatepass"))
        return hashed.digest()

    @cached_property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
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
        """Return the commit of a full ref."""
        sha = self.ids.get(ref)
        if sha is None:
            return None
        peeled = self.ids.get(ref + _PEELED)
        return Commit(peeled, ref, sha) if peeled else Commit(sha, ref)


class RefsReader:
    """Parses the output of `git ls-remote --symref` as a stream, within limits."""

    def __init__(self, *, refs: int, size: int) -> None:
        self._most_refs = refs
        self._most_bytes = size
        self._ids: dict[str, str] = {}
        self._head = ""
        self._rest = b""
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Parse a piece. Raises `TooLarge` for too many refs, and `NeedsMore` if only the size is too large."""
        try:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            self._check(len(self._rest))
        except GitError:
            # An error can be stored for a while, and its traceback would keep these objects in memory.
            self._ids, self._rest = {}, b""
            raise

    def finish(self) -> Refs:
        """Return what was read."""
        if self._rest:
            self._take(self._rest)
        return Refs(self._ids, self._head)

    def _take(self, line: bytes) -> None:
        value, _, name = line.decode(errors="replace").removesuffix("\r").partition("\t")
        if value.startswith("ref: "):
            self._head = value.removeprefix("ref: ") if name == "HEAD" else self._head
        elif _COMMIT.fullmatch(value) and name:
            self._ids[name] = value
            self._size += _cost(name)
        else:
            raise RepositoryUnreachable(
                "the server's list of refs is not valid; check that the URL is a Git repository"
            )
        self._check(0)

    def _check(self, pending: int) -> None:
        if len(self._ids) > self._most_refs:
            raise TooLarge(f"the repository has more than {self._most_refs} branches and tags: delete some of them")
        if self._size + pending > self._most_bytes:
            raise NeedsMore(
                f"the names of the repository's branches and tags have more than {self._most_bytes} bytes: delete some"
                " of them"
            )


def _cost(name: str) -> int:
    return sys.getsizeof(name) + _ID_COST


def check_revision(revision: str) -> None:
    """Raise `InvalidSource` for an invalid revision."""
    if not revision or len(revision) > _MAX_LENGTH:
        raise InvalidSource(f"the revision must have 1 to {_MAX_LENGTH} characters")
    if _UNSAFE.search(revision) and Range.parse(revision) is None:
        raise InvalidSource(
            f"the revision {revision[:80]!r} is neither the name of a branch or tag, nor a range of versions, "
            "nor a commit"
        )


def pinned(revision: str) -> Commit | None:
    """Return the commit of a revision that is a full id; None for all other revisions."""
    lowered = revision.lower()
    return Commit(lowered) if _COMMIT.fullmatch(lowered) else None


def needs_all(revision: str) -> bool:
    """Whether the revision needs more refs than branches and tags."""
    return revision == "HEAD" or (revision.startswith("refs/") and not revision.startswith((HEADS, TAGS)))


def choose(refs: Refs, revision: str) -> Commit:
    """Return the commit of a revision. Raises `RevisionNotFound` if there is none."""
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
        f"no branch or tag points to a commit that begins with {short!r}; write the full commit id (40 digits), because"
        " Git servers do not resolve abbreviated ids"
    )


def _known(refs: Refs) -> str:
    branches = sorted(name.removeprefix(HEADS) for name in refs.ids if name.startswith(HEADS))
    if not branches:
        return "it has no branches"
    more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
    return f"its branches are {', '.join(branches[:_SHOWN])}{more}"
