"""`ad2 threats search` on the command line: output, files, errors."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from lmms_eval_ad2.cli.main import main

PROGRAM = '''"""Somebody walks out in front of the car."""
param route = "demo:101"
param early = Range(-3.0, 3.0)  # s before the car would be there
param pace = Range(1.5, 2.0)  # m/s
model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *
start = stage.trigger_s + 15
behavior StepOut(early, pace):
    while seconds_to(start) > 4.2 / pace + early:
        wait
    stage.event("act")
    self.rail.accel = 6
    self.rail.speed = pace
    do Ride()
ego = new Car at place(0), facing stage.heading(0)
rail = Rail(geometry.across(road, start, -4.2, 0), 0)
new Walker at place_on(rail), facing heading_on(rail), with rail rail, \\
    with behavior StepOut(globalParameters.early, globalParameters.pace)
terminate when stage.ego_s > start + 6
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "threats" / "scenarios").mkdir(parents=True)
    (tmp_path / "threats" / "scenarios" / "7.scenic").write_text(PROGRAM)
    return tmp_path


def test_a_program_of_a_threat_folder_is_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One parameter fixed, one searched; the expert drives the failures again, and they can be shown."""
    monkeypatch.chdir(folder)
    words = (
        "threats", "search", "threats:7", "--agent", "steer-only", "--sampler", "halton", "--budget", "4",
        "--set", "pace=1.75", "--profile", "bench2drive", "--config", "no_traffic=true", "--out", "out",
    )  # fmt: skip
    assert main(list(words)) == 0
    output = capsys.readouterr().out
    found = json.loads(Path("out/report.json").read_text())
    assert found["runs"] == found["scored"] == 4 and list(found["space"]) == ["early"]
    assert 0 < found["failures"] < 4 and found["fair"] == found["failures"]
    assert f"failures found: {found['failures']} of 4 runs" in output and "the expert survives" in output
    assert "collision with a pedestrian" in output and Path("out/search.svg").read_text().startswith("<svg")
    assert all(json.loads(row)["drawn"]["pace"] == 1.75 for row in Path("out/episodes.jsonl").read_text().splitlines())
    worst = f"out:7:{min(found['trials'], key=lambda t: t['rho'])['number']}"
    assert f"ad2 drive show {worst}" in output
    assert main(["drive", "show", worst]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nothing.scenic",), "nothing.scenic: no such program"),
        (("threats:8",), "no program '8' in threats; available: 7"),
        (("threats",), "threats:NAME"),
        (("threats:7", "--budget", "0"), "--budget 0: 1 or more"),
        (("threats:7", "--route", "demo:999"), "999"),
        (("threats:7", "--set", "pace=1.7", "--set", "early=1"), "no free parameters to search .*fixed by --set"),
        (("fixed.scenic",), r"no free parameters to search; declare one, as in: param pace = Range\(1.0, 3.0\)"),
        (("broken.scenic",), "broken.scenic, line 4: "),
    ],
)
def test_mistakes_are_reported_in_one_line(
    folder: Path, words: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "fixed.scenic").write_text(PROGRAM.replace("Range(-3.0, 3.0)", "1.0").replace("Range(1.5, 2.0)", "1.7"))
    (folder / "broken.scenic").write_text(PROGRAM.replace("Range(1.5, 2.0)", "Rnge(1.5, 2.0)"))
    assert main(["threats", "search", *words, "--agent", "steer-only", "--out", "out"]) == 2
    output = capsys.readouterr().err
    assert re.search(says, output) and "Traceback" not in output
    assert not (folder / "out").exists()


def test_a_missing_library_is_named_before_the_scenario_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    (tmp_path / "broken.scenic").write_text("this is no scenario")
    words = ["threats", "search", str(tmp_path / "broken.scenic"), "--agent", "expert", "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "[threats]" in capsys.readouterr().err
