"""The packaged sample: all tasks and sub-tasks occur, constant answers do not pay, options are complete."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.sample import loader

DATA = Path(str(loader.PACKAGE_DATA))
# Data homes replace their copy when the version changes: whoever changes a record or an image gives both a new value.
VERSION = "ad2-sample/5"
SHA256 = "1aeb6a464839baec4364be66b35637f74746679f01694411dee1977ac58d71ca"
TASKS = {
    "ad2_bench": {"perception_base", "perception_advanced", "relation", "reasoning", "cot"},
    "coda_lm": {"general", "region", "suggestion"},
    "autodrive_qa": {"perception", "prediction", "planning"},
}


@cache
def records(benchmark: str) -> list[Record]:
    lines = (DATA / "records" / f"{benchmark}.jsonl").read_text("utf-8").splitlines()
    return [Record.from_json(line) for line in lines]


def test_another_content_has_another_version() -> None:
    total = hashlib.sha256()
    for file in sorted([*DATA.glob("records/*.jsonl"), *DATA.glob("images/*/*.jpg")]):
        total.update(f"{file.relative_to(DATA).as_posix()} {len(file.read_bytes())}\n".encode() + file.read_bytes())
    version = json.loads((DATA / "version.json").read_text("utf-8"))["generator"]
    assert (version, total.hexdigest()) == (VERSION, SHA256)


def test_every_image_has_the_size_of_its_records() -> None:
    rows = [r for benchmark in TASKS for r in records(benchmark)]
    named = {name for r in rows for name in r.images}
    assert named == {file.relative_to(DATA / "images").as_posix() for file in DATA.glob("images/*/*.jpg")}
    assert len(named) == 21 + 12 + 4 * 6
    for name in named:
        with Image.open(DATA / "images" / name) as image:
            assert image.size == (960, 540), name
    assert all(r.image_size == (960, 540) for r in rows)


@pytest.mark.parametrize("benchmark", TASKS)
def test_every_task_has_enough_records(benchmark: str) -> None:
    rows = records(benchmark)
    counts = Counter(r.task for r in rows)
    assert set(counts) == TASKS[benchmark]
    assert min(counts.values()) >= 12
    assert counts.get("perception_base", 24) >= 24
    assert len({r.id for r in rows}) == len(rows)
    assert all(r.cluster for r in rows)


def test_all_named_subtasks_weathers_and_forms_occur() -> None:
    rows = records("ad2_bench")
    named = (
        "existence existence_left_right category counting location detection reference_detection attribute "
        "dense_caption ocr lane_line motion position others spatial social causal occlusion weather night region "
        "occlusion_reasoning cross_role holistic"
    )
    assert {r.subtask for r in rows} == set(named.split())
    assert {r.scene["weather"] for r in rows} == {"overcast", "dawn", "rainy", "snowy", "fog", "night", "sand"}
    assert {r.scene["severity"] for r in rows} == {"light", "moderate", "severe"}
    assert {r.form for r in rows} == {"mc", "vqa", "yesno", "count", "point", "box", "ocr", "chain"}
    assert {r.mark.kind for r in rows} == {"none", "text", "point", "box"}
    marked = [r.mark for r in rows if r.task == "relation" and r.mark.coords]
    assert len(marked) >= 30 and all(mark.text.en and mark.text.zh for mark in marked)
    letters = Counter(r.letter for r in rows)
    assert letters["E"] >= 8 and letters["F"] >= 6
    for task in ("perception_base", "perception_advanced", "relation", "reasoning"):
        both = [r for r in rows if r.task == task and {"mc", "vqa"} <= set(r.forms)]
        assert len(both) >= 14 or task == "perception_base", task
    assert Counter(r.subtask for r in rows).items() >= {("social", 5), ("night", 5)}


def test_constant_answers_score_no_more_than_their_share() -> None:
    """Each number from 0 to 6 three times, as many yes as no, left as right; every letter at most a third."""
    rows = records("ad2_bench")
    assert Counter(r.answer.en for r in rows if r.form == "count") == dict.fromkeys("0123456", 3)
    words = Counter(r.answer.en for r in rows if r.form == "yesno")
    assert words == {"yes": 3, "no": 3, "left": 3, "right": 3}
    letters = Counter(r.letter for r in rows if r.letter)
    assert max(letters.values()) <= letters.total() / 3.5
    spatial = Counter(r.right_option.text.en for r in rows if r.subtask == "spatial" and r.right_option)
    assert max(spatial.values()) <= 0.5 * spatial.total()


def test_marks_and_boxes_are_within_the_image() -> None:
    for record in (r for benchmark in TASKS for r in records(benchmark)):
        for mark in (record.mark, *(step.mark for step in record.steps if step.mark)):
            for coords in mark.coords:
                assert all(0 <= v <= (960, 540)[i % 2] for i, v in enumerate(coords)), record.id
        if record.form == "box":
            x1, y1, x2, y2 = (int(n) for n in re.findall(r"\d+", record.answer.en))
            assert 0 <= x1 < x2 <= 960 and 0 <= y1 < y2 <= 540, record.id


def test_chains_mark_vehicles_and_people_at_their_steps() -> None:
    chains = [r for r in records("ad2_bench") if r.form == "chain"]
    for record in chains:
        kinds = [s.mark and s.mark.kind for s in record.steps]
        assert (kinds[0], *kinds[3:]) == (None, None, None)
        assert kinds[1] in ("box", None) and kinds[2] in ("point", None)
        assert (kinds[2] is None) == record.steps[2].answer.en.startswith("No vulnerable"), record.id
    assert sum(s.mark is not None for r in chains for s in r.steps) >= 30


def test_ad2_records_are_bilingual_and_chains_have_five_steps() -> None:
    chinese = re.compile(r"[一-鿿]")
    for r in records("ad2_bench"):
        assert r.question.en
        assert chinese.search(r.question.zh)
        sign = "" if r.form == "ocr" else re.sub(r"reading [^;.]+", "", r.question.en + r.answer.en)
        assert not chinese.search(sign)
        if r.form in ("vqa", "mc", "chain"):
            assert chinese.search(r.answer.zh), r.id
        if r.form == "chain":
            assert len(r.steps) == 5
            assert all(chinese.search(s.answer.zh) and s.answer.en for s in r.steps)


@pytest.mark.parametrize("benchmark", ["ad2_bench", "autodrive_qa"])
def test_options_are_distinct_and_the_letter_is_the_correct_one(benchmark: str) -> None:
    for r in records(benchmark):
        right = r.right_option
        if right is None:
            continue
        texts = [o.text.en for o in r.options]
        assert len(set(texts)) == len(texts)
        with_reason = right.text.en.startswith(r.answer.en.rstrip(".") + ", ")  # "Yes, one bus." of "Yes."
        same = right.text.en == r.answer.en or (benchmark == "autodrive_qa" and with_reason)
        assert same == (r.form == "mc"), r.id
        kinds = Counter(o.kind for o in r.options)
        if benchmark == "ad2_bench":
            assert [o.letter for o in r.options] == list("ABCDEF")
            assert kinds["correct"] == (r.letter in "ABCD")
            assert (r.options[4].kind, r.options[5].kind) == ("none_matches", "absent")
        else:
            assert kinds["correct"] == 1
            assert right.kind == "correct"
            assert len(kinds) == 4


@pytest.mark.parametrize("benchmark", ["ad2_bench", "autodrive_qa"])
def test_correct_letters_are_balanced(benchmark: str) -> None:
    letters = Counter(r.letter for r in records(benchmark) if r.letter)
    assert max(letters[k] for k in "ABCD") <= 0.5 * letters.total()
    assert min(letters[k] for k in "ABCD") >= 2


def test_coda_regions_have_every_class_and_six_view_questions_their_cameras() -> None:
    regions = [r for r in records("coda_lm") if r.task == "region"]
    classes = {"vehicle", "vru", "traffic_sign", "traffic_light", "traffic_cone", "barrier", "miscellaneous"}
    assert {r.meta["category"] for r in regions} == classes
    six = [r for r in records("autodrive_qa") if r.views]
    cameras = ("FRONT", "FRONT_LEFT", "FRONT_RIGHT", "BACK", "BACK_LEFT", "BACK_RIGHT")
    assert {frozenset(r.views) for r in six} == {frozenset(f"CAM_{name}" for name in cameras)}
    assert all(len(r.images) == 6 for r in six)


def test_options_record_their_maker_and_reasons() -> None:
    for record in records("autodrive_qa"):
        assert (record.meta["maker"], record.meta["distractors"]) == ("rules", "all")
        wrong = {o.letter for o in record.options if o.kind != "correct"}
        assert set(record.meta["reasons"]) == wrong and all(record.meta["reasons"].values())
        assert all(o.text.en.endswith(".") for o in record.options)
