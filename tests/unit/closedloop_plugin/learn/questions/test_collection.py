"""A collected folder -> questions.jsonl -> import."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.collected import LABEL, SIZE, example_rows, frame_row, seen, write_collection

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.learn.questions.collection import frames_of, label_folder, with_what_follows
from closedloop_plugin.learn.questions.kinds import TASKS
from closedloop_plugin.learn.questions.seen_frame import SHOWN_PIXELS
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import import_release, open_dataset
from lmms_eval_ad2.data.home.record_check import record_fault


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "set", example_rows())


def labelled(folder: Path, **options: Any) -> list[Record]:
    label_folder(folder, **options)
    return [Record.from_json(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]


def test_every_task_has_valid_questions_in_both_languages(folder: Path) -> None:
    records = labelled(folder)
    assert {record.task for record in records} == set(TASKS)
    assert len({record.id for record in records}) == len(records) > 100
    for record in records:
        assert record_fault(record) is None
        assert (record.benchmark, record.image_size) == ("world", SIZE)
        assert (folder / record.images[0]).is_file()
        assert record.cluster == record.id.partition("/")[0] and record.meta["route"] == record.cluster[:-5]
        texts = [record.question, *(o.text for o in record.options)]
        texts += [text for step in record.steps for text in (step.question, step.answer)]
        assert all(text.en and text.zh for text in texts)
        assert record.scene["period"] == "day"


def test_answers_are_balanced(folder: Path) -> None:
    tasks = {task.task: task for task in label_folder(folder)}
    assert tasks["location"].guess is None
    assert tasks["existence"].guess == tasks["relation"].guess == 0.5  # one of two answers
    assert all(0 < (tasks[name].guess or 0) <= 0.5 for name in ("counting", "perception", "prediction", "planning"))
    existence: dict[str, Counter[str]] = {}
    for record in labelled(folder):
        if record.subtask == "existence":
            existence.setdefault(record.question.en, Counter())[record.answer.en] += 1
    assert existence and all(counts["yes"] == counts["no"] for counts in existence.values())


def test_the_road_stays_free_if_nothing_slows_the_expert_for_three_seconds() -> None:
    reasons = ["clear"] * 8 + ["red_light"] + ["curve"] * 7  # of frames every 0.5 s: the light at 4 s
    frames = [seen(frame_row(tick=10 * k, reason=reason)) for k, reason in enumerate(reasons)]
    found = [frame.stays_free for frame in with_what_follows(iter(frames))]
    # Up to 0.5 s the light is later than 3 s. From 4.5 s on it is past, and the last 3 s are not known to their end.
    assert found == [True, True, *[False] * 7, True, *[None] * 6]


def test_letters_are_uniform() -> None:
    from support.collected import actor, asker

    from closedloop_plugin.learn.questions.choices import perception

    letters = Counter(
        question.record.letter for tick in range(200) for question in perception(asker(actor(), tick=tick))
    )
    total = sum(letters.values())
    assert set(letters) == set("ABCD") and max(letters.values()) < 0.32 * total


def test_the_file_depends_on_the_seed_only(folder: Path, tmp_path: Path) -> None:
    rows = example_rows()
    random.Random(3).shuffle(rows)
    for row in rows:
        row["objects"].reverse()
    other = write_collection(tmp_path / "other", rows)
    first = {record.to_json() for record in labelled(folder)}
    assert {record.to_json() for record in labelled(other)} == first
    assert {record.to_json() for record in labelled(folder, seed=1)} != first


def test_bounds(folder: Path) -> None:
    records = labelled(folder, per_frame=2, per_task=3)
    assert max(Counter(record.meta["frame"] for record in records).values()) <= 2
    assert max(Counter(record.task for record in records).values()) <= 3


def test_import_reads_the_questions_back(folder: Path) -> None:
    records = labelled(folder)
    import_release("world", folder, split="train", check_images=True)
    dataset = open_dataset("world", "train")
    assert dataset.image_root == str(folder.resolve()) or Path(dataset.image_root) == folder.resolve()
    assert {record.to_json() for record in dataset.records()} == {record.to_json() for record in records}


def test_import_without_questions_names_the_command(folder: Path) -> None:
    with pytest.raises(Ad2Error, match="ad2 drive label"):
        import_release("world", folder)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"benchmark": "ad2_bench"}, "benchmark"), ({"task": "ocr"}, "task"), ({"images": ["../a.jpg"]}, "images"),
        ({"extra": 1}, "extra"),
    ],
)  # fmt: skip
def test_foreign_rows_are_refused(folder: Path, changes: dict[str, Any], field: str) -> None:
    row = json.loads(labelled(folder)[0].to_json()) | changes
    (folder / "questions.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    with pytest.raises(DataError, match=f"row 1: field '{field}'"):
        import_release("world", folder)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"speed": "fast"}, "speed"), ({"objects": [{"id": "1"}]}, r"objects\[0\].kind"), ({"label": 3}, "label"),
        ({"image": "../x.jpg"}, "image"), ({"command": "fly"}, "command"), ({"image": "gone.jpg"}, "image"),
            ({"scenario": "\ud800"}, "scenario"), ({"id": "\ud800"}, "id"),
            ({"id": None}, "id"), ({"label": {**LABEL, "action": "<image>"}}, "label.action"),
    ],
)  # fmt: skip
def test_a_malformed_frame_is_one_error(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    folder = write_collection(tmp_path, [frame_row()])
    (file,) = folder.rglob("frames.jsonl")
    file.write_text(json.dumps({**frame_row(), **change}) + "\n", "utf-8")
    with pytest.raises(DataError, match=f"frames.jsonl, row 1: field '{field}'"):
        label_folder(folder)


def test_the_stated_limit_is_the_lower_one_of_road_and_profile(tmp_path: Path) -> None:
    """Bench2ADVLM's cars drive at most 5 m/s."""
    folder = write_collection(tmp_path, [frame_row()])
    (file,) = folder.rglob("frames.jsonl")
    assert next(frames_of(folder, file)).speed_limit == 8.3
    (folder / "run.json").write_text('{"identity": {"profile": "bench2advlm"}}')
    label_folder(folder)
    assert next(frames_of(folder, file, profile("bench2advlm").max_speed)).speed_limit == 5.0
    (folder / "run.json").write_text('{"identity": {}}')
    with pytest.raises(DataError, match=r"identity\.profile"):
        label_folder(folder)


def test_a_folder_without_frames_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="ad2 drive collect"):
        label_folder(tmp_path)


def test_the_threshold_of_the_collection() -> None:
    """The number in the format of the frames."""
    assert SHOWN_PIXELS == 12
