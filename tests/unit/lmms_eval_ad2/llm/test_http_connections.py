"""llm/http_connections: proxies, TLS, heads of requests. Failures of servers are in test_client.py."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.client import ChatClient, EndpointConfig
from lmms_eval_ad2.llm.http_connections import HttpAddress, HttpConnections
from lmms_eval_ad2.llm.http_response import HttpResponse

pytestmark = pytest.mark.integration

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def exchange(url: Callable[[int], str], body: bytes = b"{}", replies: tuple[bytes, ...] = (REPLY,)) -> list[bytes]:
    """What a server at a port got; it sends one of `replies` after each head."""
    got: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            got.append(await reader.readuntil(b"\r\n\r\n"))
            if b"Content-Length: " in got[-1]:
                got.append(await reader.readexactly(len(body)))
            writer.write(reply)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        where = url(port)
        address = HttpAddress.of(where)
        connections = HttpConnections(1000)
        try:
            sent = connections.send(address, address.head("POST", where, {"X-Test": "1"}), body, 5.0)
            assert (await sent).body == b"{}"
        finally:
            await connections.close()
            server.close()

    asyncio.run(main())
    return got


def test_a_request_is_one_head_and_its_body() -> None:
    head, body = exchange(lambda port: f"http://127.0.0.1:{port}/v1/a b", b"x" * 100_000)
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/a%20b HTTP/1.1" and lines[1].startswith("Host: 127.0.0.1:")
    assert "X-Test: 1" in lines and "Content-Length: 100000" in lines and body == b"x" * 100_000


def test_a_proxy_of_the_environment_gets_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    def url(port: int) -> str:
        monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{port}")
        return "http://models.test/v1/x"

    head, _ = exchange(url)
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST http://models.test/v1/x HTTP/1.1" and "Host: models.test" in lines
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz" in lines


def test_a_tunnel_through_a_proxy_does_not_show_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def url(port: int) -> str:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        return "https://models.test/v1/x"

    with pytest.raises(OSError, match="the proxy does not connect: HTTP 407"):
        exchange(url, replies=(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 3\r\n\r\n",))
    seen: list[bytes] = []
    with pytest.raises(OSError):  # no TLS behind this proxy
        seen = exchange(url, replies=(b"HTTP/1.1 200 Connection established\r\n\r\nno TLS",))
    assert seen == []


def test_no_proxy_is_used_for_the_hosts_of_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.test:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert HttpAddress.of("http://127.0.0.1:8000/v1").proxy is None
    assert HttpAddress.of("http://10.1.1.1:8000/v1").proxy == "http://proxy.test:1"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://gpu1..local/v1",
        f"http://{'a' * 64}/v1",
    ],
)
def test_an_address_that_is_no_url_is_a_users_mistake(url: str) -> None:
    with pytest.raises(Ad2Error, match="base_url"):
        ChatClient(EndpointConfig(url))


def test_a_key_with_a_line_break_is_refused() -> None:
    with pytest.raises(Ad2Error, match="line break") as caught:
        ChatClient(EndpointConfig("http://host/v1", api_key="sk-a\r\nX: b"))
    assert "sk-a" not in str(caught.value)


def test_a_cancelled_request_does_not_answer_the_next_one() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.write(REPLY)

    async def main(ask: Callable[[], Awaitable[HttpResponse]], connections: HttpConnections) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(), 0.01)
        assert (await ask()).body == b"{}"

    async def run() -> None:
        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        address, connections = HttpAddress.of(url), HttpConnections(1000)
        await main(lambda: connections.send(address, address.head("GET", url, {}), b"", 5.0), connections)
        await connections.close()
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "proxy", ["socks5://user:secret@proxy:1080", "http://proxy:80x80", "http://user:secret@a..b:1"]
)
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(Ad2Error, match="environment variable http_proxy") as caught:
        ChatClient(EndpointConfig("http://host.test/v1"))
    assert "secret" not in str(caught.value) and "base_url" not in str(caught.value)


def test_a_proxy_without_a_scheme_is_one_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.test:3128")
    assert HttpAddress.of("http://host.test/v1").proxy == "http://proxy.test:3128"


def test_a_connection_whose_request_was_not_read_is_not_used_again() -> None:
    """The server answers the heads, and reads no body: the bodies must not pile up in front of the next request."""
    accepted = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(REPLY)

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1000)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        address, connections = HttpAddress.of(url), HttpConnections(1000)
        try:
            for _ in range(3):
                sent = connections.send(address, address.head("POST", url, {}), b"x" * 50_000_000, 30.0)
                assert (await sent).body == b"{}"
        finally:
            await connections.close()
            server.close()

    asyncio.run(main())
    assert accepted == 3
