"""Requests to the annotation page that no browser with the page open sends."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from support.annotate.browser import Server, served

pytestmark = pytest.mark.system


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGB", (64, 48)).save(folder / "a.png")
    return folder


def status_of(server: Server, path: str, body: Any = None) -> int:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url.rstrip("/") + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status
    except urllib.error.HTTPError as exc:
        exc.close()
        return exc.code


def test_half_sent_requests_lock_no_reviewer_out(tmp_path: Path, pictures: Path) -> None:
    with (
        served(pictures, "--out", tmp_path / "notes", "--config", "ask=suggestion", cwd=tmp_path) as server,
        contextlib.ExitStack() as opened,
    ):
        address = urlsplit(server.url)
        for _ in range(400):
            silent = opened.enter_context(socket.create_connection((address.hostname, address.port)))
            silent.sendall(b"POST / HTTP/1.1\r\nX-a: ")
        assert status_of(server, "/") == 200
        assert server.stop() == 0


def test_invalid_events_print_one_line_for_each_kind(tmp_path: Path, pictures: Path) -> None:
    with served(pictures, "--out", tmp_path / "notes", "--config", "ask=suggestion", cwd=tmp_path) as server:
        for number in (0, 1, 2, 9999) * 10:
            status_of(server, "/gradio_api/queue/join", {"data": [], "fn_index": number, "session_hash": "a"})
            status_of(server, "/gradio_api/run/predict", {"data": [{"a": 1}], "fn_index": number})
            status_of(server, "/gradio_api/call/none", {"data": []})
        assert server.stop() == 0
        assert server.process.stdout is not None
        output = server.process.stdout.read()
    assert "an invalid event was refused: KeyError: 9999" in output
    assert "Traceback" not in output
    assert len(output.splitlines()) < 20
