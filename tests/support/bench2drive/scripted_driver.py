"""A fake `ad2-driver` server that follows the protocol or, on demand, violates it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CAMERAS = [
    {"name": "front", "width": 32, "height": 18, "fov": 70.0, "forward": 0.8, "right": 0.0, "up": 1.6, "yaw": 0.0},
    {"name": "back", "width": 32, "height": 18, "fov": 110.0, "forward": -2.0, "right": 0.1, "up": 1.6, "yaw": 180.0},
]
DRIVER = {"ad2_drive": 1, "agent": {"name": "scripted"}, "interpreter": None, "profile": "bench2advlm", "hz": 20.0,
          "decision_hz": 10.0, "cameras": CAMERAS, "version": "0"}  # fmt: skip


def answer(**changes: Any) -> dict[str, Any]:
    """A complete answer: half throttle, steering slightly to the right."""
    control = {"steer": 0.25, "throttle": 0.5, "brake": 0.0}
    return {"ad2_drive": 1, "control": control, "texts": {"action": "go"}, "raw": "go", "mode": "rules", "error": None,
            "unparsed": None, "latency_s": 0.01, "policy": "official", **changes}  # fmt: skip


class ScriptedDriver:
    """`script(n)` returns the reply to the n-th POST: an answer, (HTTP status, body as text), or None for no reply."""

    def __init__(
        self, script: Callable[[int], Any] = lambda n: answer(), driver: Any = DRIVER, loading: int = 0
    ) -> None:
        self.script, self.driver, self.loading = script, driver, loading
        self.questions: list[dict[str, Any]] = []
        self.pictures: list[list[bytes]] = []
        self.keys: list[str | None] = []
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                assert self.path == "/v1/ad2/driver"
                if outer.loading:
                    outer.loading -= 1
                    self._send(503, '{"error": {"message": "the model is loading"}}')
                else:
                    self._send(200, json.dumps(outer.driver))

            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = outer.take(body, self.headers.get("Authorization"))
                if reply is None:
                    outer.ended.wait(60)
                elif isinstance(reply, tuple):
                    self._send(*reply)
                else:
                    chat = {"choices": [{"message": {"role": "assistant", "content": json.dumps(reply)}}]}
                    self._send(200, json.dumps(chat))

            def _send(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def take(self, body: dict[str, Any], key: str | None) -> Any:
        assert body["model"] == "ad2-driver"
        (message,) = body["messages"]
        *images, text = message["content"]
        assert message["role"] == "user" and text["type"] == "text"
        self.keys.append(key)
        self.questions.append(json.loads(text["text"]))
        self.pictures.append([self._picture(image["image_url"]["url"]) for image in images])
        return self.script(len(self.questions) - 1)

    @staticmethod
    def _picture(url: str) -> bytes:
        head, _, data = url.partition(";base64,")
        assert head in ("data:image/png", "data:image/jpeg")
        return base64.b64decode(data, validate=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedDriver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
