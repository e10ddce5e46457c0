"""`ad2 eval` and `lmms_eval_ad2.evaluate` of a model that was trained on evaluated questions: marks and refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmms_eval_ad2 import evaluate
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.export.leaks import TrainingSetBuilder
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.sample import ensure_sample
from lmms_eval_ad2.storage.training_card import write_card

TASK = "ad2demo_mcq_perception"
DATA = "sample_autodrive_qa"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder whose card names the first two questions of the sample."""
    ensure_sample()
    data = open_dataset(DATA, "test")
    builder = TrainingSetBuilder()
    asked = [record for record in data.records() if record.task == "perception"]
    for record in asked[:2]:
        builder.add(record, data.image_root)
    (tmp_path / "model").mkdir()
    write_card(tmp_path / "model", [builder.build("made")], model="tiny")
    return tmp_path / "model"


def test_a_trained_model_is_marked_or_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = f"device={model}"  # the baseline has no weights, and ignores its device
    with pytest.raises(Ad2Error, match=rf"strict_contamination: {TASK}: trained on \d+ of these \d+ questions"):
        evaluate("ad2_chance", TASK, model_args=args, out=tmp_path / "strict", limit=4, strict_contamination=True)
    assert not list((tmp_path / "strict").rglob("summary.json"))
    capsys.readouterr()
    found = evaluate("ad2_chance", TASK, model_args=args, out=tmp_path / "o", limit=4)
    assert f"ad2: {TASK}: trained on" in capsys.readouterr().err
    assert found.about["training"]["named"] and found.about["training"]["cards"][0]["sets"] == ["made"]
    trained_on = found.tasks[TASK].data["trained_on"]
    assert trained_on["kinds"]["same_item"] == 2 <= trained_on["questions"]
    note = f"trained on {sum(trained_on['kinds'].values())} of these {trained_on['questions']} questions"
    assert note in " ".join(found.table.split())
    assert main(["report", str(tmp_path / "o")]) == 0
    assert note in " ".join(capsys.readouterr().out.split())


def test_a_model_without_a_card_is_only_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluate("ad2_chance", TASK, out=tmp_path, limit=2)
    assert found.about["training"] == {"named": False} and "trained_on" not in found.tasks[TASK].data
    assert "trained" not in capsys.readouterr().err + found.table
    (summary,) = tmp_path.rglob("summary.json")
    assert json.loads(summary.read_text("utf-8"))["run"]["training"] == {"named": False}
