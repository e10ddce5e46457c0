"""AD2-Bench in our schema: every form, coordinates in pixels, every kind of fault with its field."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import BilingualText, Record, VisualPrompt
from lmms_eval_ad2.data.releases import RELEASES, BadRow
from lmms_eval_ad2.data.releases.ad2_bench import records_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.prompts.text import build

BASE: dict[str, Any] = {
    "id": "q1",
    "image": "fog/0001.jpg",
    "image_size": [1000, 500],
    "dimension": "perception_base",
    "subtask": "existence",
    "form": "yesno",
    "question": {"en": "Is a truck in sight?", "zh": "能看到卡车吗？"},
    "answer": "yes",
}
OPTIONS = {"A": "one", "B": {"en": "two", "zh": "两"}, "C": "three", "D": "four", "E": "none fits", "F": "not there"}


def read(**changes: Any) -> list[Record]:
    return records_of(UntrustedRow({**BASE, **changes}, "rows.jsonl", 7))


def one(**changes: Any) -> Record:
    (record,) = read(**changes)
    return record


@pytest.mark.parametrize(
    ("form", "answer", "canonical"),
    [
        ("yesno", "No.", "no"),
        ("yesno", {"en": "Yes", "zh": "是"}, "yes"),
        ("yesno", {"zh": "否"}, "no"),
        ("yesno", True, "yes"),
        ("count", 3, "3"),
        ("count", "07", "7"),
        ("point", [10, 20.5], "<10,20.5>"),
        ("box", [1, 2, 30.25, 40], "[1, 2, 30.25, 40]"),
        ("ocr", "ABC 123", "ABC 123"),
        ("vqa", "A red car.", "A red car."),
    ],
)
def test_typed_answers_are_converted_to_canonical_form(form: str, answer: Any, canonical: str) -> None:
    assert one(form=form, answer=answer).answer.en == canonical


def test_normalised_coordinates_become_pixels() -> None:
    prompt = {"type": "box", "coords": [[0.1, 0.2, 0.3, 0.4]]}
    record = one(form="point", answer=[0.5, 0.25], coords_frame="normalised", prompt=prompt)
    assert record.answer.en == "<500,125>"
    assert record.mark == VisualPrompt("box", ((100.0, 100.0, 300.0, 200.0),))


@pytest.mark.parametrize("answer", ["B", "two", {"zh": "两"}, None])
def test_the_correct_letter_is_found(answer: Any) -> None:
    record = one(form="mc", options=OPTIONS, answer=answer, letter="B" if answer is None else None)
    assert record.letter == "B"
    assert record.answer.get("en") in ("two", "两")
    assert [o.kind for o in record.options] == ["distractor", "correct", *["distractor"] * 2, "none_matches", "absent"]


def test_row_with_options_can_be_an_open_question() -> None:
    record = one(form="vqa", options=OPTIONS, answer="Two of them.", letter="B")
    assert (record.letter, record.answer.en) == ("B", "Two of them.")


def test_a_step_may_have_a_visual_prompt_of_its_own() -> None:
    """In the row's frame, like the row's own; null is the row's, type none is none."""
    steps = [{"question": "Where?", "answer": "There."} for _ in range(3)]
    steps[1] |= {"prompt": {"type": "point", "coords": [[0.5, 0.5]]}}  # type: ignore[dict-item]
    steps[2] |= {"prompt": {"type": "none"}}  # type: ignore[dict-item]
    prompt = {"type": "box", "coords": [[0.1, 0.2, 0.3, 0.4]]}
    (record,) = read(form="chain", answer=None, cot=steps, prompt=prompt, coords_frame="normalised")
    assert [s.mark for s in record.steps] == [None, VisualPrompt("point", ((500.0, 250.0),)), VisualPrompt()]
    assert record.mark.kind == "box"
    assert Record.from_json(record.to_json()) == record
    assert record.to_json().count('"mark"') == 3, "steps without a mark have the JSON of earlier versions"
    steps[1]["prompt"]["coords"] = [[2, 3]]  # type: ignore[index]
    with pytest.raises(DataError, match=r"cot\[1\]\.prompt\.coords"):
        read(form="chain", answer=None, cot=steps, coords_frame="normalised")


def test_names_of_steps_and_texts_of_marks_are_in_both_languages() -> None:
    named = {"en": "the white van", "zh": "白色面包车"}
    steps = [
        {"step": {"en": "environment", "zh": "环境"}, "question": {"en": "Where?", "zh": "哪里？"}, "answer": "There."},
        {"step": {"zh": "决策"}, "question": {"en": "So?", "zh": "那么？"}, "answer": "Brake."},
    ]
    (record,) = read(form="chain", answer=None, cot=steps, prompt={"type": "text", "text": named})
    assert [step.name for step in record.steps] == [BilingualText("environment", "环境"), BilingualText("", "决策")]
    assert record.mark.text == BilingualText(**named)
    chinese = build(record, lang="zh")
    assert "第1步（环境）：哪里？" in chinese and "白色面包车" in chinese and "Step" not in chinese
    english = build(record)
    assert "Step 1 (environment): Where?" in english and "the white van" in english
    assert Record.from_json(record.to_json()) == record
    steps[0]["step"] = {"de": "Umgebung"}
    with pytest.raises(DataError, match=r"cot\[0\]\.step': expected a string or"):
        read(form="chain", answer=None, cot=steps)


