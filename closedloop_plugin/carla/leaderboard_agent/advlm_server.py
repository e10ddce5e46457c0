"""OpenAI-compatible HTTP server for one driving model: a single file, standard library only, Python 3.7 or later.

    python advlm_server.py my_model.py:answer --name dolphins --port 8202        (--check: call it once and exit)

It runs in the model's own environment. my_model.py is written by the user:

    def load():                              # optional; called once, before the status is "ok"
        return the_model
    def answer(images, question, model):     # without a load(): answer(images, question)
        return "Slow down and keep straight, because ..."

images: a list of AdvlmImage, in the cameras' order; question: a text. Full description: docs/advlm.md.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import http.server
import importlib.util
import inspect
import io
import json
import math
import os
import re
import selectors
import signal
import socketserver
import struct
import sys
import threading
import time
import traceback
import zlib
from concurrent import futures
from pathlib import Path
from typing import Any, Callable, NoReturn

MAGIC = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n"}
MAX_PIXELS = 50_000_000  # of one image: a small file may decompress to gigabytes
PATHS = "there are GET /health, GET /v1/models and POST /v1/chat/completions"
# setting, on the command line or in a config -> (default, least, most, help); least None: a text
SETTINGS: dict[str, tuple[Any, Any, Any, str]] = {
    "name": ("", None, None, "of the model in requests (default: the file's)"),
    "host": ("127.0.0.1", None, None, "address to listen on (default: this machine only)"),
    "port": (8200, 0, 65535, "0 selects a free one"),
    "cameras": ("", None, None, "comma-separated names of the images in order, whose number is then required"),
    "frames": (1, 1, 64, "with cameras: most moments per question, each with all of them, the earliest first"),
    "workers": (1, 1, 64, "threads that call the function"),
    "queue": (16, 0, 10000, "questions that may wait; further ones get 429"),
    "max_images": (8, 0, 64, "per question"),
    "max_body_mb": (64.0, 0.001, 1024, "size of a request"),
    "timeout": (300.0, 0.05, 86400, "seconds for an answer, including the wait"),
    "api_key_env": ("", None, None, "environment variable with the key that clients must send"),
    "question": ("What should the car do next?", None, None, "question for --check"),
}


class AdvlmRequestRefused(Exception):
    """A request that is answered by an error. `wait_s`: time after which it may be repeated."""

    def __init__(self, status: int, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.wait_s = status, message, wait_s


class AdvlmImage:
    """An image of a request: `bytes`, `media_type` (image/jpeg or png), `name` (its camera, or image0 ...), `index`."""

    def __init__(self, data: bytes, kind: str, name: str, index: int) -> None:
        self.bytes, self.media_type, self.name, self.index = data, "image/" + kind, name, index

    def pil(self) -> Any:
        """The image as a Pillow RGB image. Needs Pillow in the model's environment."""
        from PIL import Image

        try:
            image = Image.open(io.BytesIO(self.bytes))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise ValueError(f"{image.size[0]}x{image.size[1]} pixels; at most {MAX_PIXELS} are accepted")
            return image.convert("RGB")
        except Exception as exc:  # Pillow raises many types for broken files
            raise AdvlmRequestRefused(400, f"{self.name}: no readable image: {one_line(exc)}") from None

    def save(self, path: str) -> str:
        """Write the unchanged file; returns the path."""
        Path(path).write_bytes(self.bytes)
        return str(path)


def one_line(exc: BaseException) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())[:300]


