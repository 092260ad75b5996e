"""Reads the answer to one HTTP/1.1 request from bytes, strictly: what is ambiguous is an error. Knows no network."""

import re
from typing import NamedTuple

MAX_HEAD = 32 * 1024
"""The maximum size of a status line with its headers, of trailers, and of the line before a chunk, in bytes."""
# Each chunk costs the event loop microseconds, however small it is. API servers send chunks of some KiB, and one for
# each event of a watch. A thousand in a row may have less than this size.
_CHUNK_SIZE = 64
_CREDIT = 1000 * _CHUNK_SIZE
# 100 Continue and the like, before the answer.
_INTERIM_LIMIT = 8
_UNTIL_CLOSE = 1 << 62

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n\x00]*+)?+\r\n")
_FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\x00-\x08\x0a-\x1f\x7f]*+\r\n)*+")
_READ = re.compile(
    rb"^(content-length|transfer-encoding|content-encoding|connection|retry-after|date):([^\r]*+)\r$",
    re.IGNORECASE | re.MULTILINE,
)
# Some proxies add their own to that of the server.
_FIRST_COUNTS = frozenset({"date", "retry-after"})
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*+(?:;[^\x00-\x08\x0a-\x1f\x7f]*+)?+\r\n")


class MalformedAnswer(ConnectionError):  # noqa: N818 - a state
    """The server does not speak HTTP as it should, so its connection cannot be used any more."""


class AnswerHead(NamedTuple):
    """The status of an answer, and those of its headers that matter, in lower case."""

    status: int
    headers: dict[str, str]
    keeps_open: bool
    """Whether the connection can be used again, once the answer has ended."""


class AnswerReader:
    """Reads one answer."""

    __slots__ = ("_credit", "_interim", "_left", "_partial", "_surplus", "_take", "ended", "head")

    def __init__(self) -> None:
        self.head: AnswerHead | None = None
        self.ended = False
        """Whether all of it has been read."""
        self._surplus = False
        """Whether more bytes followed, which nobody asked for."""
        self._interim = 0
        self._credit = _CREDIT
        """The bytes by which the next chunks may be smaller than usual."""
        self._left = 0
        """The bytes of content that follow, before something else is read."""
        self._partial = b""
        self._take = self._take_head
        """Reads what follows the content, and returns where it ends; -1 if it is not complete."""

    @property
    def announced(self) -> int:
        """The number of bytes of content that certainly follow."""
        return 0 if self._is_open_ended else self._left

    @property
    def ends_clean(self) -> bool:
        """Whether it has ended as announced, so that its connection can be used again."""
        return self.ended and not self._surplus and self.head is not None and self.head.keeps_open

    def feed(self, data: bytes) -> list[bytes]:
        """Return the content in the next bytes. Raises `MalformedAnswer`."""
        if self._partial:
            data, self._partial = self._partial + data, b""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self.ended = not self._left and self._take == self._take_head
                continue
            taken = self._take(data, at)
            if (taken if taken >= 0 else end) - at > MAX_HEAD:
                raise MalformedAnswer("the headers of its answer are too long")
            if taken < 0:
                self._partial = data[at:]
                break
            at = taken
        self._surplus = self.ended and at < end
        return pieces

    def close(self) -> None:
        """Note that the server closed the connection. Raises `MalformedAnswer` in the middle of an answer."""
        if self._is_open_ended:
            self.ended = True
        if not self.ended:
            raise MalformedAnswer(
                "closed before an answer" if self.head is None else "closed in the middle of an answer"
            )

    @property
    def _is_open_ended(self) -> bool:
        return self._left > _UNTIL_CLOSE >> 1

    def _take_head(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            return -1
        line = _STATUS.match(data, at, end + 2)
        if line is None or _FIELDS.fullmatch(data, line.end(), end + 2) is None:
            raise MalformedAnswer("its answer is not HTTP/1.1")
        status, headers = int(line[2]), _headers(data[line.end() : end + 2])
        if status < 200:  # noqa: PLR2004
            self._interim += 1
            if status == 101 or self._interim > _INTERIM_LIMIT:  # noqa: PLR2004
                raise MalformedAnswer(f"its answer has the unexpected status {status}")
        else:
            self._begin(status, headers, is_old=line[1] == b"0")
        return end + 4

    def _begin(self, status: int, headers: dict[str, str], *, is_old: bool) -> None:
        """Decide how long the content is, and whether the connection stays open."""
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        tokens = headers.get("connection", "").lower().split(",")
        keeps_open = not is_old and "close" not in map(str.strip, tokens)
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise MalformedAnswer("its answer is compressed, which was not asked for")
        if status in (204, 304):
            self.ended = True
        elif coding is not None:
            if length is not None or is_old or coding.lower() != "chunked":
                raise MalformedAnswer("the length of its answer is not clear")
            self._take = self._take_size
        elif length is not None:
            if _LENGTH.fullmatch(length) is None:
                raise MalformedAnswer("the length of its answer is not clear")
            self._left = int(length)
            self.ended = not self._left
        else:
            self._left, keeps_open = _UNTIL_CLOSE, False
        self.head = AnswerHead(status, headers, keeps_open)

    def _take_size(self, data: bytes, at: int) -> int:
        """Read the line before a chunk."""
        end = data.find(b"\n", at) + 1
        if not end:
            return -1
        line = _CHUNK.fullmatch(data, at, end)
        if line is None:
            raise MalformedAnswer("a chunk of its answer has no length")
        self._left = int(line[1], 16)
        if self._left:
            self._credit = min(self._credit + self._left - _CHUNK_SIZE, _CREDIT)
            if self._credit < 0:
                raise MalformedAnswer("its answer comes in too many small chunks")
            self._take = self._take_chunk_end
            return end
        self._take = self._take_trailers
        return end - 2

    def _take_chunk_end(self, data: bytes, at: int) -> int:
        if len(data) - at < 2:  # noqa: PLR2004
            return -1
        if data[at : at + 2] != b"\r\n":
            raise MalformedAnswer("a chunk of its answer is longer than announced")
        self._take = self._take_size
        return at + 2

    def _take_trailers(self, data: bytes, at: int) -> int:
        """Read what follows the line of the last chunk, from the end of that line. Trailers are not used."""
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            return -1
        if _FIELDS.fullmatch(data, at + 2, end + 2) is None:
            raise MalformedAnswer("the end of its answer is not HTTP/1.1")
        self.ended = True
        return end + 4


def _headers(fields: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for found in _READ.findall(fields):
        # Only these are blank here: others are a part of the value.
        name, value = found[0].decode().lower(), found[1].decode("latin-1").strip(" \t")
        if name not in headers:
            headers[name] = value
        elif name == "connection":
            headers[name] += f",{value}"
        elif name not in _FIRST_COUNTS:
            raise MalformedAnswer(f"its answer has the header {name} twice")
    return headers