def test_an_open_question_is_not_answered_by_option_e_or_f() -> None:
    with pytest.raises(DataError, match="an answer to the open question, which option F is not"):
        one(form="vqa", options=OPTIONS, answer=None, letter="F")
    assert one(form="vqa", options=OPTIONS, answer="There is none.", letter="F").forms == ("vqa", "mc")


def test_chain_becomes_a_second_record() -> None:
    cot = [
        {"step": 1, "question": "What is seen?", "answer": "fog", "subtask_id": 3},
        {"question": "So?", "answer": "x"},
    ]
    plain, chain = read(dimension="reasoning", subtask="weather", form="vqa", answer="slow down", cot=cot)
    assert (plain.task, plain.form, plain.steps) == ("reasoning", "vqa", ())
    assert (chain.id, chain.task, chain.form) == ("q1#cot", "cot", "chain")
    assert [(s.name, s.subtask_id) for s in chain.steps] == [
        (BilingualText("1"), 3), (BilingualText("step 2", "步骤2"), None),
    ]  # fmt: skip
    (only,) = read(form="chain", answer="slow down", cot=cot)
    assert (only.id, only.task) == ("q1", "cot")


def test_unknown_subtasks_and_scenes_are_kept() -> None:
    scene = {"weather": "sand", "severity": "severe", "tags": ["night"]}
    record = one(subtask="my_own", subtask_id=99, scene=scene)
    assert (record.subtask, record.subtask_id, record.scene, record.cluster) == ("my_own", 99, scene, "fog/0001.jpg")


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"id": ""}, "id"),
    ({"id": 5}, "id"),
    ({"image": None}, "image"),
    ({"image": "../../etc/passwd"}, "image"),
    ({"image": "/etc/passwd"}, "image"),
    ({"image": "a/../../b.jpg"}, "image"),
    ({"image": "C:/x.jpg"}, "image"),
    ({"image": "a\\..\\b.jpg"}, "image"),
    ({"image": "https://x.org/a.jpg"}, "image"),
    ({"image": ["a.jpg"]}, "image"),
    ({"images": []}, "images"),
    ({"images": ["a.jpg", "~/b.jpg"]}, "images"),
    ({"image_size": [0, 5]}, "image_size"),
    ({"image_size": "1000x500"}, "image_size"),
    ({"dimension": "perception"}, "dimension"),
    ({"subtask": None}, "subtask"),
    ({"subtask_id": "3"}, "subtask_id"),
    ({"subtask_id": True}, "subtask_id"),
    ({"form": "essay"}, "form"),
    ({"question": ""}, "question"),
    ({"question": {"fr": "quoi"}}, "question"),
    ({"question": {"en": 3}}, "question"),
    ({"question": ["x"]}, "question"),
    ({"answer": "perhaps"}, "answer"),
    ({"answer": None}, "answer"),
    ({"form": "count", "answer": "three"}, "answer"),
    ({"form": "count", "answer": -1}, "answer"),
    ({"form": "count", "answer": 2.5}, "answer"),
    ({"form": "count", "answer": "9" * 5000}, "answer"),
    ({"form": "point", "answer": "10,20"}, "answer"),
    ({"form": "point", "answer": [1]}, "answer"),
    ({"form": "point", "answer": [1, math.nan]}, "answer"),
    ({"form": "point", "answer": [1001, 20]}, "answer"),
    ({"form": "point", "answer": [-1, 20], "image_size": None}, "answer"),
    ({"form": "point", "answer": [0.1, 1.2], "coords_frame": "normalised"}, "answer"),
    ({"form": "point", "answer": [0.1, 0.2], "coords_frame": "normalised", "image_size": None}, "image_size"),
    ({"form": "point", "answer": [1, 2], "coords_frame": "thousandths"}, "coords_frame"),
    ({"form": "box", "answer": [30, 2, 1, 40]}, "answer"),
    ({"form": "mc", "answer": "yes"}, "options"),
    ({"letter": "A"}, "letter"),
    ({"form": "mc", "options": {"A": "x", "C": "y"}, "letter": "A"}, "options"),
    ({"form": "mc", "options": {"A": "x"}, "letter": "A"}, "options"),
    ({"form": "mc", "options": ["x", "y"], "letter": "A"}, "options"),
    ({"form": "mc", "options": {"A": "x", "B": ""}, "letter": "A"}, "options.B"),
    ({"form": "mc", "options": OPTIONS, "letter": "G"}, "letter"),
    ({"form": "mc", "options": OPTIONS, "answer": "seven"}, "letter"),
    ({"form": "mc", "options": OPTIONS, "answer": "B", "letter": "A"}, "letter"),
    ({"form": "mc", "options": OPTIONS, "answer": "two", "letter": "A"}, "letter"),
    ({"form": "count", "options": OPTIONS, "answer": 2}, "letter"),
    ({"form": "chain"}, "cot"),
    ({"cot": [{"step": "a", "question": "x"}]}, "cot[0].answer"),
    ({"cot": "steps"}, "cot"),
    ({"cot": [3]}, "cot[0]"),
    ({"prompt": {"type": "circle"}}, "prompt.type"),
    ({"prompt": {"type": "box", "coords": []}}, "prompt.coords"),
    ({"prompt": {"type": "box", "coords": [[1, 2]]}}, "prompt.coords"),
    ({"prompt": {"type": "text", "coords": [[1, 2]]}}, "prompt.coords"),
    ({"prompt": "box"}, "prompt"),
    ({"scene": {"severity": "bad"}}, "scene.severity"),
    ({"scene": {"tags": [1]}}, "scene.tags"),
    ({"scene": {"wether": "fog"}}, "scene.wether"),
    ({"anwser": "yes"}, "anwser"),
]


