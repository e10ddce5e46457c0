"""kill -9 of `ad2 drive collect` between two episodes: the same command gives the frames of an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from support.running import BIN, PATIENCE_S, environment, kill_on_error, run

# Two routes, and as many more as the frames of these two leave to be collected.
COMMAND = (
    "drive", "collect", "--routes", "9", "--frames", "150",
    "--config", "types=ControlLoss,ParkedObstacle", "--seed", "5",
    "--out",
)  # fmt: skip


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted((folder / "frames").rglob("*"))
        if file.is_file()
    }


def test_a_killed_collection_continues(tmp_path: Path) -> None:
    run(BIN / "ad2", *COMMAND, "quiet", "--workers", "2", cwd=tmp_path)
    command = [str(BIN / "ad2"), *COMMAND, "killed", "--workers", "1"]
    lines = tmp_path / "killed" / "episodes.jsonl"
    with kill_on_error(
        subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (lines.exists() and lines.read_bytes().count(b"\n")):
            assert process.poll() is None and time.monotonic() < deadline, "it ended before it could be killed"
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    done = run(*command, cwd=tmp_path)
    assert "1 of 2 episodes are there already; running 1" in done.stdout
    assert _files(tmp_path / "killed") == _files(tmp_path / "quiet")
    for name in ("routes.xml", "training_set.json"):
        first, second = (tmp_path / folder / name for folder in ("killed", "quiet"))
        assert first.read_text("utf-8").replace('"killed"', '"quiet"') == second.read_text("utf-8")
