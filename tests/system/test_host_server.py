"""lmms-eval's own HTTP server: a job with our model and task is sent over HTTP, and ends with its figures."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.running import environment, kill_on_error, refusing_port

pytestmark = pytest.mark.system

SERVE = "from lmms_eval.cli.dispatch import main; main()"
TASK = "ad2demo_mcq_perception"
PATIENCE_S = 300.0  # a job imports lmms-eval anew


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def until(what: str, check: Any, process: subprocess.Popen[bytes]) -> Any:
    """The first true value of `check`, which is called every half second while the server runs."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert process.poll() is None, f"the server ended with {process.returncode} before {what}"
        try:
            if found := check():
                return found
        except urllib.error.URLError:  # not listening yet
            pass
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {PATIENCE_S:.0f} s")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with refusing_port() as port:
        pass
    command = [sys.executable, "-c", SERVE, "serve", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=log, stderr=log)
        with kill_on_error(process):
            url = f"http://localhost:{port}"
            until("/health", lambda: ask(f"{url}/health"), process)
            yield url, process
            process.terminate()
            process.wait(60)


def test_a_job_completes_with_its_figures(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    url, process = server
    job = ask(f"{url}/evaluate", {"model": "ad2_oracle", "tasks": [TASK], "limit": 4})["job_id"]

    def ended() -> Any:
        state = ask(f"{url}/jobs/{job}")
        return state if state["status"] in ("completed", "failed") else None

    state = until("the end of the job", ended, process)
    assert state["status"] == "completed", state["error"]
    (file,) = [entry["results"] for entry in state["result"].values() if entry.get("results")]
    results = json.loads(Path(file).read_text("utf-8"))["results"][TASK]
    assert results["score,none"] == 100
