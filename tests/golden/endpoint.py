"""An OpenAI-compatible endpoint on this machine that records every request, and the form of requests in recordings.

It answers POST .../chat/completions and GET .../models. It uses only the standard library, so that it does not depend
on modules that move.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
HEADERS = ("authorization", "content-type", "accept")  # user-agent and others depend on library versions
LINES_KEPT, LINE = 400, 160


@dataclass(frozen=True)
class Request:
    """`body` has digests in place of pictures. Pictures of lossy formats are digests of their bytes."""

    path: str
    headers: Json
    sent: str
    body: Json


@dataclass
class Endpoint:
    """`reply`: the completion's text for a body, or the HTTP status of a refusal."""

    reply: Callable[[Json], str | int]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> list[Request]:
        """The requests since the last call."""
        with self.lock:
            taken, self.requests = self.requests, []
        return taken


@contextmanager
def serve(reply: Callable[[Json], str | int]) -> Iterator[Endpoint]:
    """The endpoint until the block ends. `url` ends in /v1, as clients expect of a base URL."""
    endpoint = Endpoint(reply)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": endpoint}))
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
        models = [{"id": name, "object": "model"} for name in ("golden", "other")]
        self._send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw)
        for message in body["messages"]:
            if isinstance(message["content"], list):
                message["content"] = [_without_picture(part) for part in message["content"]]
        headers = {name: self.headers[name] for name in HEADERS if self.headers[name]}
        with self.endpoint.lock:
            self.endpoint.requests.append(Request(self.path, headers, _digest(raw), body))
            reply = self.endpoint.reply(body)
        if isinstance(reply, int):
            self._send(reply, {"error": {"message": f"status {reply}", "type": "golden", "code": None}})
        else:
            self._send(200, completion(body, reply))

    def _send(self, status: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the requests are recorded."""


def completion(body: Json, text: str) -> Json:
    """A chat completion with token counts that depend on the texts alone."""
    prompted, answered = len(text_of(body).split()), len(text.split())
    return {
        "id": "chatcmpl-golden", "object": "chat.completion", "created": 0, "model": f"{body.get('model')}-0001",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompted, "completion_tokens": answered, "total_tokens": prompted + answered},
    }  # fmt: skip


def _without_picture(part: Json) -> Json:
    """A part of a message; of a picture the type and a digest in place of its data URL."""
    if part.get("type") != "image_url":
        return part
    head, _, data = part["image_url"]["url"].partition(";base64,")
    shown = f"{head} {_digest(base64.b64decode(data))}" if data else head
    return {**part, "image_url": {**part["image_url"], "url": shown}}


def text_of(body: Json, *, first: bool = False) -> str:
    """The texts of the user's last message, or of the first."""
    users = [message for message in body.get("messages", ()) if message["role"] == "user"]
    if not users:
        return ""
    return "\n".join(part["text"] for part in _parts(users[0 if first else -1]) if part["type"] == "text")


def _parts(message: Json) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def described(requests: Sequence[Request]) -> Json:
    """Counts of settings, of headers, of each line of text; and a digest of each request, sorted.

    Sorted, because some commands send several requests at once. Lines beyond LINES_KEPT are one digest.
    """
    settings = Counter(_canonical({k: v for k, v in r.body.items() if k != "messages"}) for r in requests)
    headers = Counter(_canonical([r.path, r.headers]) for r in requests)
    lines, pictures = Counter[str](), Counter[str]()
    for request in requests:
        for message in request.body["messages"]:
            for part in _parts(message):
                if part["type"] == "text":
                    lines.update(f"{message['role']}: {_short(line)}" for line in part["text"].splitlines())
                elif part["type"] == "image_url":
                    pictures[part["image_url"]["url"].partition(" ")[0]] += 1
    kept = dict(sorted(lines.items(), key=lambda item: (-item[1], item[0]))[:LINES_KEPT])
    rest = sorted(line for line in lines if line not in kept)
    return {
        "n": len(requests), "settings": dict(settings), "headers": dict(headers), "pictures": dict(pictures),
        "lines": kept, "other lines": f"{len(rest)} {_digest(_canonical(rest))}",
        "requests": sorted(_digest(_canonical([r.body, r.path])) for r in requests),
    }  # fmt: skip


def _short(line: str) -> str:
    line = re.sub(r"data:image/\S+", "<picture>", line)
    return line if len(line) <= LINE else f"{line[:LINE]}… {len(line)} {_digest(line)}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:8]
