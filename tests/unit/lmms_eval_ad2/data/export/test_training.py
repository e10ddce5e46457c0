"""Training files: content, card, identical bytes when repeated, and refusal of leaks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.training_sets import MCQ, MOSAIC, TESTED, mcq, six_views, store

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText
from lmms_eval_ad2.data.export import training
from lmms_eval_ad2.data.export.leaks import ExportTask
from lmms_eval_ad2.data.export.training import ExportSettings, card_path, check_row_file, export, leaks_path, set_path
from lmms_eval_ad2.scoring.variant import TaskVariant

OPEN = ExportTask("ad2x_mcq_planning_open", "autodrive_qa", "test", TaskVariant("autodrive_qa", "planning", form="vqa"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twelve planning questions and one of another part for training; three others for evaluation."""
    records = [six_views(n) for n in range(12)]
    store("autodrive_qa", "train", [*records, mcq(50, task="perception")], tmp_path / "train")
    store("autodrive_qa", "test", [mcq(n) for n in (100, 101, 102)], tmp_path / "test")
    return tmp_path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_rows_and_card(root: Path) -> None:
    out = root / "out" / "train.jsonl"
    card = export([MCQ, MOSAIC, OPEN], TESTED, ExportSettings(out))
    exported = rows(out)
    assert len(exported) == card["rows"] == 36
    assert {about["questions"] for about in card["tasks"].values()} == {12}
    assert exported[0]["id"] == "ad2x_mcq_planning_front:q0"
    assert exported[0]["images"] == [str(root / "train/CAM_FRONT/0.png")]
    assert [m["role"] for m in exported[0]["messages"]] == ["user", "assistant"]
    assert [r["messages"][1]["content"] for r in exported[:3]] == ["B", "B", "Brake for car 0."]
    (drawn,) = exported[1]["images"]
    assert Path(drawn).is_relative_to(root / "out" / "train_images")
    assert card["pictures"]["drawn"] == 12
    assert card["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert json.loads(card_path(out).read_text("utf-8")) == json.loads(json.dumps(card))
    assert card["leak_check"]["compared_with"][0]["split"] == "test"
    assert card["leak_check"]["without_own_evaluation_split"] == []
    assert not leaks_path(out).exists()


def test_order_and_selection_depend_on_the_seed(root: Path) -> None:
    def content(seed: int, name: str, limit: int | None = 5, shuffle: bool = True) -> str:
        out = root / f"{name}.jsonl"
        settings = ExportSettings(out, images_out=root / "images", limit=limit, shuffle=shuffle, seed=seed)
        export([MCQ, OPEN], TESTED, settings)
        return out.read_text("utf-8")

    first = content(1, "a")
    assert content(1, "b") == first
    assert content(2, "c") != first
    assert Counter(json.loads(line)["id"].split(":")[0] for line in first.splitlines()) == {MCQ.name: 5, OPEN.name: 5}
    shuffled, ordered = content(1, "d", None), content(1, "e", None, shuffle=False)
    assert shuffled != ordered
    assert sorted(shuffled.splitlines()) == sorted(ordered.splitlines())
    assert content(1, "f", 2, shuffle=False).splitlines() == ordered.splitlines()[:4]


@pytest.mark.parametrize("shuffle", [False, True])
def test_files_of_a_killed_export_are_recognised(root: Path, monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    out = root / "train.jsonl"
    export([MCQ], TESTED, ExportSettings(out, limit=3, shuffle=shuffle))
    check_row_file(out)
    before = out.read_bytes(), set_path(out).read_bytes()

    def killed(*args: Any) -> Any:
        raise KeyboardInterrupt

    # When the names are written, the rows are still those before; then the card tells that they are not of one export.
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training, "write_set", killed)
        export([MCQ], TESTED, ExportSettings(out, limit=5, shuffle=shuffle))
    assert (out.read_bytes(), set_path(out).read_bytes()) == before
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training, "atomic_write_json", killed)
        export([MCQ], TESTED, ExportSettings(out, limit=5, shuffle=shuffle))
    with pytest.raises(
        Ad2Error, match=r"train\.jsonl is not the file that .*train\.card\.json describes; export it again"
    ):
        check_row_file(out)


