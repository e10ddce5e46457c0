"""llm/http_response: responses in any pieces; what is not clearly framed is refused."""

from __future__ import annotations

import tracemalloc

import pytest

from lmms_eval_ad2.llm.http_response import (
    LONGEST_HEAD,
    HttpResponse,
    HttpResponseReader,
    InvalidHttpResponse,
    TooLongResponse,
)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BY_LENGTH = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;note=x\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + BY_LENGTH
JSON = {"content-type": "application/json"}


def read(data: bytes, piece: int = 10**6, most: int = 1000) -> HttpResponse | None:
    reader, response = HttpResponseReader(most), None
    for start in range(0, len(data), piece):
        assert response is None
        response = reader.feed(data[start : start + piece])
    return response


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 40, 10**6])
@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (BY_LENGTH, {"content-length": "5"}),
        (CHUNKED, {"transfer-encoding": "chunked"}),
        (INTERIM, {"content-length": "5"}),
    ],
)
def test_a_body_in_pieces_of_any_size(data: bytes, headers: dict[str, str], piece: int) -> None:
    found = read(data, piece)
    assert found is not None and (found.status, found.headers, found.body) == (200, JSON | headers, b"hello")


def test_a_connection_is_reused_unless_the_server_closes_it_or_sends_more() -> None:
    def reusable(data: bytes) -> bool:
        found = read(data)
        assert found is not None
        return found.reusable

    assert reusable(BY_LENGTH)
    assert reusable(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert not reusable(BY_LENGTH + b"HTTP/1.1 200 OK")
    assert not reusable(BY_LENGTH.replace(b"Content-Type", b"Connection: close\r\nContent-Type"))
    assert not reusable(BY_LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert reusable(BY_LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Content-T", b"Connection: keep-alive\r\nX-T"))


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = HttpResponseReader(1000)
    assert reader.feed(HEAD + b"\r\nhel") is None and reader.feed(b"lo") is None
    found = reader.end()
    assert found is not None and found.body == b"hello" and not found.reusable


@pytest.mark.parametrize("data", [b"", HEAD, BY_LENGTH[:-1], CHUNKED[:-4]])
def test_a_response_that_is_cut_off_is_none(data: bytes) -> None:
    reader = HttpResponseReader(1000)
    assert reader.feed(data) is None and reader.end() is None


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"x" * (LONGEST_HEAD + 1),
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello",
        HEAD + b" continued: line\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
    ],
)
def test_what_is_not_clearly_framed_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidHttpResponse):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 1001\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3E9\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1F4\r\n" + b"x" * 500 + b"\r\n") * 3,
        HEAD + b"\r\n" + b"x" * 1001,
    ],
)
def test_a_body_is_bounded(data: bytes) -> None:
    with pytest.raises(TooLongResponse):
        read(data)


def test_as_many_chunks_as_bytes_need_no_more_memory_than_the_body() -> None:
    reader, size = HttpResponseReader(2_000_000), 100_000
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    part = b"1\r\na\r\n" * 2_000
    tracemalloc.start()
    try:
        for _ in range(size // 2_000):
            assert reader.feed(part) is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    response = reader.feed(b"0\r\n\r\n")
    assert response is not None and response.body == b"a" * size
    assert most < 3 * size
