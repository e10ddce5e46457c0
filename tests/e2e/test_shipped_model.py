"""The model that comes with the package: its files, its card, and that it sees and speaks."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path

import pytest
import torch

from closedloop_plugin.learn.encoded_rows import EncodedRows
from closedloop_plugin.learn.forward_pass import loss_of, picture_tokens, pixels_of
from closedloop_plugin.learn.model_folder import load_llava
from closedloop_plugin.learn.trained_agent import DECISION_HZ, MOST_TOKENS, SIZE, agent_of, shipped_model
from closedloop_plugin.learn.training_file import TrainingFile
from closedloop_plugin.learn.training_set import read_training
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error

MOST_BYTES = 15_000_000


def test_the_card_names_weights_and_data() -> None:
    folder = shipped_model()
    text, weights = (folder / "README.md").read_text("utf-8"), (folder / "model.safetensors").read_bytes()
    assert len(weights) < MOST_BYTES and hashlib.sha256(weights).hexdigest() in text
    trained = read_training(folder)
    assert [one.name for one in trained.sets] == ["expert", "words", "own1", "own2"]
    for one in trained.sets:
        assert one.sha256 in text and one.routes and one.images


def test_older_libraries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would load random weights with a warning only."""
    monkeypatch.setattr(metadata, "version", lambda name: "4.57.3")
    with pytest.raises(Ad2Error, match=r"needs transformers 5, found 4\.57\.3"):
        shipped_model()


def test_it_was_not_trained_on_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "check", str(shipped_model()), "demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["leaks"] == []


def test_it_drives_in_words_that_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "shipped", "--agent"]) == 0
    agent = capsys.readouterr().out.strip()
    assert agent == agent_of(shipped_model(), MOST_TOKENS)
    world = ("--suite", "demo", "--routes-ids", "102", "--size", SIZE, "--config", f"decision_hz={DECISION_HZ}")
    assert main(["drive", "run", *world, "--agent", agent, "--out", str(tmp_path / "run")]) == 0
    (line,) = (tmp_path / "run" / "episodes.jsonl").read_text("utf-8").splitlines()
    counts = json.loads(line)["counts"]
    assert counts["mode rules"] == counts["decisions"] > 20  # the rules read all of its answers


def test_it_sees(tmp_path: Path) -> None:
    """Its loss on frames of new routes is well below that of the same weights with black pictures."""
    drives, rows = tmp_path / "drives", tmp_path / "rows.jsonl"
    types = "ParkedObstacle,VanillaSignalizedTurnEncounterRedLight"
    assert (
        main(["drive", "collect", "--routes", "2", "--config", f"types={types}", "--seed", "77", "--out", str(drives)])
        == 0
    )
    assert main(["drive", "label", str(drives)]) == 0
    asked = ["--questions", "3", "--config", "reasons=true", "--config", "repeat=1"]
    assert main(["export", "swift", "--drives", str(drives), "--out", str(rows), *asked]) == 0
    model, processor = load_llava(shipped_model())
    model.eval()
    data = EncodedRows(TrainingFile.read([rows]), processor, tmp_path / "pictures.npy")
    batch = data.batch([(group, range(len(turns))) for group, turns in enumerate(data.turns)])

    def loss(pixels: torch.Tensor) -> float:
        with torch.no_grad():
            return float(loss_of(model, batch, picture_tokens(model, pixels_of(pixels, processor))))

    assert len(batch.pixels) > 60
    assert loss(batch.pixels) < 0.6 * loss(torch.zeros_like(batch.pixels))