@pytest.mark.parametrize(("changes", "field"), FAULTS, ids=[f"{f}-{i}" for i, (_, f) in enumerate(FAULTS)])
def test_faults_are_reported_with_file_row_and_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DataError) as caught:
        read(**changes)
    assert (caught.value.file, caught.value.row, caught.value.field) == ("rows.jsonl", 7, field)
    assert str(caught.value).startswith(f"rows.jsonl, row 7: field '{field}': expected ")


def items(path: Path, text: str | bytes) -> list[Any]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    opened = RELEASES["ad2_bench"].open(path, split=None, images=None, options={})
    assert (opened.split, opened.image_root) == ("test", path.parent)
    return list(opened.records())


def test_lines_and_arrays_give_the_same_records(tmp_path: Path) -> None:
    rows = [{**BASE, "id": f"q{i}", "answer": "no"} for i in range(3)]
    lines = items(tmp_path / "a.jsonl", "\ufeff" + "\n\n".join(json.dumps(row) for row in rows))
    array = items(tmp_path / "a.json", " \n" + json.dumps(rows, ensure_ascii=False))
    assert lines == array
    assert [record.id for record in lines] == ["q0", "q1", "q2"]


@pytest.mark.parametrize(
    "line", ["{", "[1, 2]", "3", '{"id": NaN}', b"\xff\xfe{}", "[" * 5000, '{"x": 1} {"y": 2}'], ids=range(7)
)
def test_broken_line_is_one_bad_row(tmp_path: Path, line: str | bytes) -> None:
    good = json.dumps(BASE).encode()
    broken = line if isinstance(line, bytes) else line.encode()
    found = items(tmp_path / "a.jsonl", good + b"\n" + broken + b"\n" + good.replace(b"q1", b"q2"))
    assert [type(item) for item in found] == [Record, BadRow, Record]
    assert found[1].error.row == 2


def test_truncated_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cut off"):
        items(tmp_path / "a.json", json.dumps([BASE, BASE])[:-20])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*BASE, "options", "letter", "cot", "prompt", "scene", "meta"]), JSON))
def test_any_row_is_read_or_refused_with_a_data_error(changes: dict[str, Any]) -> None:
    try:
        records = read(**changes)
    except DataError as exc:
        assert exc.field
        return
    assert records and all(isinstance(r.question, BilingualText) and r.question for r in records)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scene": {"weather": "fog", "severity": "mild"}},
            "field 'scene.severity': expected one of light, moderate, severe, found 'mild'",
        ),
        ({"scene": {"severity": "sever"}}, "found 'sever'. Did you mean 'severe'?"),
        ({"subtsk": "x"}, "found 'x'. Did you mean 'subtask'?"),
        (
            {"scene": {"wether": "fog"}},
            "expected no such field (known: weather, severity, tags), found 'fog'. Did you mean 'weather'?",
        ),
        ({"zzz": 1}, "found 1"),
        ({"form": "vqua"}, "found 'vqua'. Did you mean 'vqa'?"),
    ],
)
def test_unknown_fields_and_values_name_the_similar_ones(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as fault:
        read(**changes)
    assert str(fault.value).endswith(message)


def test_severity_may_be_left_out_and_the_schema_lists_it() -> None:
    for scene in ({"weather": "fog"}, {"severity": ""}, {"severity": None}, {"severity": "moderate"}):
        assert one(scene=scene).scene["severity"] == (scene.get("severity") or "")
    assert "light | moderate | severe" in RELEASES["ad2_bench"].schema
