"""A task with rotated options, from the data home to the table: rows, journal keys, scores of the baselines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.mcq.records import question

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.harness import hooks, judging, task_data
from lmms_eval_ad2.harness.journal import request_key
from lmms_eval_ad2.scoring.variant import TaskVariant

if TYPE_CHECKING:
    from lmms_eval_ad2.harness.models.baselines import BaselineModel

AD2 = {"benchmark": "autodrive_qa", "part": "planning", "circular": True}
KINDS = ("driving_domain_misconceptions", "logical_inconsistencies", "misinterpreted_sensor_inputs")


@pytest.fixture(scope="module")
def baselines() -> Any:
    """Imported by the first test: it loads lmms-eval."""
    from lmms_eval_ad2.harness.models import baselines

    return baselines


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "a.jpg").write_bytes(b"one")
    return tmp_path


def load(images: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch, **ad2: Any) -> Any:
    """The rows of a task "t" over `records`."""
    monkeypatch.setitem(task_data.TASKS, "t", None)  # type: ignore[arg-type]  # removed after the test
    write_dataset("autodrive_qa", "test", records, image_root=images, source={"n": len(records)})
    return task_data.load("t", "autodrive_qa", "test", TaskVariant.from_dict({**AD2, **ad2}, "t"))


def answers(model: BaselineModel, rows: Any) -> list[dict[str, Any]]:
    from lmms_eval.api.instance import Instance

    model.task_dict = {"t": {"test": rows}}
    metadata = {"task": "t", "doc_id": 0, "repeats": 1, "split": "test", "ad2": AD2}
    requests = [
        Instance("generate_until", ("prompt", {}, None, i, "t", "test"), 0, {**metadata, "doc_id": i})
        for i in range(len(rows))
    ]
    replies = model.generate_until(requests)
    return [hooks.process_results(row, [text])[hooks.METRIC] for row, text in zip(rows, replies, strict=True)]


def test_each_rotation_has_its_own_row_and_journal_key(
    images: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = {"source": "drivelm", "distractors": "all", "maker": "rules", "correctness": None}
    rows = load(images, [question("q1", "B", meta=meta), question("q2", "D", meta=meta)], monkeypatch)
    assert rows["id"] == [f"q{q}#{by}" for q in (1, 2) for by in range(4)]
    assert "2 questions, each once per rotation of its options: 8" in capsys.readouterr().out
    data = task_data.TASKS["t"].data
    assert (data["n"], data["questions"], data["maker"], data["distractors"]) == (8, 2, "rules", "all")
    assert data["correctness"] == {"mean": None, "n": 0, "unrated": 2}
    prompts = [hooks.doc_to_text(row) for row in rows]
    assert [hooks.doc_to_target(row) for row in rows] == list("BADC") + list("DCBA")
    assert "(A) q1 says A" in prompts[0]
    assert "(A) q1 says B" in prompts[1]
    model = SimpleNamespace(is_simple=True)
    requests = [SimpleNamespace(args=("same words", {}, None, i, "t", "test"), metadata={}) for i in range(8)]
    assert len({request_key(model, r, lambda root, name: "one") for r in requests}) == 8


def test_only_multiple_choice_records_are_used(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(question("v"), options=(), letter="", form="vqa", answer=BilingualText("Brake."))
    rows = load(images, [question("q"), plain], monkeypatch)
    assert len(rows) == 4
    assert task_data.TASKS["t"].data["left_out"] == 1
    with pytest.raises(Ad2Error, match="that fit this variant"):
        load(images, [plain], monkeypatch)


def test_scores_of_oracle_majority_and_chance(baselines: Any, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance: 1/k on average and (1/k)^k in all rotations. A constant letter is correct in one of k rotations."""
    records = [question(f"two{i}", "AB"[i % 2], KINDS[:1]) for i in range(600)]
    rows = load(images, records, monkeypatch)
    oracle, _ = judging.score("t", answers(baselines.OracleModel(), rows))
    assert [c["official"] for c in oracle["columns"].values()] == [100, 100, 100]
    assert oracle["position"]["distance"] == 0
    chance, lines = judging.score("t", answers(baselines.ChanceModel(), rows))
    assert len(lines) == 1200
    assert chance["columns"]["accuracy"]["official"] == pytest.approx(50, abs=6)  # four standard errors
    assert chance["score"]["official"] == pytest.approx(25, abs=7)
    assert chance["columns"]["consistency"]["official"] == pytest.approx(50, abs=8)
    assert chance["position"]["distance"] < 6
    majority, _ = judging.score("t", answers(baselines.MajorityModel(), rows))
    assert majority["columns"]["accuracy"]["official"] == 50
    assert majority["score"]["official"] == 0
    assert majority["position"]["distance"] == 50


def test_lmms_eval_gets_the_score_per_question_and_no_samples_for_a_standard_error(
    baselines: Any, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"source": "drivelm", "maker": "rules"}
    rows = load(images, [question("q1", meta=meta), question("q2", "C", meta=meta)], monkeypatch)
    table, lines = judging.score("t", answers(baselines.OracleModel(), rows))
    output = SimpleNamespace(
        sample_metrics={}, agg_metrics={}, logged_samples=[], sample_len=None,
        task=SimpleNamespace(higher_is_better=dict),
    )  # fmt: skip
    judging.publish(output, table, lines)
    assert {k: v for k, v in output.agg_metrics.items() if "stderr" not in k} == {
        "score,none": 100, "circular,none": 100, "consistency,none": 100, "accuracy,none": 100,
        "score_strict,none": 100, "unparsed,none": 0, "unscored,none": 0,
    }  # fmt: skip
    assert output.sample_metrics["score", "none"] == []
    row: dict[str, Any] = {}
    judging._annotate(row, table)
    assert row["distractors made by,none"] == "rules"
    json.dumps(table, allow_nan=False)
