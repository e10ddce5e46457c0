"""An OpenAI-compatible endpoint on this machine that records every request, and the form of requests in recordings.

    with serve(lambda body: "Turn left.") as endpoint:
        ... endpoint.url ... endpoint.requests ...
    described(endpoint.requests)

It answers POST .../chat/completions, GET .../models. It uses only the standard library, so it does not depend on
modules that move.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Reply = Callable[[Json], "str | int"]

KEY = "sk-golden"  # OPENAI_API_KEY of the commands
HEADERS = ("authorization", "content-type", "accept")  # user-agent and others depend on library versions
SHORT = 16  # hex digits of a digest
TEXTS_KEPT = 3  # requests of a kind whose texts are recorded in full


@dataclass(frozen=True)
class Request:
    """`sent`: digest of the body's bytes. `body` has digests in place of pictures, which may be half a megabyte."""

    method: str
    path: str
    headers: dict[str, str]
    sent: str
    body: Json


@dataclass
class Endpoint:
    """`reply`: the completion's text for a body, or the HTTP status of a refusal. `requests`: in order of arrival."""

    reply: Reply
    url: str = ""
    models: tuple[str, ...] = ("golden",)
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_requests(self) -> list[Request]:
        """The requests since the last call; without those for the list of models."""
        with self.lock:
            found, self.requests = [r for r in self.requests if r.method == "POST"], []
        return found


@contextmanager
def serve(reply: Reply, models: tuple[str, ...] = ("golden",)) -> Iterator[Endpoint]:
    """The endpoint until the block ends. `url` ends in /v1, as clients expect of a base URL."""
    endpoint = Endpoint(reply, models=models)
    handler = type("Handler", (_Handler,), {"endpoint": endpoint})
    server = _Server(("127.0.0.1", 0), handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    protocol_version = "HTTP/1.1"
    wbufsize = 2**16  # head and body in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._record(b"")
        self._send(200, {"object": "list", "data": [{"id": m, "object": "model"} for m in self.endpoint.models]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = self._record(raw)
        with self.endpoint.lock:
            reply = self.endpoint.reply(body)
        if isinstance(reply, int):
            self._send(reply, {"error": {"message": f"status {reply}", "type": "golden", "code": None}})
        else:
            self._send(200, completion(body, reply))

    def _record(self, raw: bytes) -> Json:
        headers = {name: self.headers[name] for name in HEADERS if self.headers[name]}
        body = json.loads(raw) if raw else {}
        for message in body.get("messages", ()):
            message["content"] = _without_pictures(message["content"])
        with self.endpoint.lock:
            self.endpoint.requests.append(Request(self.command, self.path, headers, short(raw), body))
        return dict(body)

    def _send(self, status: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the requests are recorded."""


def _without_pictures(content: Any) -> Any:
    """A message's content with the type and the digest of a picture in place of its data URL."""
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Json) -> Json:
    if part.get("type") != "image_url":
        return part
    head, _, data = part["image_url"]["url"].partition(";base64,")
    shown = f"{head} {short(base64.b64decode(data))}" if data else head
    return {**part, "image_url": {**part["image_url"], "url": shown}}


def completion(body: Json, text: str) -> Json:
    """A chat completion with token counts that depend on the texts alone."""
    prompted, answered = len(text_of(body).split()), len(text.split())
    return {
        "id": "chatcmpl-golden", "object": "chat.completion", "created": 0, "model": f"{body.get('model')}-0001",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompted, "completion_tokens": answered, "total_tokens": prompted + answered},
    }  # fmt: skip


def text_of(body: Json, *, first: bool = False) -> str:
    """The texts of the user's last message, or of the first."""
    found = [message for message in body.get("messages", ()) if message["role"] == "user"]
    if not found:
        return ""
    return "\n".join(part["text"] for part in _parts(found[0 if first else -1]) if part["type"] == "text")


def number_of(text: str, below: int) -> int:
    """A number that depends on the text alone, for replies that differ."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:6]) % below


# The recorded form of requests


def described(
    requests: Sequence[Request],
    kind: Callable[[Json], str] = lambda body: "all",
    *,
    in_order: bool = False,
    texts: int = TEXTS_KEPT,
) -> Json:
    """By kind: their number, the fields beside the messages, and one row per request, sorted by its texts.

    A row has the sha256 of the request's bytes, and its messages. `texts`: at most so many rows of a kind, evenly
    spread, have their texts, the others digests. Pictures are always digests. `in_order`: rows in order of arrival, for
    requests that are sent one at a time.
    """
    found: dict[str, list[Request]] = {}
    for request in requests:
        found.setdefault(kind(request.body), []).append(request)
    return {name: _described(group, in_order, texts) for name, group in sorted(found.items())}


def _described(requests: Sequence[Request], in_order: bool, texts: int) -> Json:
    rows = [{"sent": r.sent, "messages": r.body["messages"]} for r in requests]
    if not in_order:
        rows.sort(key=_by_texts)
    return {
        "requests": len(rows),
        "paths": sorted({f"{r.method} {r.path}" for r in requests}),
        "headers": distinct([r.headers for r in requests]),
        "settings": distinct([{k: v for k, v in r.body.items() if k != "messages"} for r in requests]),
        "rows": [row if _shown(i, len(rows), texts) else _digested(row) for i, row in enumerate(rows)],
    }


def _shown(index: int, count: int, limit: int) -> bool:
    """Whether the row is one of at most `limit` evenly spread rows, which include the first."""
    return limit > 0 and index % -(-count // limit) == 0


def _by_texts(row: Json) -> tuple[str, str]:
    texts = [part["text"] for message in row["messages"] for part in _parts(message) if part["type"] == "text"]
    return json.dumps(texts, ensure_ascii=False), json.dumps(row, ensure_ascii=False, sort_keys=True)


def _digested(row: Json) -> Json:
    """The row with digests of its messages: of all texts, and of each picture."""
    parts = [part for message in row["messages"] for part in _parts(message)]
    texts = [[message["role"], *(p["text"] for p in _parts(message) if "text" in p)] for message in row["messages"]]
    pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return {"sent": row["sent"], "texts": short(json.dumps(texts, ensure_ascii=False)), "pictures": " ".join(pictures)}


def _parts(message: Json) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def distinct(values: Sequence[Any]) -> list[Json]:
    """Each distinct value with its count, sorted."""
    counts: dict[str, int] = {}
    for value in values:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        counts[text] = counts.get(text, 0) + 1
    return [{"value": json.loads(text), "times": n} for text, n in sorted(counts.items())]


def cached(path: Path) -> dict[str, str]:
    """The replies of a cache file by key: digest of the text, reason to end, model, tokens. Without times."""
    with closing(sqlite3.connect(path)) as database:
        columns = "key, text, finish_reason, model, prompt_tokens, completion_tokens"
        rows = database.execute(f"SELECT {columns} FROM replies ORDER BY key").fetchall()
    return {key: " ".join(map(str, (short(text), *others))) for key, text, *others in rows}


def short(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:SHORT]
