"""scripts/learn_spread.py: the tables of several runs of learn.sh, from their run folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.closedloop.run_folders import record, run_folder
from support.make_runs import cell, summary, task, write_run
from support.scripts import script

from lmms_eval_ad2.data.releases.world import TASKS

SCORES = {
    "expert": 100.0,
    "speaking-expert": 90.0,
    "sighted": 70.0,
    "steer-only": 60.0,
    "blind": 50.0,
    "straight": 30.0,
}
ANSWERS = {"sighted": 80.0, "blind": 40.0, "ad2_majority": 50.0}


def learned(out: Path, seed: int, more: float) -> Path:
    """A folder of learn.sh whose model drives and answers by `more` points better."""
    for name, score in SCORES.items():
        score += more if name == "sighted" else 0
        run_folder(out / "runs" / name / "drive", [record("101", score), record("102", score)], seed=seed)
    for name, score in ANSWERS.items():
        score += more if name == "sighted" else 0
        tasks = {f"ad2x_world_{part}": task("world", part, cell(score)) for part in TASKS}
        write_run(out / "runs" / name / "questions", summary(tasks, model=name))
    return out


def rows(text: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def marked(page: Path) -> Path:
    marks = (f"<!-- {name}: {end} -->\n" for name in ("drives", "answers") for end in ("begin", "end"))
    page.write_text("".join(marks))
    return page


def test_each_seed_has_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, card = marked(tmp_path / "page.md"), marked(tmp_path / "card.md")
    folders = [str(learned(tmp_path / f"s{seed}", seed, more)) for seed, more in ((0, 0.0), (1, 3.0), (5, 6.0))]
    monkeypatch.setattr(sys, "argv", ["x", *folders, "--page", str(page), "--card", str(card)])
    assert script("learn_spread").main() == 0
    found = rows(page.read_text())
    assert found["driver"] == found["task"] == ["seed 0", "seed 1", "seed 5", "mean ± sd"]
    assert [text.split(" [")[0] for text in found["**the model**"]] == ["70.0", "73.0", "76.0", "73.0 ± 3.0"]
    assert found["straight"][-1] == "30.0 ± 0.0"
    twin = found["the model above its twin"]
    assert [text.split(" [")[0] for text in twin] == ["20.0", "23.0", "26.0", "23.0 ± 3.0"]
    assert {name for name in found if name in TASKS} == set(TASKS)
    assert rows(card.read_text())["**the model**"] == [found["**the model**"][0]]
    assert found["relation"] == ["80.0 / 40.0 / 50.0", "83.0 / 40.0 / 50.0", "86.0 / 40.0 / 50.0", "83.0 ± 3.0"]


def test_an_unfinished_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder(tmp_path / "runs" / "expert" / "drive", [record("101", 100.0)])
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path)])
    assert script("learn_spread").main() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"{tmp_path}: not finished, without drive speaking-expert; drive sighted" in error


def test_a_missing_run_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "seed0.json")])
    assert script("learn_spread").main() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "seed0.json: nothing there; expected a folder of scripts/learn.sh" in error


def test_a_file_of_figures_stands_for_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {name: marked(tmp_path / name) for name in ("first", "again", "card")}
    out, figures = learned(tmp_path / "s3", 3, 0.26), tmp_path / "figures"
    common = ["--card", str(pages["card"])]
    monkeypatch.setattr(sys, "argv", ["x", str(out), "--page", str(pages["first"]), "--figures", str(figures), *common])
    assert script("learn_spread").main() == 0
    (file,) = figures.iterdir()
    assert file.name.startswith("seed3-")
    assert json.loads(file.read_text())["drives"]["sighted"][0] == 70.3
    monkeypatch.setattr(sys, "argv", ["x", str(file), "--page", str(pages["again"]), *common])
    assert script("learn_spread").main() == 0
    assert pages["again"].read_text() == pages["first"].read_text()


def test_columns_name_the_release_if_there_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, card, figures = marked(tmp_path / "page"), marked(tmp_path / "card"), tmp_path / "figures"
    pages = ["--page", str(page), "--card", str(card)]
    out = str(learned(tmp_path / "run", 3, 0.0))
    monkeypatch.setattr(sys, "argv", ["x", out, "--figures", str(figures), *pages])
    assert script("learn_spread").main() == 0
    (file,) = figures.iterdir()
    files = {}
    for version in ("0.8.0", "world 1 (scenic 3.1.1), lmms-eval-ad2 0.9.0+3535fd77e025"):
        files[version] = tmp_path / f"{len(files)}.json"
        files[version].write_text(json.dumps({**json.loads(file.read_text()), "version": version}))
    monkeypatch.setattr(sys, "argv", ["x", *map(str, files.values()), *pages])
    assert script("learn_spread").main() == 0
    assert rows(page.read_text())["driver"] == ["seed 3 (0.8.0)", "seed 3 (0.9.0)", "mean ± sd"]
    assert rows(card.read_text())["driver"] == ["seed 3"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"seed": 3}, "seed"),
        ({"drives": {"expert": ["100", None]}}, "drives.expert.0"),
        ({"drives": {}}, "not finished, without drive expert; drive speaking-expert; drive sighted; scripts/"),
        ({"more": 1}, "more"),
    ],
)
def test_a_malformed_file_of_figures_is_one_error(
    change: dict[str, object], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = tmp_path / "seed3.json"
    figures = {"seed": "3", "version": "1", "drives": {}, "above": [1.0, None], "answers": {}}
    file.write_text(json.dumps({**figures, **change}))
    monkeypatch.setattr(sys, "argv", ["x", str(file)])
    assert script("learn_spread").main() == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and str(file) in message and error in message
