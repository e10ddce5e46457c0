"""`ad2 robot run` on the command line, in this process and in one that is killed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.running import environment

from closedloop_plugin.cli.robot import run as robot_run
from lmms_eval_ad2.core.errors import Ad2Error

COURSE = ("--agent", "track-expert", "--runs", "1", "--segments")


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    robot_run.register(parser.add_subparsers())
    args = parser.parse_args(["run", *words])
    return int(args.func(args))


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def test_a_course_prints_its_table_and_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(*COURSE, "1,6", "--out", str(out)) == 0
    output = capsys.readouterr().out
    assert "route1 run 1: completed, 100 %" in output and "2/2 = 100 %" in output and "Table 3" in output
    assert "track expert (privileged) + rules" in output
    for kind, suffix in (("tracks", "json"), ("logs", "jsonl"), ("pictures", "png")):
        found = sorted(file.name for file in (out / kind).iterdir())
        assert found == [f"route1_run1.{suffix}", f"route6_run1.{suffix}"], kind
    record = lines(out)[0]
    assert record["seed"] != record["run"] and record["profile"] == "bench2advlm"
    assert record["robot"]["name"] == "sandbox" and record["interpreter"]["name"] == "rules"
    assert set(record["versions"]) == {"lmms-eval-ad2", "python"}


def test_the_same_command_skips_recorded_runs_and_adds_new_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(*COURSE, "6", "--out", str(out)) == 0
    before = (out / "episodes.jsonl").read_bytes()
    capsys.readouterr()
    assert run(*COURSE, "6", "--out", str(out)) == 0
    assert (out / "episodes.jsonl").read_bytes() == before and "run 1:" not in capsys.readouterr().out
    assert run(*COURSE, "6,1", "--out", str(out)) == 0
    assert [line["segment"] for line in lines(out)] == ["route6", "route1"]


def test_another_agent_robot_or_seed_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert run(*COURSE, "6", "--out", out) == 0
    for other in (("--agent", "straight"), ("--robot", "jetbot-waveshare", "--agent", "track-expert")):
        with pytest.raises(Ad2Error, match="other arguments"):
            run(*other, "--runs", "1", "--segments", "6", "--out", out)
    with pytest.raises(Ad2Error, match="seed is 0 there and 4 here"):
        run(*COURSE, "6", "--seed", "4", "--out", out)


def test_a_killed_course_resumes(tmp_path: Path) -> None:
    """kill -9 once the second run is on disk; the recorded runs stay unchanged, byte for byte."""
    out, words = tmp_path / "out", ["--agent", "track-expert", "--runs", "1", "--segments", "1,2,6"]
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "lmms_eval_ad2.cli.main", "robot", "run", *words, "--out", str(out)],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("route2"):
            os.kill(child.pid, signal.SIGKILL)
            break
    assert child.wait(60) == -signal.SIGKILL
    child.stdout.close()
    before = (out / "episodes.jsonl").read_text().splitlines()
    assert len(before) >= 2
    with (out / "episodes.jsonl").open("a") as file:
        file.write('{"segment": "rou')  # half a line, as after a kill during a write
    assert run(*words, "--out", str(out)) == 0
    after = (out / "episodes.jsonl").read_text().splitlines()
    assert after[: len(before)] == before and {line["segment"] for line in lines(out)} == {"route1", "route2", "route6"}


@pytest.mark.parametrize(
    ("words", "output"),
    (
        (("--agent", "track-expert", "--segments", "12"), "no such segment"),
        (("--agent", "track-expert", "--config", "course=nordschleife"), "no such course"),
        (("--agent", "track-expert", "--runs", "0"), "1 or more"),
        (("--agent", "track-expert", "--robot", "limoo"), "limo"),
        (("--agent", "expert"), "track-expert"),
        (("--agent", "nobody"), "no agent 'nobody'; on a course: track-expert"),
        (("--agent", "straight", "--mode", "cng"), "no effect"),
        (("--agent", "track-expert", "--mode", "hybrid"), "require each other"),
    ),
)
def test_invalid_arguments_are_reported_and_leave_no_folder(
    tmp_path: Path, words: tuple[str, ...], output: str
) -> None:
    with pytest.raises(Ad2Error, match=output):
        run(*words, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_table_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*COURSE, "6", "--config", "markdown=true", "--out", str(tmp_path / "out")) == 0
    assert "| completed" in capsys.readouterr().out
