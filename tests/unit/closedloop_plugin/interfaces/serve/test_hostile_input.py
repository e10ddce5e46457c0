"""Fuzzing: every request gets a completion or an error object, and none blocks the others."""

from __future__ import annotations

import base64
import io
import json
import socket
import struct
import zlib
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.closedloop.models import FakeModel, picture
from support.closedloop.serving import Served, data_url, served, user
from support.tiers import examples

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.interfaces.serve.services import DriverService, ModelService

pytestmark = pytest.mark.integration

MANY = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PICTURE = data_url(picture("front"))
scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
part = anything | st.sampled_from([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": PICTURE}}])
message = anything | st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "system", "assistant"]) | anything,
        "content": st.lists(part, max_size=3) | anything,
    }
)
bodies = st.fixed_dictionaries(
    {"model": st.sampled_from(["fake", "ad2-driver"]) | anything, "messages": st.lists(message, max_size=3) | anything},
    optional=dict.fromkeys(("max_tokens", "temperature", "n", "stream", "stop", "tools"), anything),
)
DRIVE = {
    "ad2_drive": 1, "episode": "e", "tick": 1, "time_s": 0.1, "speed": 1.0, "command": "lane follow",
    "target": [1.0, 0.0], "speed_limit": None, "cameras": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    driver = DriverService(make_agent("random"), None, profile("bench2drive"))
    with served([ModelService(FakeModel(lambda q: "fine"))], driver=driver) as running:
        yield running
        assert running.call("/health")[1]["failed"] == 0


def checked_status(server: Served, body: Any) -> int:
    """The status; checks that the reply is well-formed and that the server still answers."""
    status, reply, _ = server.call("/v1/chat/completions", body)
    if status == 200:
        assert isinstance(reply["choices"][0]["message"]["content"], str)
    else:
        assert (
            status in (400, 404)
            and isinstance(reply["error"]["message"], str)
            and len(reply["error"]["message"]) < 2000
        )
    return status


def many_scans() -> bytes:
    """A progressive JPEG whose decoder would pass over the picture 50,000 times."""
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "JPEG", progressive=True)
    return buffer.getvalue()[:-2] + 50_000 * b"\xff\xda\x00\x08\x01\x01\x00\x01\x05\x00" + b"\xff\xd9"


def one_column() -> bytes:
    """The header of a PNG that no decoder accepts, although its number of pixels is allowed."""
    header = b"IHDR" + struct.pack(">LLBBBBB", 1, 39_000_000, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0d" + header + struct.pack(">L", zlib.crc32(header)) + b"\0\0\0\0IDAT"


@pytest.mark.parametrize(
    ("kind", "content", "reason"), [("jpeg", many_scans(), "scans"), ("png", one_column(), "a side of more than")]
)
def test_an_image_that_cannot_be_decoded_is_the_client_s_fault(
    server: Served, kind: str, content: bytes, reason: str
) -> None:
    url = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    question = user("What is ahead?", {"type": "image_url", "image_url": {"url": url}})
    status, reply, _ = server.chat(messages=question)
    assert (status, reply["error"]["code"]) == (400, "invalid_image")
    assert reason in reply["error"]["message"]


@MANY
@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode) | anything.map(lambda x: json.dumps(x).encode()))
def test_any_bytes_are_refused(server: Served, raw: bytes) -> None:
    assert checked_status(server, raw) in (400, 404)


@MANY
@given(bodies.filter(lambda b: b.get("stream") is not True))
def test_any_json_that_resembles_a_request_is_answered(server: Served, body: dict[str, Any]) -> None:
    checked_status(server, body)
    assert server.chat()[0] == 200


@MANY
@given(st.dictionaries(st.sampled_from(sorted(DRIVE)), anything), st.lists(st.just(PICTURE), max_size=2))
def test_any_change_to_a_driver_request_is_answered(server: Served, change: dict[str, Any], urls: list[str]) -> None:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    checked_status(server, {"model": "ad2-driver", "messages": user(*pictures, json.dumps({**DRIVE, **change}))})


@MANY
@given(st.binary(max_size=60), st.sampled_from(["png", "jpeg", "webp"]), st.integers(0, 400))
def test_any_picture_data_are_answered(server: Served, junk: bytes, kind: str, keep: int) -> None:
    """The beginning of a real picture, followed by any bytes."""
    head, _, data = data_url(picture("front"), kind).partition(",")
    damaged = base64.b64encode(base64.b64decode(data)[:keep] + junk).decode()
    checked_status(
        server,
        {"model": "fake", "messages": user("x", {"type": "image_url", "image_url": {"url": f"{head},{damaged}"}})},
    )


@pytest.mark.parametrize(
    "raw", [b"\0\0\0", b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"]
)
def test_an_incomplete_request_does_not_block_others(server: Served, raw: bytes) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(raw)
        assert server.chat()[0] == 200
