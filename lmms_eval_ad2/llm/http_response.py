"""HttpResponseReader: the response to one HTTP/1.1 request, from the bytes of a connection (RFC 9112).

The server is not trusted: heads and bodies are bounded, and anything that is not clearly framed is refused, after which
the connection is closed. A body is framed by Content-Length, by chunks, or by the end of the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST_HEAD = 2**16  # bytes of a status line and headers, also of the trailers of a chunked body
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_LENGTH = re.compile(r"[0-9]{1,15}")
_END, _LINE = b"\r\n\r\n", b"\r\n"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. `headers`: by name in lower case; `reusable`: the connection can carry another request."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reusable: bool = False


class InvalidHttpResponse(Exception):
    """The bytes are no HTTP/1.1 response, or one that is framed ambiguously."""


class TooLongResponse(Exception):
    """The body is longer than the limit."""


class HttpResponseReader:
    """`feed` returns the response as soon as it is complete. `most`: bytes of the longest accepted body.

    `has_body`: False for the response to CONNECT, whose body is the tunnel. Raises InvalidHttpResponse and
    TooLongResponse.
    """

    __slots__ = ("_body", "_buffer", "_head", "_left", "_most", "_reusable", "has_body")

    def __init__(self, most: int, has_body: bool = True) -> None:
        self._most, self.has_body = most, has_body
        self._buffer = bytearray()
        self._head: tuple[int, dict[str, str]] | None = None
        self._left: int | None = None  # bytes of the body that are missing; None: framed by chunks or by the end
        self._body = bytearray()
        self._reusable = False

    def feed(self, data: bytes) -> HttpResponse | None:
        """The response if `data` completes it, else None."""
        self._buffer += data
        while self._head is None:
            end = self._buffer.find(_END)
            if end < 0:
                if len(self._buffer) > LONGEST_HEAD:
                    raise InvalidHttpResponse(f"headers of more than {LONGEST_HEAD:,} bytes")
                return None
            head = bytes(self._buffer[:end])
            del self._buffer[: end + len(_END)]
            self._begin(head)
        if self._left is not None:
            return self._by_length(self._left)
        if "transfer-encoding" in self._head[1]:
            return self._by_chunks()
        self._until_end()
        return None

    def end(self) -> HttpResponse | None:
        """The response if the end of the connection completes it, else None."""
        if self._head is None or self._left is not None or "transfer-encoding" in self._head[1]:
            return None
        return HttpResponse(*self._head, bytes(self._body))

    def _begin(self, head: bytes) -> None:
        line, _, rest = head.partition(_LINE)
        if (found := _STATUS_LINE.fullmatch(line)) is None:
            raise InvalidHttpResponse(f"no HTTP/1.1 status line: {line[:80]!r}")
        status = int(found[2])
        if status < 200:  # interim: the response itself follows
            if status == 101:
                raise InvalidHttpResponse("the server switches to another protocol")
            return
        headers = _headers(rest)
        connection = headers.get("connection", "").lower()
        self._reusable = "close" not in connection and (found[1] == b"1" or "keep-alive" in connection)
        self._head = (status, headers)
        self._frame(status, headers)

    def _frame(self, status: int, headers: dict[str, str]) -> None:
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if not self.has_body or status in (204, 304):
            headers.pop("transfer-encoding", None)
            self._left = 0
        elif coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise InvalidHttpResponse(f"Transfer-Encoding {coding[:40]!r}, Content-Length {length!r}")
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise InvalidHttpResponse(f"Content-Length {length[:40]!r}")
            self._left = int(length)
            if self._left > self._most:
                raise TooLongResponse

    def _by_length(self, left: int) -> HttpResponse | None:
        data = self._buffer
        self._body += data[:left]
        if len(data) < left:
            self._left = left - len(data)
            data.clear()
            return None
        # Bytes after the response belong to no request; in a tunnel, the other side waits for ours.
        self._reusable = self._reusable and len(data) == left
        return self._complete()

    def _by_chunks(self) -> HttpResponse | None:
        read = 0  # bytes of the buffer; cut off once, since there may be as many chunks as bytes
        while True:
            end = self._buffer.find(_LINE, read, read + LONGEST_HEAD)
            if end < 0:
                if len(self._buffer) - read > LONGEST_HEAD:
                    raise InvalidHttpResponse("a chunk without a size")
                break
            line = bytes(self._buffer[read:end])
            if (found := _CHUNK_SIZE.fullmatch(line)) is None:
                raise InvalidHttpResponse(f"the size of a chunk: {line[:40]!r}")
            start, length = end + len(_LINE), int(found[1], 16)
            if length == 0:
                trailers = bytes(self._buffer[start:])
                del self._buffer[:read]
                return self._after_chunks(trailers)
            if len(self._body) + length > self._most:
                raise TooLongResponse
            stop = start + length
            if len(self._buffer) < stop + len(_LINE):
                break
            if self._buffer[stop : stop + len(_LINE)] != _LINE:
                raise InvalidHttpResponse("a chunk is longer than its size")
            self._body += self._buffer[start:stop]
            read = stop + len(_LINE)
        del self._buffer[:read]
        return None

    def _after_chunks(self, trailers: bytes) -> HttpResponse | None:
        """`trailers`: what follows the last chunk's line: headers, which are ignored, and an empty line."""
        if not trailers.startswith(_LINE) and _END not in trailers:
            if len(trailers) > LONGEST_HEAD:
                raise InvalidHttpResponse(f"trailers of more than {LONGEST_HEAD:,} bytes")
            return None
        self._reusable = self._reusable and trailers == _LINE
        return self._complete()

    def _until_end(self) -> None:
        self._body += self._buffer
        self._buffer.clear()
        if len(self._body) > self._most:
            raise TooLongResponse

    def _complete(self) -> HttpResponse:
        assert self._head is not None
        return HttpResponse(*self._head, bytes(self._body), self._reusable)


def _headers(text: bytes) -> dict[str, str]:
    """Header values by name in lower case; of those that occur several times, all, separated by commas."""
    found: dict[str, str] = {}
    for line in text.decode("latin-1").split("\r\n") if text else ():
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():  # also a continued line, which begins with a space
            raise InvalidHttpResponse(f"a header line: {line[:80]!r}")
        name, value = name.lower(), value.strip(" \t")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
