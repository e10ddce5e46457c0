"""advlm_server.py as a user starts it: a process of the oldest installed Python, with a fake model."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from support.running import REPO

ADAPTER = REPO / "closedloop_plugin/carla/leaderboard_agent/advlm_server.py"
OLDEST_SUPPORTED = (3, 7)
PATIENCE_S = 60.0
ECHO = "def answer(images, question):\n    return f'{len(images)} images: {question}'\n"


@functools.cache
def oldest_python() -> tuple[str, str]:
    """(executable, version) of the oldest Python from 3.7 on that runs here; a pyenv shim may not run."""
    named = [shutil.which(f"python3.{minor}") for minor in range(7, 14)]
    installed = [*Path.home().glob(".pyenv/versions/*/bin/python"), *Path("/usr/bin").glob("python3.[0-9]*")]
    found = {}
    for candidate in [c for c in named if c] + [str(c) for c in installed] + [sys.executable]:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([candidate, "--version"], capture_output=True, text=True, timeout=120, check=True)
            if version := re.fullmatch(r"Python (\d+)\.(\d+)\.(\d+)", done.stdout.strip()):
                found[tuple(int(part) for part in version.groups())] = candidate
    version = min(v for v in found if v >= OLDEST_SUPPORTED)
    return found[version], ".".join(map(str, version))


def python_name() -> str:
    return f"py{oldest_python()[1]}"


class Served:
    """A running adapter. `lines`: the lines that it has printed to stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines, self._new = process, list[str](), threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._new:
                self.lines.append(line.rstrip())
                self._new.notify_all()
        with self._new:
            self.lines.append("(ended)")
            self._new.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that matches."""

        def found() -> re.Match[str] | None:
            return next((m for m in (re.search(pattern, line) for line in self.lines) if m), None)

        with self._new:
            self._new.wait_for(lambda: found() or "(ended)" in self.lines, PATIENCE_S)
            match = found()
        assert match, f"no line like {pattern}: {self.lines}"
        return match

    @functools.cached_property
    def port(self) -> int:
        return int(self.wait_for(r"at http://[\w.]+:(\d+)/v1, loading")[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
        """(status, headers, JSON) of one request; `body`: bytes or a JSON value."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, data, headers)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), json.loads(reply.read())

    def ask(self, body: Any, **headers: str) -> tuple[int, Any]:
        """(200, text) or (status, error message)."""
        status, _, data = self.send("POST", "/v1/chat/completions", body, **headers)
        return status, data["choices"][0]["message"]["content"] if status == 200 else data["error"]["message"]

    def health(self) -> dict[str, Any]:
        return dict(self.send("GET", "/health")[2])

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a health report that satisfies `condition`; returns it."""
        end = time.monotonic() + PATIENCE_S
        while not condition(health := self.health()):
            assert time.monotonic() < end, health
            time.sleep(0.01)
        return health

    def stop(self, signum: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signum)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code


@contextlib.contextmanager
def serving(folder: Path, code: str = ECHO, *words: Any, python: str = "", ready: bool = True) -> Iterator[Served]:
    """Run the adapter at a free port for the block, with `code` as the user's file model.py."""
    entry = []
    if code:
        (folder / "model.py").write_text(code, "utf-8")
        entry = ["model.py:answer"]
    command = [python or oldest_python()[0], ADAPTER, *entry, "--port", 0, *words]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    process = subprocess.Popen(
        [str(w) for w in command], cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    server = Served(process)
    try:
        if ready:
            server.wait_for(" is ok after ")
        yield server
    finally:
        server.stop(signal.SIGKILL)


def run_adapter(folder: Path, *words: Any, python: str = "", **environment: str) -> tuple[int, str, list[str]]:
    """(exit code, stdout, lines of stderr) of an adapter that ends by itself."""
    done = subprocess.run(
        [python or oldest_python()[0], str(ADAPTER), *map(str, words)], cwd=folder, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr.splitlines()


def picture(colour: tuple[int, int, int] = (200, 30, 30), kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 18), colour).save(buffer, kind)
    return buffer.getvalue()


def data_url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def chat(text: str = "What next?", *urls: str, model: str = "model", **more: Any) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"model": model, "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}], **more}
