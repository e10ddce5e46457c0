"""llm/http_client against sockets that send any bytes: framing, bounds, kept connections, proxies, TLS.

Failures of endpoints that speak HTTP are in test_client.py.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lmms_eval_ad2.llm import http_client
from lmms_eval_ad2.llm.completion import NoCompletion
from lmms_eval_ad2.llm.http_address import HttpAddress
from lmms_eval_ad2.llm.http_client import LONGEST_HEADER, ClosedConnectionError, HttpClient, HttpReply

pytestmark = pytest.mark.integration

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
REPLY = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;note=x\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
KEEP, CLOSE = True, False


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@dataclass
class RawServer:
    """Answers each request with the next of `replies`, `keep`: without closing then."""

    replies: Iterable[bytes]
    keep: bool = KEEP
    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replies = iter(self.replies)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lengths = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Content-Length")]
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(int(lengths[0])) if lengths else b"")
                if (reply := next(self.replies, None)) is None:  # type: ignore[call-overload]
                    return
                writer.write(reply)
                await writer.drain()
                if not self.keep:
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def talk(
    server: RawServer, todo: Callable[[Callable[..., Awaitable[HttpReply]]], Awaitable[None]], url: str = ""
) -> None:
    """Run `todo(send)` with the server; `send(body)` posts to it, or to `url`."""

    async def main() -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        client = HttpClient()

        async def send(body: bytes = b"{}", timeout_s: float = 30.0, **headers: str) -> HttpReply:
            return await client.send("POST", HttpAddress.of(url or server.url, headers), "x", timeout_s, body)

        try:
            await todo(send)
        finally:
            await client.close()
            listening.close()

    asyncio.run(main())


def replies_of(server: RawServer, count: int = 1, url: str = "") -> list[HttpReply]:
    found: list[HttpReply] = []

    async def ask(send: Callable[..., Awaitable[HttpReply]]) -> None:
        found.extend([await send() for _ in range(count)])

    talk(server, ask, url)
    return found


def test_a_request_is_a_head_and_its_body() -> None:
    server = RawServer([REPLY] * 2)

    async def ask(send: Callable[..., Awaitable[HttpReply]]) -> None:
        await send(b"x" * 100_000, Authorization="Bearer k")
        await send(b"y" * 3_000_000)  # longer than what is written at once

    talk(server, ask)
    lines = server.heads[0].split("\r\n")
    assert lines[0] == "POST /v1/x HTTP/1.1" and lines[1] == f"Host: 127.0.0.1:{server.port}"
    assert "Authorization: Bearer k" in lines and "Content-Length: 100000" in lines
    assert "Authorization" not in server.heads[1] and "Content-Length: 3000000" in server.heads[1]
    assert server.bodies == [b"x" * 100_000, b"y" * 3_000_000]


def test_a_connection_that_was_idle_for_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_IDLE_S", 0.0)
    server = RawServer([REPLY] * 2)
    replies_of(server, 2)
    assert server.connections == 2


@pytest.mark.parametrize("data", [b"", HEAD, REPLY[:-1], CHUNKED[:-4]])
def test_a_response_that_is_cut_off_is_a_closed_connection(data: bytes) -> None:
    with pytest.raises(ClosedConnectionError, match="the server closed the connection"):
        replies_of(RawServer([data], keep=CLOSE))


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (2 * LONGEST_HEADER),
        HEAD + b"x: y\r\n" * 100_000,
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello",
        HEAD + b"no colon\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_failed_connection(data: bytes) -> None:
    with pytest.raises(OSError) as caught:
        replies_of(RawServer([data]))
    assert not isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1F4\r\n" + b"x" * 500 + b"\r\n") * 3,
        HEAD + b"\r\n" + b"x" * 1001,
    ],
)
def test_a_body_is_bounded(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(http_client, "LONGEST_BODY", 1000)
    with pytest.raises(NoCompletion, match="a body of more than 1,000 bytes") as caught:
        replies_of(RawServer([data]))
    assert caught.value.reason == "too_long"


def test_a_compressed_body_is_refused_unread() -> None:
    packed = zlib.compress(bytes(10**6))
    head = HEAD + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with pytest.raises(NoCompletion, match="'deflate', which was not requested"):
        replies_of(RawServer([head + packed]))
    (found,) = replies_of(RawServer([(head + packed).replace(b"200 OK", b"500 Error")]))
    assert (found.status, found.body) == (500, b"")


def test_a_redirect_is_returned_and_cookies_are_not_kept() -> None:
    moved = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2/x\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    server = RawServer([moved, REPLY])
    first, second = replies_of(server, 2)
    assert (first.status, second.status) == (307, 200)
    assert "Cookie" not in server.heads[1] and "/v1/x" in server.heads[1]


def test_a_password_of_netrc_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netrc"
    file.write_text("default login user password secret\n")
    monkeypatch.setenv("NETRC", str(file))
    server = RawServer([REPLY])
    replies_of(server)
    assert "Authorization" not in server.heads[0]


def test_a_slow_body_times_out_as_a_whole() -> None:
    class DrippingServer(RawServer):
        """Sends a byte of the body whenever the socket is free, without an end."""

        async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.01)

    async def ask(send: Callable[..., Awaitable[HttpReply]]) -> None:
        with pytest.raises(TimeoutError):
            await send(timeout_s=0.2)

    talk(DrippingServer([]), ask)


def test_a_refused_connection_has_the_systems_text() -> None:
    async def ask(send: Callable[..., Awaitable[HttpReply]]) -> None:
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await send()

    talk(RawServer([]), ask, "http://127.0.0.1:1/v1")


def test_a_proxy_of_the_environment_gets_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxy(RawServer):
        @property
        def url(self) -> str:
            monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{self.port}")
            return "http://models.test/v1"

    server = Proxy([REPLY] * 2)
    assert [found.body for found in replies_of(server, 2)] == [b"hello"] * 2
    lines = server.heads[1].split("\r\n")
    assert lines[0] == "POST http://models.test/v1/x HTTP/1.1" and "Host: models.test" in lines
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz" in lines and server.connections == 1


def test_a_tunnel_through_a_proxy_does_not_show_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxy(RawServer):
        @property
        def url(self) -> str:
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{self.port}")
            return "https://models.test/v1"

    refusing = Proxy([b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 3\r\n\r\nno!"])
    with pytest.raises(OSError, match="the proxy does not connect: HTTP 407"):
        replies_of(refusing)
    without_tls = Proxy([b"HTTP/1.1 200 Connection established\r\n\r\nno TLS"])
    with pytest.raises(OSError):
        replies_of(without_tls)
    heads = refusing.heads + without_tls.heads
    assert [head.split("\r\n")[0] for head in heads] == ["CONNECT models.test:443 HTTP/1.1"] * 2


CLIENT = """
import asyncio, json, sys
from lmms_eval_ad2.llm.http_address import HttpAddress
from lmms_eval_ad2.llm.http_client import HttpClient

