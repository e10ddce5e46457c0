"""Requests that are refused before Gradio receives them, and what is printed about failed events."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import pytest

from lmms_eval_ad2.annotate import page_server
from lmms_eval_ad2.annotate.page_html import read_marks
from lmms_eval_ad2.annotate.page_server import MOST_BODY, EventErrors, PageGuard


def exchange(*messages: dict[str, Any], method: str = "POST", **headers: str) -> tuple[int | None, bytes | None]:
    """(status, body that the app received); None for no reply, or if the app was not called."""
    received: list[bytes] = []
    statuses: list[int] = []
    waiting = list(messages) or [body(b"{}")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    sent = {"host": "127.0.0.1:7861", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "method": method, "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    asyncio.run(PageGuard(app, "127.0.0.1", ["page.example"])(scope, receive, send))
    return (statuses[0] if statuses else None), (received[0] if received else None)


def body(content: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": content, "more_body": more}


def test_requests_of_the_page_reach_the_app_unchanged() -> None:
    assert exchange(body(b'{"a"', more=True), body(b": 1}")) == (200, b'{"a": 1}')
    assert exchange(origin="http://127.0.0.1:7861") == (200, b"{}")
    assert exchange(host="page.example", origin="https://page.example") == (200, b"{}")
    assert exchange(body(b""), method="GET") == (200, b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"content_encoding": "deflate"}, 415),
        ({"content_length": str(MOST_BODY + 1)}, 413),
        ({"content_length": "9" * 5000}, 413),
    ],
)
def test_other_requests_do_not(headers: dict[str, str], status: int) -> None:
    assert exchange(**headers) == (status, None)


@pytest.mark.parametrize(
    ("content", "status"), [(b"x" * (MOST_BODY + 1), 413), (b"[" * 1000, 400), (b"[],[]," * 50_000, 400)]
)
def test_bodies_are_bounded(content: bytes, status: int) -> None:
    half = len(content) // 2
    assert exchange(body(content[:half], more=True), body(content[half:])) == (status, None)


def test_a_client_that_leaves_gets_no_reply() -> None:
    assert exchange(body(b"{", more=True), {"type": "http.disconnect"}) == (None, None)


def test_a_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "_BODY_S", 0.01)
    seen: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        seen.append(message)

    scope = {"type": "http", "headers": [(b"host", b"localhost")]}
    asyncio.run(PageGuard(never, "127.0.0.1")(scope, never, send))
    assert seen[0]["status"] == 408


def library_error(errors: EventErrors) -> None:
    """An error below a foreign package, as of Gradio."""
    from hypothesis import find
    from hypothesis import strategies as st

    try:
        find(st.integers(), lambda n: json.loads("["))
    except ValueError:
        errors.print_exc()


def own_error(errors: EventErrors) -> None:
    try:
        read_marks(7)  # type: ignore[arg-type]
    except AttributeError:
        errors.print_exc()


def test_an_error_of_a_library_is_one_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    for _ in range(100):
        library_error(errors)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("an invalid event was refused: JSONDecodeError: Expecting value")


def test_an_error_of_our_code_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    for _ in range(3):
        own_error(errors)
    err = capsys.readouterr().err
    assert err.count("Traceback") == 1
    assert "page_html.py" in err


def test_records_of_exceptions_are_replaced_and_others_kept(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    kept = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "no exception", None, None)
    assert errors.filter(kept)
    try:
        raise KeyError(9999)
    except KeyError:
        failed = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception", None, sys.exc_info())
    assert not errors.filter(failed)
    assert capsys.readouterr().err == "an invalid event was refused: KeyError: 9999\n"
