"""scripts/ship_model.py: a run of learn.sh becomes the shipped model, or nothing is written."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from support.driving_rows import collect
from support.scripts import script

from closedloop_plugin.learn.training_set import collection_set, read_training
from lmms_eval_ad2.storage.training_card import write_card

SETS = ("expert", "words", "own1", "own2")
MARKS = "".join(f"<!-- {name}: {end} -->\n" for name in ("model", "sets") for end in ("begin", "end"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder of learn.sh whose model is the text "weights", with 1, 2, 3 and 4 frames."""
    out = tmp_path / "run"
    for number, name in enumerate(SETS, 1):
        collect(out / "drives" / name, ["red"] * number)
    model = out / "models" / "sighted2"
    model.mkdir(parents=True)
    for name in (*script("ship_model").FILES, "training.json"):
        (model / name).write_text("weights" if name == "model.safetensors" else name)
    sets = [collection_set(out / "drives" / name) for name in SETS]
    write_card(model, sets, model="sighted2", seed=7, version="9.9.9")
    return out


def ship(monkeypatch: pytest.MonkeyPatch, run: Path, folder: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["x", str(run), "--folder", str(folder)])
    code: int = script("ship_model").main()
    return code


def test_files_and_card(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "README.md").write_text(MARKS)
    assert ship(monkeypatch, run, folder) == 0
    text = (folder / "README.md").read_text()
    assert (folder / "model.safetensors").read_text() == "weights"
    assert hashlib.sha256(b"weights").hexdigest() in text
    assert "`scripts/learn.sh --seed 7`, version 9.9.9" in text and "`models/sighted2`" in text
    assert "10 frames of made routes" in text
    trained = read_training(folder)
    assert [one.name for one in trained.sets] == list(SETS)
    assert all(one.sha256 in text for one in trained.sets)


def test_an_unfinished_run_changes_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "README.md").write_text(MARKS)
    (run / "models" / "sighted2" / "training.json").unlink()
    assert ship(monkeypatch, run, folder) == 2
    assert "not a finished model, without training.json; scripts/learn.sh --out" in capsys.readouterr().err
    assert [file.name for file in folder.iterdir()] == ["README.md"]
    assert (folder / "README.md").read_text() == MARKS