async def main():
    client = HttpClient()
    address = HttpAddress.of(sys.argv[1], {"Authorization": "Bearer sk"})
    try:
        found = [(await client.send("POST", address, "x", 30.0, b"{}")).body.decode() for _ in range(2)]
    except OSError as exc:
        found = [f"{type(exc).__name__}: {exc}"]
    await client.close()
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of models.test and 127.0.0.1, with its key."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "models.test")])
    names = [x509.DNSName("models.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def ask_over_tls(certificate: Path, host: str, **environment: str) -> tuple[list[str], RawServer]:
    """What a client in a process of its own printed, and the TLS server at `host`:PORT."""
    server = RawServer([REPLY] * 2)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def main() -> list[str]:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context)
        server.port = listening.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, f"https://{host}:{server.port}/v1",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
            stdout=asyncio.subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        listening.close()
        return list(json.loads(out))

    return asyncio.run(main()), server


def test_tls_needs_a_certificate_that_the_system_or_ssl_cert_file_trusts(certificate: Path) -> None:
    found, server = ask_over_tls(certificate, "127.0.0.1", SSL_CERT_FILE=str(certificate))
    assert found == ["hello", "hello"] and server.connections == 1
    found, server = ask_over_tls(certificate, "127.0.0.1")
    assert "CERTIFICATE_VERIFY_FAILED" in found[0] and server.heads == []
    found, server = ask_over_tls(certificate, "localhost", SSL_CERT_FILE=str(certificate))
    assert "Hostname mismatch" in found[0] and server.heads == []
