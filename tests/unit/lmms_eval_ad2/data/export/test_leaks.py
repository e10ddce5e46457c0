"""Leak check: evaluated questions, images and scenes are found in training data, without false positives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.training_sets import mcq, picture, store

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.export.leaks import (
    EvaluationLeak,
    ExportTask,
    HeldOutIndex,
    held_out,
    is_evaluation,
    is_training,
    refuse_evaluation,
)
from lmms_eval_ad2.scoring.variant import TaskVariant

TOKEN = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
NAME = "n015-2018-07-18-11-07-57+0800__CAM_FRONT__1531883530412470"


def drivelm(number: int, **changes: Any) -> Record:
    fields = {"benchmark": "drivelm", "id": f"{TOKEN}_f_{number}", "cluster": TOKEN, **changes}
    return mcq(number, **fields)


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "train", tmp_path / "test"


def kind(record: Record, root: Path, held: HeldOutIndex) -> str | None:
    for image in record.images:
        if not (root / image).exists():
            picture(root / image, 200)
    leak = held.leak(record, root)
    return leak.kind if leak else None


def test_unrelated_records_are_no_leak(roots: tuple[Path, Path]) -> None:
    """Equal short file and scene names in another folder or benchmark are no leak."""
    train, test = roots
    store("autodrive_qa", "test", [mcq(1), mcq(2)], test)
    held = HeldOutIndex(held_out([]))
    assert [s.n for s in held.splits] == [2]
    assert kind(mcq(1, id="other", cluster="elsewhere"), train, held) is None
    assert kind(mcq(1, benchmark="ad2_bench"), train, held) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "same_item"),
        ({"id": "new", "images": ("9.png",), "cluster": "x", "question": BilingualText("Other?")}, None),
        ({"id": "new", "images": ("9.png",), "question": BilingualText("Other?")}, "same_scene"),
    ],
)
def test_equal_ids_and_scenes_are_leaks(
    changes: dict[str, Any], expected: str | None, roots: tuple[Path, Path]
) -> None:
    train, test = roots
    store("autodrive_qa", "test", [mcq(1)], test)
    assert kind(mcq(1, **changes), train, HeldOutIndex(held_out([]))) == expected


def test_image_is_recognised_by_its_content(roots: tuple[Path, Path]) -> None:
    train, test = roots
    store("autodrive_qa", "test", [mcq(1)], test)
    held = HeldOutIndex(held_out([]))
    train.mkdir()
    shutil.copy(test / "1.png", train / "77.png")
    copied = {"id": "new", "images": ("77.png",), "cluster": "x"}
    assert kind(mcq(1, **copied), train, held) == "same_question"
    other = mcq(1, **copied, question=BilingualText("Where is the bus?"))
    assert held.leak(other, train) == EvaluationLeak("same_image", "autodrive_qa/test", "q1", "77.png")


def test_image_is_recognised_by_a_unique_name_or_its_path(roots: tuple[Path, Path]) -> None:
    train, test = roots
    unique_name = f"samples/CAM_FRONT/{NAME}.png"
    picture(test / unique_name, 3)
    store("autodrive_qa", "test", [mcq(1, images=(unique_name,)), mcq(2)], test)
    held = HeldOutIndex(held_out([]))
    elsewhere = mcq(3, images=(f"sweeps/{NAME}.png",), question=BilingualText("?"))
    assert kind(elsewhere, train, held) == "same_image"
    assert kind(mcq(3, images=("2.png",), question=BilingualText("?")), test, held) == "same_image"


def test_scene_tokens_are_compared_across_benchmarks(roots: tuple[Path, Path]) -> None:
    train, test = roots
    derived = mcq(1, cluster=f"drivelm:{TOKEN}", meta={"source": "drivelm", "source_id": "x", "source_split": "train"})
    store("autodrive_qa", "test", [derived], test)
    held = HeldOutIndex(held_out([]))
    assert kind(drivelm(5), train, held) == "same_scene"
    assert kind(drivelm(5, cluster="a" + TOKEN[1:]), train, held) is None


def test_source_of_an_evaluated_question_is_a_leak(roots: tuple[Path, Path]) -> None:
    train, test = roots
    meta = {"source": "drivelm", "source_id": f"{TOKEN}_f_5", "source_split": "train"}
    store("autodrive_qa", "test", [mcq(1, meta=meta)], test)
    held = HeldOutIndex(held_out([]))
    assert held.leak(drivelm(5, cluster="x"), train) == EvaluationLeak("same_item", "autodrive_qa/test", "q1")
    twin = mcq(8, id="another", meta=meta, cluster="y")  # derived from the same question
    assert kind(twin, train, held) == "same_item"


def test_question_derived_from_an_evaluation_split_that_is_not_imported_is_a_leak(tmp_path: Path) -> None:
    held = HeldOutIndex([])
    for split, expected in (("val", "evaluation_source"), ("test", "evaluation_source"), ("train", None)):
        meta = {"source": "nuscenes_qa", "source_id": "7", "source_split": split}
        assert kind(mcq(1, meta=meta), tmp_path, held) == expected


def test_missing_evaluation_images_are_compared_by_path(roots: tuple[Path, Path]) -> None:
    train, test = roots
    store("autodrive_qa", "test", [mcq(1)], test)
    shutil.rmtree(test)
    held = HeldOutIndex(held_out([]))
    assert kind(mcq(4, images=("1.png",), cluster="x"), train, held) is None
    assert held.leak(mcq(4, images=("1.png",), cluster="x"), test).kind == "same_image"  # type: ignore[union-attr]


@pytest.mark.parametrize("split", ["test", "val", "mini", "validation", "val_q_only", "Test-2", "train_val"])
def test_evaluation_splits_are_recognised_by_name(split: str) -> None:
    assert is_evaluation(split)
    assert not is_training(split)
    task = ExportTask("t", "data", "test", TaskVariant("b", "p"))
    with pytest.raises(Ad2Error, match="training splits only"):
        refuse_evaluation([task], split, {})


def test_split_that_a_task_evaluates_is_refused_under_any_name(tmp_path: Path) -> None:
    task = ExportTask("t", "data", "test", TaskVariant("b", "p"))
    refuse_evaluation([task], "spring", {"other": {"spring"}})
    with pytest.raises(Ad2Error, match="evaluated on this split"):
        refuse_evaluation([task], "spring", {"data": {"spring"}})
    assert all(is_training(s) for s in ("train", "train_front", "train-2", "Train"))
    manifest = store("autodrive_qa", "spring", [mcq(1)], tmp_path)
    store("autodrive_qa", "train", [mcq(2)], tmp_path)
    assert [m.split for m in held_out([])] == ["spring"]
    assert held_out([manifest]) == []
