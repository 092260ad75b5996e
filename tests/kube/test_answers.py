"""Answers are read alike however their bytes are cut, and ambiguous ones are errors."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.kube.answers import MAX_HEAD, AnswerReader, MalformedAnswer

OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 5\r\nDate: Thu, 19 Nov 2026 04:14:15 GMT\r\n\r\nhello"
CHUNKED = OK + b"transfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
TRAILED = OK + b"Transfer-Encoding: chunked\r\n\r\n005\r\nhello\r\n0\r\nDigest: x\r\n\r\n"
WAITED_FOR = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED
OPEN_ENDED = b"HTTP/1.0 200 OK\r\n\r\nhello"


def read(data: bytes, cuts: list[int]) -> tuple[AnswerReader, bytes]:
    """Read an answer that comes in pieces."""
    reader, content, at = AnswerReader(), b"", 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        if cut > at:
            content += b"".join(reader.feed(data[at:cut]))
            at = cut
    return reader, content


@given(st.sampled_from([SIZED, CHUNKED, TRAILED, WAITED_FOR]), st.lists(st.integers(0, 400)))
def test_an_answer_is_the_same_however_its_bytes_are_cut(answer: bytes, cuts: list[int]) -> None:
    reader, content = read(answer, cuts)
    assert (content, reader.ended, reader.ends_clean) == (b"hello", True, True)
    assert reader.head is not None
    assert reader.head.status == 200


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, TRAILED, WAITED_FOR])
def test_an_answer_is_the_same_in_any_three_pieces_and_byte_by_byte(answer: bytes) -> None:
    last = range(len(answer) - 40, len(answer))
    for cuts in [*map(list, combinations(last, 2)), list(range(len(answer)))]:
        reader, content = read(answer, cuts)
        assert (content, reader.ends_clean) == (b"hello", True)


@given(st.sampled_from([SIZED, CHUNKED, TRAILED, WAITED_FOR]), st.integers(0, 400))
def test_a_cut_answer_is_an_error(answer: bytes, cut: int) -> None:
    reader, _ = read(answer[: cut % len(answer)], [])
    assert not reader.ended
    with pytest.raises(MalformedAnswer, match="closed"):
        reader.close()


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_are_an_answer_or_an_error(data: bytes, cuts: list[int]) -> None:
    for start in (b"", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n", OK + b"Content-Length: "):
        try:
            _, content = read(start + data, cuts)
        except MalformedAnswer:
            continue
        assert len(content) <= len(data)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reader, content = read(OPEN_ENDED, [20])
    assert (content, reader.ended) == (b"hello", False)
    reader.close()
    assert (reader.ended, reader.ends_clean) == (True, False)


def test_the_headers_that_matter_are_kept() -> None:
    reader, _ = read(OK + b"Retry-After:  7 \r\nX-Other: y\r\nDATE: today\r\nContent-Length: 0\r\n\r\n", [])
    assert reader.head is not None
    assert reader.head.headers == {"retry-after": "7", "date": "today", "content-length": "0"}
    assert reader.ends_clean


def test_of_headers_that_a_proxy_added_again_the_first_counts() -> None:
    reader, _ = read(OK + b"Date: a\r\nRetry-After: 1\r\nDate: b\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", [])
    assert reader.head is not None
    assert reader.head.headers == {"date": "a", "retry-after": "1", "content-length": "0"}
    assert reader.ends_clean


@pytest.mark.parametrize("sizes", [[64] * 5000, [1] * 1000 + [1 << 16] + [1] * 1000, [1, 200] * 5000])
def test_chunks_have_any_size_as_long_as_few_are_small(sizes: list[int]) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes)
    reader, content = read(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n", [])
    assert (len(content), reader.ends_clean) == (sum(sizes), True)


@pytest.mark.parametrize("sizes", [[1] * 1020, [1 << 20] + [1] * 1020, [1, 100] * 5000])
def test_many_small_chunks_are_an_error(sizes: list[int]) -> None:
    """They take far more time of the event loop than the same content in fewer chunks."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes)
    with pytest.raises(MalformedAnswer, match="too many small chunks"):
        read(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, [])


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
@pytest.mark.parametrize("length", [b"", b"Content-Length: 9\r\n", b"Content-Length: x\r\n"])
def test_some_answers_have_no_content(status: bytes, length: bytes) -> None:
    reader, content = read(b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n", [])
    assert reader.announced == 0
    assert (content, reader.ends_clean) == (b"", True)


@pytest.mark.parametrize(
    "answer",
    [
        SIZED + b"HTTP/1.1 200 OK\r\n",  # the answer to a request that nobody sent
        OK + b"Content-Length: 5\r\nConnection: x, Close\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nConnection: x\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 204 No Content\r\n\r\nhello",
    ],
)
def test_after_some_answers_the_connection_is_not_used_again(answer: bytes) -> None:
    reader, _ = read(answer, [])
    assert (reader.ended, reader.ends_clean) == (True, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"hello, this is no HTTP\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 No\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\n\n\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 5, 5\r\n\r\nhello",
        OK + b"Content-Length: +5\r\n\r\nhello",
        OK + b"Content-Length: 0x5\r\n\r\nhello",
        OK + b"Content-Length: \r\n\r\nhello",
        OK + b"Content-Length: 1234567890123456\r\n\r\nhello",
        OK + b"Content-Length : 5\r\n\r\nhello",
        OK + b"Content-Length: 5\xa0\r\n\r\nhello",
        OK + b"Transfer-Encoding: \x85chunked\r\n\r\n0\r\n\r\n",
        OK + b"Content-Length: 5\r\n folded\r\n\r\nhello",
        OK + b"Content-Length: 5\n\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"X-A\x00: 5\r\n\r\n",
        OK + b"X-A: \x00\r\n\r\n",
        OK + b"X-A: \x0b\r\n\r\n",
        OK + b": 5\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1234567890123\r\nhello\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello, all\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + SIZED,
        OK + b"X-A: " + b"a" * MAX_HEAD,
        OK + b"X-A: " + b"a" * MAX_HEAD + b"\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * MAX_HEAD,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: " + b"a" * MAX_HEAD,
    ],
)
def test_what_is_not_clear_is_an_error(answer: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read(answer, [])
    with pytest.raises(MalformedAnswer):
        read(answer, list(range(0, len(answer), 997)))