def log(text: str) -> None:
    print(f"advlm_server: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """Report a mistake of the user in one line and exit with code 2."""
    log(f"error: {text}")
    sys.exit(2)


def read_question(body: bytes, settings: Any) -> tuple[list[AdvlmImage], str]:
    """Images and question of a chat request. AdvlmRequestRefused names the invalid field."""
    try:
        data = json.loads(body.decode("utf-8"), parse_int=float)  # int() needs minutes for a million digits
    except (ValueError, RecursionError) as exc:
        raise AdvlmRequestRefused(400, f"the body is no JSON in UTF-8: {one_line(exc)}") from None
    if not isinstance(data, dict):
        raise AdvlmRequestRefused(400, "the body: expected a JSON object")
    if data.get("model") != settings.name:
        raise AdvlmRequestRefused(
            404, f'model: this server has only "{settings.name}", found {json.dumps(data.get("model"))[:300]}'
        )
    if data.get("stream") or data.get("n") not in (None, 1):
        raise AdvlmRequestRefused(400, "stream, n: only one complete answer is supported; omit both")
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise AdvlmRequestRefused(400, "messages: expected a list that ends with a user's message")
    images: list[tuple[bytes, str]] = []
    texts = _texts(messages, images)
    names = settings.cameras or [f"image{i}" for i in range(len(images))]
    if len(images) not in [len(names) * moments for moments in range(1, settings.frames + 1)]:
        times = f" at up to {settings.frames} moments" * (settings.frames > 1) + f", found {len(images)}"
        raise AdvlmRequestRefused(400, f"messages: expected {len(names)} images ({', '.join(names)}){times}")
    if len(images) > settings.max_images:
        raise AdvlmRequestRefused(400, f"messages: expected at most {settings.max_images} images, found {len(images)}")
    named = enumerate(zip(images, names * settings.frames))
    return [AdvlmImage(*image, name, i) for i, (image, name) in named], "\n\n".join(texts)


def _texts(messages: list[Any], images: list[tuple[bytes, str]]) -> list[str]:
    """Texts of the system messages and of the last user message; the users' images go to `images`.

    Earlier turns are dropped, since these models answer a single question.
    """
    system: list[str] = []
    for i, message in enumerate(messages):
        role, texts = message.get("role") if isinstance(message, dict) else None, []
        if role not in ("system", "developer", "user", "assistant"):
            raise AdvlmRequestRefused(400, f"messages[{i}].role: expected system, user or assistant")
        content = message.get("content") if role != "assistant" else []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for j, part in enumerate(parts if isinstance(parts, list) else [None]):
            where, kind = f"messages[{i}].content[{j}]", part.get("type") if isinstance(part, dict) else None
            if kind == "text" and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif kind == "image_url" and isinstance(part.get("image_url"), dict) and role == "user":
                images.append(_image(part["image_url"].get("url"), f"{where}.image_url.url"))
            else:
                expected = '{"type": "text", "text": ...} or a user\'s {"type": "image_url", "image_url": {"url": ...}}'
                raise AdvlmRequestRefused(400, f"{where}: expected {expected}")
        system += texts if role != "user" else []
    if role != "user" or not "".join(texts).strip():
        raise AdvlmRequestRefused(400, f"messages[{i}]: expected a user's message with a text in it")
    return [*system, "\n".join(texts)]


def _image(url: Any, where: str) -> tuple[bytes, str]:
    head = re.match("data:image/(jpeg|png);base64,", url) if isinstance(url, str) else None
    if not head:
        raise AdvlmRequestRefused(
            400, f"{where}: expected data:image/jpeg;base64,... or image/png; URLs are not fetched"
        )
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except ValueError:
        raise AdvlmRequestRefused(400, f"{where}: no valid base64") from None
    if not data.startswith(MAGIC[head.group(1)]):
        raise AdvlmRequestRefused(400, f"{where}: the data are no {head.group(1)}")
    return data, head.group(1)


class AdvlmModel:
    """The user's functions, the threads that call them, and counts of the outcomes."""

    def __init__(self, load: Callable | None, answer: Callable, settings: Any) -> None:
        self._load, self._answer, self.settings = load, answer, settings
        self._pool, self._lock = futures.ThreadPoolExecutor(settings.workers), threading.Lock()
        self.slots = threading.Semaphore(settings.workers + settings.queue)  # for running and waiting questions
        self._started: dict[object, float] = {}  # start times of running calls
        self._state: tuple[Any, ...] = ()
        self.status, self.error, self._spent = "loading", "", 0.0
        self.counts = {"waiting": 0, "answered": 0, "failed": 0, "refused": 0, "given_up": 0}

    def load(self) -> bool:
        start = time.monotonic()
        try:
            self._state = (self._load(),) if self._load else ()
            self.status = "ok"
            log(f"{self.settings.name} is ok after {time.monotonic() - start:.1f} s")
        except BaseException as exc:  # including a library's sys.exit()
            traceback.print_exc()
            self.status, self.error = "failed", f"load() failed: {one_line(exc)}"
            log(f"{self.error}; fix it and restart")
        return self.status == "ok"

    def count(self, what: str, step: int = 1) -> None:
        with self._lock:
            self.counts[what] += step

    def call(self, images: list[AdvlmImage], question: str) -> str:
        """The answer of the user's function. AdvlmRequestRefused: it failed or returned no text."""
        call, start = object(), time.monotonic()
        self._started[call] = start
        self.count("waiting", -1)
        try:
            text = self._answer(images, question, *self._state)
        except AdvlmRequestRefused:
            self.count("refused")
            raise
        except BaseException as exc:
            traceback.print_exc()
            self.count("failed")
            raise AdvlmRequestRefused(500, f"the model failed: {one_line(exc)}") from None
        finally:
            del self._started[call]
        if not isinstance(text, str) or not text.strip():
            self.count("failed")
            found = "an empty text" if isinstance(text, str) else f"no text but {type(text).__name__}"
            raise AdvlmRequestRefused(500, f"answer() returned {found}")
        self._spent += time.monotonic() - start
        self.count("answered")
        return text

    def answer_in_turn(self, images: list[AdvlmImage], question: str, client_left: Callable[[], bool]) -> str:
        """As `call`, on a worker thread. Refused after the timeout, or once `client_left()` is true."""
        self.count("waiting")
        future, deadline = self._pool.submit(self.call, images, question), time.monotonic() + self.settings.timeout
        while not futures.wait([future], min(0.25, max(deadline - time.monotonic(), 0.0))).done:
            if time.monotonic() >= deadline or client_left():
                self.count("given_up")
                what = "its turn never came" if future.cancel() else "the model is still at work on it"
                self.count("waiting", -1 if future.cancelled() else 0)
                raise AdvlmRequestRefused(504, f"no answer within {self.settings.timeout:g} s: {what}")
        return future.result()

    def mean_s(self) -> float:
        return self._spent / max(self.counts["answered"], 1)

    def health(self) -> dict[str, Any]:
        """Status. `seconds`: mean time of an answer; `busy_s`: age of the oldest call; `overdue`: past the timeout."""
        started = list(self._started.values())
        busy_s = time.monotonic() - min(started) if started else 0.0
        head = {"status": self.status, "model": self.settings.name, "error": self.error, **self.counts}
        times = {"seconds": round(self.mean_s(), 3), "busy_s": round(busy_s, 3)}
        return {**head, "running": len(started), **times, "overdue": busy_s > self.settings.timeout}


class AdvlmServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128
    model: AdvlmModel

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # clients that disconnect
            super().handle_error(request, client_address)


class AdvlmRequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version, server_version, sys_version = "HTTP/1.1", "advlm_server", ""
    timeout = 60  # seconds without data after which a connection is closed
    server: Any
    rfile: Any

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            status, payload = self._get() if self.command == "GET" else self._post()
        except AdvlmRequestRefused as exc:
            status, kind = exc.status, "invalid_request_error" if exc.status < 500 else "server_error"
            payload = {"error": {"message": exc.message, "type": kind, "param": None, "code": None}}
            headers.update({"Retry-After": str(exc.wait_s)} if exc.wait_s else {})
        body = json.dumps(payload).encode("ascii")
        headers.update({"Connection": "close"} if self.close_connection else {})
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def _get(self) -> tuple[int, dict[str, Any]]:
        self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if self.path == "/health":
            return 200 if self.server.model.status == "ok" else 503, self.server.model.health()
        if self.path != "/v1/models":
            raise AdvlmRequestRefused(404, f"no GET {self.path[:300]}: {PATHS}")
        self._authorise()
        card = {"id": self.server.model.settings.name, "object": "model", "created": 0, "owned_by": "advlm_server"}
        return 200, {"object": "list", "data": [card]}

    def _post(self) -> tuple[int, dict[str, Any]]:
        length, model = self._admit(), self.server.model
        try:
            body = self.rfile.read(length)
            if len(body) < length:
                raise ConnectionError("the client disconnected")
            text = model.answer_in_turn(*read_question(body, model.settings), self._client_left)
        finally:
            model.slots.release()
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        head = {"id": f"chatcmpl-{time.time_ns():x}", "object": "chat.completion", "created": int(time.time())}
        return 200, {**head, "model": model.settings.name, "choices": [choice]}

    def _authorise(self) -> None:
        key, sent = self.server.model.settings.key, self.headers.get("Authorization", "")
        if key and not hmac.compare_digest(sent.encode("utf-8", "replace"), f"Bearer {key}".encode()):
            raise AdvlmRequestRefused(
                401, "a wrong key, or none: this server requires the header 'Authorization: Bearer KEY'"
            )

    def _admit(self) -> int:
        """Take a slot for the question and return the body's length. The body of a refused request is discarded."""
        model, text = self.server.model, self.headers.get("Content-Length", "")
        most, now = model.settings.max_body_mb, model.health()
        length = int(text) if re.fullmatch("[0-9]{1,15}", text) else 0
        try:
            if self.path != "/v1/chat/completions":
                raise AdvlmRequestRefused(404, f"no POST {self.path[:300]}: {PATHS}")
            self._authorise()
            if not length or "Transfer-Encoding" in self.headers:
                raise AdvlmRequestRefused(411, "expected a Content-Length, and no Transfer-Encoding")
            if length > most * 1e6:
                raise AdvlmRequestRefused(413, f"the body has {text} bytes; --max-body-mb is {most:g}")
            if now["status"] != "ok":
                raise AdvlmRequestRefused(503, now["error"] or "the model is loading", None if now["error"] else 5)
            if now["overdue"] and now["running"] >= model.settings.workers:
                raise AdvlmRequestRefused(
                    503, f"the model is at work on one question since {now['busy_s']:.0f} s (--timeout)", 5
                )
            if not model.slots.acquire(blocking=False):
                model.count("refused")
                wait_s = min(max(math.ceil(model.mean_s()), 1), 30)
                raise AdvlmRequestRefused(429, f"{model.settings.queue} questions wait already (--queue)", wait_s)
            return length
        except AdvlmRequestRefused:
            self.close_connection, until = True, time.monotonic() + 5
            while length > 0 and time.monotonic() < until:  # a client that is still sending would not receive the error
                length -= len(self.rfile.read1(min(length, 1 << 16))) or length
            raise

    def _client_left(self) -> bool:
        with selectors.DefaultSelector() as one:
            one.register(self.connection, selectors.EVENT_READ)
            return bool(one.select(0)) and not self.rfile.peek(1)


def functions(entry: str) -> tuple[Callable | None, Callable]:
    """(load or None, answer) of FILE.py:FUNCTION."""
    path, _, name = entry.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        fail(f"{entry}: expected FILE.py:FUNCTION with an existing file, e.g. my_model.py:answer")
    sys.path[0:1] = [str(Path.cwd()), str(Path(path).resolve().parent)]  # instead of this file's folder
    spec = importlib.util.spec_from_file_location("advlm_model", path)
    assert spec and spec.loader
    module = sys.modules["advlm_model"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as exc:
        traceback.print_exc()
        fail(f"{path}: {one_line(exc)}; is this the model's own environment?")
    load = getattr(module, "load", None)
    wanted = {
        name: ("images", "question", "model") if load else ("images", "question"),
        **({"load": ()} if load else {}),
    }
    for function_name, arguments in wanted.items():
        function, expected = getattr(module, function_name, None), f"{function_name}({', '.join(arguments)})"
        if not callable(function):
            fail(f"{path}: expected a function {expected}, found none of that name")
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError:
            fail(f"{path}: expected {expected}, found {function_name}{inspect.signature(function)}")
    return load, getattr(module, name)


def settings_of(argv: list[str]) -> argparse.Namespace:
    """Checked settings: the command line overrides the config, which overrides the defaults."""
    p = argparse.ArgumentParser(
        prog="advlm_server", description="Serve a driving model: images and question in, text out"
    )
    p.add_argument("entry", nargs="?", metavar="FILE.py:FUNCTION")
    p.add_argument(
        "--config", metavar="FILE.json", help="an object of these settings, which the command line overrides"
    )
    p.add_argument("--check", action="store_true", help="call the function once with grey images, and exit")
    for key, (default, _, _, text) in SETTINGS.items():
        p.add_argument("--" + key.replace("_", "-"), metavar="X", help=f"{text} [{default}]")
    s = p.parse_args(argv)
    given = {**(_config(Path(s.config)) if s.config else {}), **{k: v for k, v in vars(s).items() if v is not None}}
    for key, (default, least, most, _) in SETTINGS.items():
        value = given.get(key, default)
        try:
            good = isinstance(value, str) if least is None else least <= float(value) <= most
            setattr(s, key, type(default)(value))
        except (TypeError, ValueError):
            good = False
        if not good:
            fail(
                f"{key}: expected {'a text' if least is None else f'a number from {least} to {most}'}, found {value!r}"
            )
    s.entry = given.get("entry") or fail("no function given, e.g. advlm_server.py my_model.py:answer")
    s.cameras = [c.strip() for c in s.cameras.split(",") if c.strip()]
    s.name = s.name or Path(s.entry.rpartition(":")[0]).stem
    s.key = os.environ.get(s.api_key_env, "").strip()
    if s.api_key_env and not s.key:
        fail(f"the environment variable {s.api_key_env} (--api-key-env) is not set")
    return s


def _config(file: Path) -> dict[str, Any]:
    """Settings of a config file. `entry` is relative to the file; `about` is a comment."""
    try:
        data = json.loads(file.read_text("utf-8"))
        unknown = sorted(data.keys() - SETTINGS.keys() - {"entry", "about"})
        entry = {"entry": str(file.parent / data["entry"])} if "entry" in data else {}
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        fail(f"{file}: expected a JSON object of settings: {one_line(exc)}")
    if unknown:
        fail(f"{file}: unknown setting {unknown[0]}; known: entry, about, {', '.join(SETTINGS)}")
    return {**data, **entry}


def check(model: AdvlmModel) -> int:
    """Call the function once with grey pictures of 1600 x 900, the simulator's size."""
    head, rows = struct.pack(">IIBBBBB", 1600, 900, 8, 2, 0, 0, 0), zlib.compress((b"\0" + b"\x80" * 4800) * 900)
    chunks = [b"IHDR" + head, b"IDAT" + rows, b"IEND"]
    grey = b"".join(struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    names = model.settings.cameras or ["image0"]
    if not model.load():
        return 1
    try:
        print(
            model.call(
                [AdvlmImage(MAGIC["png"] + grey, "png", c, i) for i, c in enumerate(names)], model.settings.question
            )
        )
    except AdvlmRequestRefused as exc:
        fail(exc.message)
    log(f"asked about {len(names)} grey image(s): {model.mean_s():.1f} s")
    return 0


def serve(model: AdvlmModel) -> int:
    host, port, stop = model.settings.host, model.settings.port, threading.Event()
    try:
        server = AdvlmServer((host, port), AdvlmRequestHandler)
    except OSError as exc:
        fail(f"cannot listen at {host}:{port}: {exc.strerror}; take another --port")
    server.model = model
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stop.set())
    if not model.settings.key and host not in ("127.0.0.1", "localhost"):
        log("every client that reaches this machine may use the model; --api-key-env NAME requires a key")
    log(f"{model.settings.name} at http://{host}:{server.server_address[1]}/v1, loading")
    for work in (server.serve_forever, model.load):
        threading.Thread(target=work, daemon=True).start()
    stop.wait()
    log("ended: " + ", ".join(f"{n} {what}" for what, n in model.counts.items()))
    os._exit(0)  # a model running in C code would block a normal exit


def main(argv: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):  # output of the model appears at once in logs, in any locale
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    settings = settings_of(argv)
    return (check if settings.check else serve)(AdvlmModel(*functions(settings.entry), settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