def test_leaks_prevent_the_export_unless_dropped(root: Path) -> None:
    leaking = [mcq(100, id="copied", cluster="x"), mcq(101, cluster="x")]
    store("autodrive_qa", "train", [*(mcq(n) for n in range(4)), *leaking], root / "test")
    out = root / "train.jsonl"
    with pytest.raises(Ad2Error, match=r"2 of 6 questions.*same_item 1, same_question 1") as refused:
        export([MCQ], TESTED, ExportSettings(out))
    assert "q101 is in autodrive_qa/test as q101" in str(refused.value)
    assert str(leaks_path(out)) in str(refused.value)
    assert not out.exists()
    assert {(r["id"], r["kind"], r["held"]) for r in rows(leaks_path(out))} == {
        ("copied", "same_question", "autodrive_qa/test"),
        ("q101", "same_item", "autodrive_qa/test"),
    }
    with pytest.raises(Ad2Error, match="2 of 6"):
        export([MCQ], TESTED, ExportSettings(out, allow_shared_scenes=True))
    card = export([MCQ], TESTED, ExportSettings(out, drop_leaks=True))
    assert {r["id"] for r in rows(out)} == {f"{MCQ.name}:q{n}" for n in range(4)}
    assert card["tasks"][MCQ.name]["left_out"] == {"leak": 2}
    assert card["leak_check"]["dropped"] == {"same_item": 1, "same_question": 1}


def test_shared_scenes_are_refused_or_allowed(root: Path) -> None:
    shared = [mcq(n, cluster="scene 100") for n in (1, 2)]
    store("autodrive_qa", "train", [*shared, mcq(3)], root / "train")
    out = root / "train.jsonl"
    with pytest.raises(Ad2Error, match="--config allow_shared_scenes=true"):
        export([MCQ], TESTED, ExportSettings(out))
    card = export([MCQ], TESTED, ExportSettings(out, allow_shared_scenes=True))
    assert (card["rows"], card["leak_check"]["allowed"]) == (3, {"same_scene": 2})
    assert not leaks_path(out).exists()


def test_only_selected_questions_are_checked_for_leaks(root: Path) -> None:
    store("autodrive_qa", "train", [mcq(1), mcq(100, cluster="x")], root / "train")
    assert export([MCQ], TESTED, ExportSettings(root / "train.jsonl", limit=1))["rows"] == 1


def test_missing_evaluation_split_is_recorded_in_the_card(tmp_path: Path) -> None:
    store("autodrive_qa", "train", [mcq(1)], tmp_path)
    card = export([MCQ], TESTED, ExportSettings(tmp_path / "train.jsonl"))
    assert card["leak_check"]["compared_with"] == []
    assert card["leak_check"]["without_own_evaluation_split"] == ["autodrive_qa"]


def test_questions_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    open_one = mcq(2, form="vqa", options=(), letter="", answer=BilingualText("Brake."))
    unanswered = mcq(3, form="vqa", options=(), letter="", answer=BilingualText(), meta={"unanswered": True})
    store("autodrive_qa", "train", [mcq(1), open_one, unanswered, mcq(4)], tmp_path)
    (tmp_path / "4.png").write_bytes(b"broken")
    only_mc = ExportTask("t", "autodrive_qa", "test", TaskVariant("autodrive_qa", "planning", form="mc"))
    card = export([only_mc, MCQ], TESTED, ExportSettings(tmp_path / "train.jsonl"))
    assert card["tasks"]["t"]["left_out"] == {"not_askable": 2}
    assert card["tasks"][MCQ.name]["left_out"] == {"no_reference": 1}
    assert (card["tasks"]["t"]["rows"], card["tasks"][MCQ.name]["rows"]) == (1, 2)
    assert card["unreadable"]["questions"] == 2
    assert "4.png" in card["unreadable"]["first"][0]


def test_empty_export_is_an_error(tmp_path: Path) -> None:
    store("autodrive_qa", "train", [mcq(1, task="perception")], tmp_path)
    with pytest.raises(
        Ad2Error, match=r"nothing to export:\n  ad2x_mcq_planning_front: autodrive_qa/train: no record of part"
    ):
        export([MCQ], TESTED, ExportSettings(tmp_path / "train.jsonl"))
    store(
        "autodrive_qa", "train", [mcq(1, form="vqa", options=(), letter="", answer=BilingualText("Brake."))], tmp_path
    )
    only_mc = ExportTask("t", "autodrive_qa", "test", TaskVariant("autodrive_qa", "planning", form="mc"))
    with pytest.raises(Ad2Error, match="t: autodrive_qa/train: 1 not_askable"):
        export([only_mc], TESTED, ExportSettings(tmp_path / "train.jsonl"))
    store("autodrive_qa", "train", [mcq(1)], tmp_path)
    (tmp_path / "1.png").unlink()
    with pytest.raises(Ad2Error, match=r"nothing could be written: .*1\.png"):
        export([MCQ], TESTED, ExportSettings(tmp_path / "train.jsonl"))
    assert not (tmp_path / "train.jsonl").exists()


def test_an_evaluation_split_is_refused_before_anything_is_read(root: Path) -> None:
    with pytest.raises(Ad2Error, match="training splits only"):
        export([MCQ], TESTED, ExportSettings(root / "train.jsonl", split="test"))
