"""scripts/stages.py: skipping, failures, kill -9, Ctrl-C. The stages are small Python programs, not `ad2` commands."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.running import REPO, kill_on_error
from support.scripts import script

pytestmark = pytest.mark.integration  # starts processes

# Runs two stages in the folder argv[1]: the first ends, the second writes its pid to a FIFO and waits.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import stages
from pathlib import Path
from lmms_eval_ad2.core.command_errors import ended_by_sigterm
stages.AD2 = (sys.executable, "-c")
wait = '''
import os, signal, sys
try:
    with open(sys.argv[1], "w") as fifo:
        fifo.write(str(os.getpid()))
    signal.pause()
except KeyboardInterrupt:
    print("saved", flush=True)
    sys.exit(130)
'''
listed = [stages.Stage("one", ("print(1)",)), stages.Stage("two", (wait, sys.argv[3]))]
try:
    with ended_by_sigterm():
        stages.StageRunner(Path(sys.argv[1]), gpu_absent="no GPU").run(listed)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("stages")
    monkeypatch.setattr(module, "AD2", (sys.executable, "-c"))
    return module


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "stages.jsonl").read_text("utf-8").splitlines()]


def test_a_failure_does_not_stop_the_others_and_finished_ones_are_skipped(
    stages: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = f"import pathlib; 1 / pathlib.Path({str(tmp_path / 'one')!r}).exists()"
    listed = [
        stages.Stage("first", (broken,)), stages.Stage("second part", ("print('x')",)),
        stages.Stage("third", missing="no file; get it from X"), stages.Stage("last", ("print('y')",), repeated=True),
    ]  # fmt: skip
    runner = stages.StageRunner(tmp_path / "o", gpu_absent="no GPU")
    assert runner.run(listed) == 1
    printed = capsys.readouterr().out
    assert "[1/4] first: FAILED: exit code 1: ZeroDivisionError: division by zero" in printed
    assert "[2/4] second part: done; 0:00:0" in printed and "GPU no GPU" in printed
    assert printed.splitlines()[-2:] == [
        "not finished: first: exit code 1: ZeroDivisionError: division by zero",
        "not finished: third: no file; get it from X",
    ]
    rows = [row[:2] for row in runner.table(listed).rows]
    assert rows[:4] == [("first", "failed"), ("second part", "finished"), ("third", "left out"), ("last", "finished")]
    assert "| second part | finished |" in " ".join((tmp_path / "o/stages.md").read_text("utf-8").split())
    assert (tmp_path / "o/logs/second-part.log").read_text("utf-8").splitlines()[-1] == "x"

    (tmp_path / "one").touch()
    assert runner.run([*listed[:2], listed[3]]) == 0
    printed = capsys.readouterr().out
    assert "first: resumes" in printed and "second part: finished before" in printed and "last: resumes" in printed
    attempts = [row[3] for row in runner.table([*listed[:2], listed[3]]).rows]
    assert attempts == ["2", "1", "2", ""]


@pytest.mark.parametrize(("words", "code"), [("print('y')", 0), ("1 / 0", 1)])
def test_the_page_is_named_if_it_was_written(
    words: str, code: int, stages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(stages, "gpu_of", {"cuda:1": (None, "no GPU")}.get)
    report = stages.Stage("report", (words,), repeated=True)
    assert stages.run_stages([report], tmp_path, "cuda:1", {}) == code
    written = f"tables: {tmp_path}/logs/report.log; page: {tmp_path}/report.html; "
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == ("" if code else written) + f"times: {tmp_path / 'stages.md'}"
    assert lines_of(tmp_path)[-1]["gpu_absent"] == "no GPU"


def test_other_arguments_or_weights_are_another_stage(stages: ModuleType, tmp_path: Path) -> None:
    runner = stages.StageRunner(tmp_path)
    for words, weights in (("print(1)", {}), ("print(1)", {"pretrained": "a"}), ("print(2)", {"pretrained": "a"})):
        stage = stages.Stage("one", (words,), weights)
        assert not runner.histories([stage])["one"].finished
        assert runner.run([stage]) == 0
    assert runner.run([stage]) == 0
    assert len(lines_of(tmp_path)) == 6


def until_the_second_waits(tmp_path: Path, background: bool = False) -> tuple[subprocess.Popen[str], int]:
    """(the running program, pid of its second stage). background: it ignores Ctrl-C, as after `&` in a script."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "o"), str(REPO / "scripts"), str(fifo)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])}
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if background else None,
    )  # fmt: skip
    return program, int(fifo.read_text())


def resumed(stages: ModuleType, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, Any]:
    """(output, row of the second stage) of another call, in which the second stage ends at once."""
    begin = next(line for line in lines_of(out) if line["stage"] == "two")
    listed = [stages.Stage("one", ("print(1)",)), stages.Stage("two", tuple(begin["words"]))]
    assert listed[1].key == begin["key"]
    runner = stages.StageRunner(out, gpu_absent="no GPU")
    stages.AD2 = (sys.executable, "-c", "pass")
    assert runner.run(listed) == 0
    return capsys.readouterr().out, runner.table(listed).rows[1]


@pytest.mark.skipif(sys.platform != "linux", reason="a command outlives its killed script elsewhere")
def test_after_kill_9_its_command_ends_and_the_next_call_resumes(
    stages: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a command that ends at once, a busy machine takes the first sample too late.
    monkeypatch.setattr(sys.modules["process_memory"], "session_mib", lambda session: 5)
    program, second = until_the_second_waits(tmp_path)
    with kill_on_error(program):
        watched = os.pidfd_open(second)
        program.kill()
    assert select.select([watched], [], [], 60)[0], "the command of the stage is still running"
    os.close(watched)
    printed, row = resumed(stages, tmp_path / "o", capsys)
    assert "[1/2] one: finished before" in printed and "[2/2] two: resumes" in printed
    assert row[1] == "finished" and row[2].startswith("≥ ") and row[3] == "2", "the killed attempt left no figures"
    assert row[4] == "≥ 5" and row[5] == "no GPU"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_lets_the_command_save_its_work(
    stages: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: signal.Signals
) -> None:
    program, _ = until_the_second_waits(tmp_path, background=sent is signal.SIGTERM)
    with kill_on_error(program):
        program.send_signal(sent)
        assert program.wait(60) == 130
    last = lines_of(tmp_path / "o")[-1]
    assert (last["stage"], last["event"], last["code"], last["interrupted"]) == ("two", "end", 130, True)
    assert (tmp_path / "o/logs/two.log").read_text("utf-8").endswith("saved\n")
    assert "interrupted" in (tmp_path / "o/stages.md").read_text("utf-8")
    printed, row = resumed(stages, tmp_path / "o", capsys)
    assert "[2/2] two: resumes" in printed and row[1] == "finished" and not row[2].startswith("≥")
