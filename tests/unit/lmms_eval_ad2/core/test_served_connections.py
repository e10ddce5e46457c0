"""Half-sent requests do not lock the other clients of a local server out."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lmms_eval_ad2.core import served_connections
from lmms_eval_ad2.core.served_connections import ServedConnections, allowed_names, host_fault, is_loopback

OWN = socket.gethostname()


@pytest.mark.parametrize(
    ("header", "bound"),
    [
        (None, "127.0.0.1"),
        ("127.0.0.1:8100", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("LOCALHOST.:80", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.1"),
        ("[::1]:8100", "127.0.0.1"),
        ("10.0.0.5:8100", "10.0.0.5"),
        ("gpu7:8100", "gpu7"),
        ("10.0.0.5", "0.0.0.0"),
        ("[fd00::1]:8100", "::"),
        (OWN, "0.0.0.0"),
        (f"{OWN.partition('.')[0]}.local:1", "0.0.0.0"),
        ("proxy.example", "127.0.0.1"),
    ],
)
def test_names_of_this_server(header: str | None, bound: str) -> None:
    assert host_fault(header, bound, allowed_names("proxy.example, b,")) is None


@pytest.mark.parametrize(
    ("header", "bound"),
    [
        ("evil.example", "127.0.0.1"),
        ("evil.example:8100", "0.0.0.0"),
        ("127.0.0.1.evil.example", "127.0.0.1"),
        ("localhost.evil.example", "127.0.0.1"),
        ("10.0.0.6", "10.0.0.5"),
        ("", "127.0.0.1"),
        ("[::1].evil", "10.0.0.5"),
        ("x" * 5000, "0.0.0.0"),
    ],
)
def test_other_names(header: str, bound: str) -> None:
    fault = host_fault(header, bound)
    assert fault and "--config allow_host=" in fault and len(fault) < 600


def test_loopback() -> None:
    assert is_loopback("127.0.0.9") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("gpu7") and not is_loopback("localhost.evil")


pytestmark = pytest.mark.integration
LONG_S = 3600.0
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class OneLine(asyncio.Protocol):
    """A line is a request header, which is answered when `release` is set."""

    def __init__(self, connections: ServedConnections, release: asyncio.Event) -> None:
        self.connections, self.release, self.text = connections, release, b""
        self.begun = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.text += data
        if self.text.endswith(b"\n"):
            self.task = asyncio.ensure_future(self.answer())

    async def answer(self) -> None:
        peer = self.transport.get_extra_info("peername")
        with self.connections.request(peer):
            self.connections.answering(peer)
            self.transport.write(b"begun\n")
            await self.release.wait()
            self.transport.write(b"answered\n")


@asynccontextmanager
async def serving(
    connections: ServedConnections, release: asyncio.Event
) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Client]]]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connections.factory(lambda: OneLine(connections, release)), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(await asyncio.open_connection("127.0.0.1", port))
        return clients[-1]

    try:
        yield connect
    finally:
        server.close()
        for _, writer in clients:
            writer.close()


async def send(client: Client, data: bytes) -> None:
    client[1].write(data)
    await client[1].drain()


async def is_closed(client: Client) -> bool:
    """Wait for the end of the connection."""
    try:
        return await client[0].read() == b""
    except ConnectionError:
        return True


def limits(monkeypatch: pytest.MonkeyPatch, header_s: float, idle_s: float = LONG_S) -> None:
    monkeypatch.setattr(served_connections, "HEADER_S", header_s)
    monkeypatch.setattr(served_connections, "IDLE_S", idle_s)


@pytest.mark.parametrize("part", [b"", b"POST / HT"])
def test_a_header_that_does_not_come_closes_the_connection(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch, 0.05)

    async def work() -> None:
        async with serving(ServedConnections(8), asyncio.Event()) as connect:
            client = await connect()
            await send(client, part)
            assert await is_closed(client)

    asyncio.run(work())


def test_a_request_whose_header_is_complete_has_no_limit_here(monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch, 0.05)

    async def work() -> None:
        release = asyncio.Event()
        async with serving(ServedConnections(8), release) as connect:
            client, silent = await connect(), await connect()
            await send(client, b"request\n")
            assert await is_closed(silent), "its time is over, as that of the other would be"
            release.set()
            assert await client[0].readexactly(15) == b"begun\nanswered\n"

    asyncio.run(work())


@pytest.mark.parametrize(("header_s", "idle_s", "further"), [(0.05, LONG_S, b"next req"), (LONG_S, 0.05, b"")])
def test_the_limits_hold_for_further_requests(
    header_s: float, idle_s: float, further: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(monkeypatch, LONG_S, idle_s)

    async def work() -> None:
        release = asyncio.Event()
        release.set()
        async with serving(ServedConnections(8), release) as connect:
            client = await connect()
            await send(client, b"request\n")
            assert await client[0].readexactly(15) == b"begun\nanswered\n"
            monkeypatch.setattr(served_connections, "HEADER_S", header_s)
            await send(client, further)
            assert await is_closed(client)

    asyncio.run(work())


def test_a_new_connection_displaces_the_oldest_that_waits_for_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch, LONG_S)

    async def work() -> None:
        release = asyncio.Event()
        async with serving(ServedConnections(4), release) as connect:
            working = await connect()
            await send(working, b"request\n")
            assert await working[0].readline() == b"begun\n"
            silent = [await connect() for _ in range(20)]
            good = await connect()
            await send(good, b"request\n")
            assert await good[0].readline() == b"begun\n"
            for client in silent[:18]:
                assert await is_closed(client)
            release.set()
            assert await working[0].readline() == await good[0].readline() == b"answered\n"

    asyncio.run(work())


def test_if_all_are_answered_a_further_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch, LONG_S)

    async def work() -> None:
        release = asyncio.Event()
        connections = ServedConnections(2)
        async with serving(connections, release) as connect:
            working = [await connect() for _ in range(2)]
            for client in working:
                await send(client, b"request\n")
                assert await client[0].readline() == b"begun\n"
            assert await is_closed(await connect())
            release.set()
            for client in working:
                assert await client[0].readline() == b"answered\n"

    asyncio.run(work())


def test_connections_that_the_system_does_not_accept_are_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        ServedConnections(2).handle_accept_errors(loop)
        for _ in range(100):
            exc = OSError(errno.EMFILE, "Too many open files")
            loop.call_exception_handler(
                {"message": "socket.accept() out of system resource", "exception": exc, "socket": None}
            )

    asyncio.run(work())
    out, err = capfd.readouterr()
    assert err.splitlines() == ["no more connections are accepted: [Errno 24] Too many open files"]
    assert not out
