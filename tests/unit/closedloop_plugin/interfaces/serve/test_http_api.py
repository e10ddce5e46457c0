"""Invalid requests: HTTP status, and a message that names the invalid field."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import socket
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest
from PIL import ImageFile
from support.closedloop.models import FakeModel, picture
from support.closedloop.serving import Served, Tunable, client, data_url, served, user

from closedloop_plugin.interfaces.serve import http_api
from closedloop_plugin.interfaces.serve.http_api import RequestLimits
from closedloop_plugin.interfaces.serve.services import ModelService
from lmms_eval_ad2.core import served_connections

pytestmark = pytest.mark.integration

BIG = base64.b64encode(b"x" * 4000).decode()
NOISE = np.random.default_rng(0).integers(0, 256, (90, 160, 3), np.uint8)
CUT = data_url(NOISE, "png")[:-400]  # a multiple of four characters: valid base64 of a truncated picture


@pytest.mark.parametrize(
    ("change", "status", "named"),
    [({"model": None}, 400, "model"), ({"model": "gpt"}, 404, "fake"), ({"messages": []}, 400, "messages"),
     ({"messages": "hi"}, 400, "messages"), ({"messages": [{"role": "user"}]}, 400, "messages[0].content"),
     ({"messages": [*user("a"), *user("b")]}, 400, "messages[1]"),
     ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "messages[0].role"),
     ({"messages": [{"role": "system", "content": "x"}]}, 400, "one user message"),
     ({"messages": user("  ")}, 400, "as text"), ({"n": 2}, 400, "n:"), ({"stream": "yes"}, 400, "stream"),
     ({"stream_options": "usage"}, 400, "stream_options"),
     ({"stream_options": {"include_usage": 1}}, 400, "stream_options.include_usage"),
     ({"max_tokens": 0}, 400, "max_tokens"), ({"max_tokens": True}, 400, "max_tokens"),
     ({"max_completion_tokens": 10**9}, 400, "max_completion_tokens"), ({"temperature": -1}, 400, "temperature"),
     ({"temperature": float("nan")}, 400, "temperature"),
     ({"messages": user("a", {"type": "input_audio"})}, 400, "messages[0].content[1]"),
     ({"messages": user("a", {"type": "image_url", "image_url": {"url": 7}})}, 400, "image_url"),
     ({"messages": user("a", *[picture("front")] * 65)}, 400, "at most 64"),
     *(({"messages": user("a", {"type": "image_url", "image_url": {"url": url}})}, 400, named) for url, named in (
         ("http://169.254.169.254/latest", "nothing is fetched"), ("file:///etc/passwd", "nothing is fetched"),
         ("data:image/svg+xml;base64,PHN2Zy8+", "nothing is fetched"), ("data:image/png;base64,@@@", "not base64"),
         (f"data:image/png;base64,{BIG}", "not a complete image"), (CUT, "not a complete image: image file"),
         (data_url(np.zeros((4, 4, 3), np.uint8), "gif").replace("gif", "png"), "not a complete image"))),
     ],
)  # fmt: skip
def test_the_invalid_field_is_named(server: Served, change: dict, status: int, named: str, monkeypatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms-eval sets it
    got, body, _ = server.chat(**change)
    assert (got, set(body), set(body["error"])) == (status, {"error"}, {"message", "type", "param", "code"})
    assert named in body["error"]["message"]


def test_a_decompression_bomb_is_refused_before_it_is_decoded(server: Served) -> None:
    """49 million pixels in about 100 KB; and several pictures that are too many pixels only together."""
    one = data_url(np.zeros((7000, 7000), np.uint8))
    assert len(one) < 200_000
    third = data_url(np.zeros((4000, 4000), np.uint8))
    for urls in ([one], [third] * 3):
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        status, body, _ = server.chat(messages=user("a", *parts))
        assert status == 400 and "pixels in one request" in body["error"]["message"]


def test_wrong_paths_methods_and_types_are_refused(server: Served) -> None:
    assert server.call("/v1/nothing")[0] == 404
    assert server.call("/v1/chat/completions")[0] == 405
    assert server.call("/v1/models/nothing")[0] == 404
    assert server.call("/v1/ad2/driver")[0] == 404
    for body in (b"", b"nonsense", b"[]", b"[" * 100_000, b'"\xff"', b"1" * 10_000, b"{}"):
        assert server.call("/v1/chat/completions", body)[0] == 400
    assert server.call("/v1/chat/completions", b"{}", **{"Content-Type": "text/plain"})[0] == 415


@pytest.fixture(scope="module")
def server():
    with served(Tunable(lambda q: "x")) as running:
        yield running


def test_an_api_key_is_required() -> None:
    with served(FakeModel(lambda q: "x"), key="sésame") as server:
        assert server.call("/health")[0] == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}):
            status, body, _ = server.call("/v1/models", **headers)
            assert status == 401 and body["error"]["code"] == "invalid_api_key"
            assert server.call("/v1/chat/completions", b"nonsense", **headers)[0] == 401
    with served(FakeModel(lambda q: "x"), key="sesame") as server, client(server.url, "sesame") as openai_client:
        assert openai_client.chat.completions.create(model="fake", messages=user("?")).choices[0].message.content == "x"
        with client(server.url, "other") as unauthorised, pytest.raises(openai.AuthenticationError):
            unauthorised.models.list()


def test_a_too_large_body_is_a_413_with_and_without_content_length(server: Served) -> None:
    with served(FakeModel(lambda q: "x"), limits=RequestLimits(body_bytes=10_000)) as small:
        assert small.chat()[0] == 200
        status, body, _ = small.chat(messages=user("x" * 20_000))
        assert status == 413 and "0.0095" in body["error"]["message"]
        assert _chunked(small, b"x" * 20_000) == 413


def test_an_incomplete_body_is_a_408_and_frees_its_place_in_the_queue() -> None:
    with served(FakeModel(lambda q: "x"), limits=RequestLimits(queue=1)) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        connection.putrequest("POST", "/v1/chat/completions")
        for name, value in (("Content-Type", "application/json"), ("Content-Length", "99")):
            connection.putheader(name, value)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http_api, "_BODY_S", 0.05)
            connection.endheaders(b"{")
            assert connection.getresponse().status == 408
        connection.close()
        assert server.chat()[0] == 200


def test_an_internal_error_is_an_error_object_too(capfd: pytest.CaptureFixture[str]) -> None:
    service = ModelService(FakeModel(lambda q: "x"))
    service.read = lambda chat: 1 / 0  # type: ignore[assignment,return-value]
    with served([service]) as server, contextlib.redirect_stderr(io.StringIO()):  # as during a model call
        status, body, _ = server.chat()
    assert (status, body["error"]["code"]) == (500, "internal_error") and "division" not in body["error"]["message"]
    assert "ZeroDivisionError" in capfd.readouterr().err


def _chunked(server: Served, body: bytes) -> int:
    """The status for a body without Content-Length."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    connection.request("POST", "/v1/chat/completions", iter([body]), headers, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    return status


def test_half_sent_requests_lock_no_other_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "_CONNECTIONS", 8)
    with served(FakeModel(lambda q: "fine")) as server, contextlib.ExitStack() as opened:
        address = urlsplit(server.url)
        for _ in range(40):
            silent = opened.enter_context(socket.create_connection((address.hostname, address.port)))
            silent.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nX-a: ")
        assert server.call("/health")[0] == 200
        assert server.chat()[0] == 200
        assert silent.fileno() >= 0


def test_a_header_that_is_not_completed_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(served_connections, "HEADER_S", 0.05)
    with served(FakeModel(lambda q: "fine")) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)) as silent:
            silent.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nX-a: ")
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(100) == b""
        assert server.chat()[0] == 200
    assert "Traceback" not in "".join(capfd.readouterr())
