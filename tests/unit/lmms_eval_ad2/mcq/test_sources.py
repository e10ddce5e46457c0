"""Sources by name, by file and as Records; survey and loading of their questions."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.mcq.building import a_record, write_records

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.home import import_release, write_dataset
from lmms_eval_ad2.data.releases.base import CAMERAS
from lmms_eval_ad2.mcq.sources import (
    NAMES,
    QuestionSource,
    SourceSurvey,
    check_names,
    frame_of,
    load,
    open_source,
    survey,
)


def rows(tmp_path: Path, *changes: dict[str, Any]) -> Path:
    """records.jsonl of one good record and this record with each of `changes`."""
    good = json.loads(a_record(0).to_json())
    lines = [good, *({**good, "id": f"r{i}", **change} for i, change in enumerate(changes))]
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_of_records(tmp_path: Path) -> None:
    path = write_records(tmp_path, 7)
    source = open_source(f"records={path}")
    assert list(source.records()) == list(source.records()) == [a_record(i) for i in range(7)]
    assert (source.name, source.split, source.image_root) == ("records", "test", tmp_path)
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert open_source(f"records:mine={path}").split == open_source(f"records={path}", split="mine").split == "mine"
    assert str(tmp_path) not in json.dumps(source.facts())
    assert source.facts()["spec"] == "records=records.jsonl"


def test_every_field_of_a_record_is_read_back(tmp_path: Path) -> None:
    full = a_record(
        0,
        form="mc",
        letter="B",
        options=(AnswerOption("A", BilingualText("x", "某")), AnswerOption("B", BilingualText("y"), "correct")),
        mark=VisualPrompt("box", ((1.0, 2.0, 3.0, 4.0),), BilingualText("here")),
        steps=(ReasoningStep(BilingualText("s"), BilingualText("q"), BilingualText("a"), 3),),
        subtask_id=4,
        scene={"weather": "fog"},
        meta={"tag": [1]},
        question=BilingualText("q?", "问?"),
        answer=BilingualText(),
    )
    assert list(open_source(f"records={write_records(tmp_path, records=[full])}").records()) == [full]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": 3}, "id"),
        ({"form": "essay"}, "form"),
        ({"question": {"en": 3}}, "question"),
        ({"question": {"en": "q", "de": "q"}}, "question"),
        ({"question": None}, "question"),
        ({"question": "q" * 20_001}, "question"),
        ({"answer": ["yes"]}, "answer"),
        ({"images": []}, "images"),
        ({"images": ["../../etc/passwd"]}, "images"),
        ({"images": ["a.jpg"] * 101, "views": []}, "images"),
        ({"views": ["a", "b"]}, "views"),
        ({"image_size": [16]}, "image_size"),
        ({"options": [{"letter": "A"}], "letter": "A"}, "options[0].text"),
        ({"options": [{"letter": "A", "text": "x"}], "letter": "B"}, "letter"),
        ({"options": [{"letter": "A", "text": "x"}] * 101}, "options"),
        ({"mark": {"kind": "box", "coords": [[1, 2]], "text": ""}}, "mark.coords"),
        ({"mark": {"kind": "arrow"}}, "mark.kind"),
        ({"steps": [{"name": "s", "question": "q"}]}, "steps[0].answer"),
        ({"meta": [1]}, "meta"),
        ({"subtask_id": "1"}, "subtask_id"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_fault_names_file_row_and_field(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    path = rows(tmp_path, change, {})
    with pytest.raises(DataError) as caught:
        list(open_source(f"records={path}").records())
    assert (caught.value.file, caught.value.row, caught.value.field) == (path, 2, field)
    skipping = open_source(f"records={path}", skip_bad=True)
    assert [r.id for r in skipping.records()] == ["q000", "r1"]
    assert skipping.bad == 1
    list(skipping.records())
    assert skipping.facts()["bad"] == 1  # counts only the latest pass


def test_lines_that_are_not_records_are_counted(tmp_path: Path) -> None:
    path = rows(tmp_path)
    path.write_text(path.read_text() + "{torn\n" + '"text"\n')
    source = open_source(f"records={path}", skip_bad=True)
    assert len(list(source.records())) == 1
    assert source.bad == 2


def test_a_dataset_of_the_data_home(tmp_path: Path) -> None:
    write_records(tmp_path, 1)
    manifests = [
        write_dataset("lingoqa", split, [a_record(i) for i in range(n)], image_root=tmp_path, source={})
        for split, n in (("train", 3), ("val", 2))
    ]
    with pytest.raises(Ad2Error, match=r"several splits.*lingoqa:train"):
        open_source("lingoqa")
    for spec, given in (("lingoqa:train", None), ("lingoqa", "train"), ("lingoqa:train", "val")):
        source = open_source(spec, split=given)
        assert (source.split, len(list(source.records()))) == ("train", 3)
        assert (source.sha256, source.image_root) == (manifests[0].sha256, tmp_path)
    with pytest.raises(Ad2Error, match="no such folder"):
        open_source("lingoqa:val", images=tmp_path / "no")
    with pytest.raises(Ad2Error, match="ad2 data import drivelm SOURCE --split train"):
        open_source("drivelm")


def test_rows_that_a_release_reader_omits_are_counted(tmp_path: Path) -> None:
    frame = {
        "QA": {"perception": [{"Q": "Any cars?", "A": "Yes."}, {"Q": "", "A": ""}, {"Q": 3, "A": "x"}]},
        "image_paths": {name: f"samples/{name}/1.jpg" for name in CAMERAS},
    }
    (tmp_path / "samples").mkdir()
    path = tmp_path / "v1_1_train_nus.json"
    path.write_text(json.dumps({"s": {"key_frames": {"f": frame}}}))
    with pytest.raises(DataError, match=r"'QA\[2\].Q'"):
        list(open_source(f"drivelm={path}").records())
    source = open_source(f"drivelm={path}", skip_bad=True)
    (only,) = source.records()
    assert isinstance(only, Record)
    assert (source.split, source.bad, dict(source.left_out)) == ("train", 1, {"empty question": 1})
    assert import_release("drivelm", path, skip_bad=True).n == 1
    assert list(open_source("drivelm").records()) == [only]


def test_a_lingoqa_parquet_file(tmp_path: Path) -> None:
    row = {"question_id": "q", "segment_id": "s", "images": [f"images/s/{i}.jpg" for i in range(5)],
           "question": "Is it safe to go?", "answer": "yes."}  # fmt: skip
    (tmp_path / "images").mkdir()
    (tmp_path / "action").mkdir()
    pq.write_table(pa.Table.from_pylist([row, {**row, "answer": "It is."}]), tmp_path / "action" / "train.parquet")
    opened = [open_source(f"lingoqa={tmp_path / 'action' / 'train.parquet'}", images=tmp_path)]
    (question,) = load(opened, survey(opened).entries)
    assert (question.source, question.task, question.subtask) == ("lingoqa", "planning", "safe/unsafe action")
    assert (question.answer, len(question.scene), opened[0].split) == ("Yes.", 1, "train")


def test_only_the_last_part_of_a_path_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of ".", which has to be resolved for that."""
    write_records(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    source = open_source("records=records.jsonl")
    assert source.facts()["spec"] == "records=records.jsonl"
    source.spec = "lingoqa:train=."
    assert source.facts()["spec"] == f"lingoqa:train={tmp_path.name}"
    source.spec = "lingoqa:train"
    assert source.facts()["spec"] == "lingoqa:train"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("lingoqa", "lingoqa:train=FOLDER"),
        ("records", "lines of both files into one"),
        ("drivelm", "a set for each split"),
    ],
)
def test_a_repeated_source_is_an_error(name: str, instead: str) -> None:
    check_names(NAMES)
    with pytest.raises(Ad2Error, match=f"--source {name}: named more than once; .*{instead}"):
        check_names([*NAMES, name])


def test_nuscenes_qa_json_and_tables(tmp_path: Path) -> None:
    shots = [{"sample_token": t, "calibrated_sensor_token": c, "is_key_frame": True, "filename": f"samples/{c}/{t}.jpg"}
             for t in "tu" for c in CAMERAS]  # fmt: skip
    tables: dict[str, Any] = {
        "sample": [{"token": t, "scene_token": "s"} for t in "tu"], "sample_data": shots,
        "sensor": [{"token": c, "channel": c} for c in CAMERAS],
        "calibrated_sensor": [{"token": c, "sensor_token": c} for c in CAMERAS],
    }  # fmt: skip
    for name in ("samples", "v1.0-mini"):
        (tmp_path / name).mkdir()
    for name, content in tables.items():
        (tmp_path / "v1.0-mini" / f"{name}.json").write_text(json.dumps(content))
    asked = [("t", "How many cars are there?", 2, "count"), ("u", "What status has the bus?", "parked", "status"),
             ("t", "Are any trucks there?", "no", "exist")]  # fmt: skip
    content = [
        {"sample_token": t, "question": q, "answer": a, "num_hop": 0, "template_type": k} for t, q, a, k in asked
    ]
    path = tmp_path / "NuScenes_val_questions.json"
    path.write_text(json.dumps({"questions": content}))
    opened = [open_source(f"nuscenes_qa={path}")]
    loaded = list(load(opened, survey(opened).entries))
    assert [(q.subtask, q.answer, len(q.scene)) for q in loaded] == [
        ("surrounding objects", "Two", 2), ("motion state", "Parked", 1), ("surrounding objects", "No.", 2),
    ]  # fmt: skip
    before = opened[0].sha256
    (tmp_path / "v1.0-mini" / "sample.json").write_text(json.dumps(tables["sample"][::-1]))
    assert open_source(f"nuscenes_qa={path}").sha256 != before  # the hash covers the tables


@pytest.mark.parametrize(
    "spec", ["coda_lm", "drivelm:", "drivelm:../x", "", "=x", "drivelm=", "Drivelm", "records:a b=x"]
)
def test_an_invalid_source_is_an_error(spec: str) -> None:
    with pytest.raises(Ad2Error, match=r"no source .* drivelm, nuscenes_qa, lingoqa, records"):
        open_source(spec)


def test_missing_data_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="records=FILE"):
        open_source("records")
    for name in ("records", "drivelm", "nuscenes_qa", "lingoqa"):
        with pytest.raises(Ad2Error, match="not found"):
            open_source(f"{name}={tmp_path / 'no.json'}")


def source(records: Iterable[Record], name: str = "records", root: Path = Path("/images")) -> QuestionSource:
    kept = list(records)
    return QuestionSource(name=name, spec=name, split="test", image_root=root, sha256="0" * 64, read=lambda: iter(kept))


def unclassified(found: SourceSurvey) -> dict[str, dict[str, int]]:
    return {one["name"]: one["unclassified"] for one in found.sources}


def framed(number: int, frame: str, **meta: Any) -> Record:
    return a_record(number, images=(f"{frame}.jpg",), meta={"scene": "s", "frame": frame, **meta})


def test_questions_are_loaded_in_the_given_order_with_their_frame(tmp_path: Path) -> None:
    # Frames that are not contiguous in the file, as in NuScenes-QA.
    records = [framed(i, f"f{i % 3}") for i in range(30)]
    opened = [open_source(f"records={write_records(tmp_path, records=records)}")]
    found = survey(opened)
    assert [(e.number, e.id, e.frame) for e in found.entries[:2]] == [(0, "q000", "s/f0"), (1, "q001", "s/f1")]
    entries = list(found.entries)
    random.Random(1).shuffle(entries)
    loaded = list(load(opened, entries))
    assert [q.id for q in loaded] == [e.id for e in entries]
    for question, entry in zip(loaded, entries, strict=True):
        assert question.record == records[entry.number]
        assert (question.source, question.task, question.subtask) == ("records", entry.task, entry.subtask)
        assert question.scene == tuple(r for r in records if r.meta["frame"] == question.record.meta["frame"])
        assert question.image_root == tmp_path
    same = [q for q in loaded if q.record.meta["frame"] == "f0"]
    assert all(q.scene is same[0].scene for q in same)  # one tuple, shared


def test_contradictory_questions_are_not_used() -> None:
    yes, later = a_record(0), a_record(1)
    no = dataclasses.replace(yes, id="no", answer=BilingualText("Not at all."))
    upper_case = dataclasses.replace(
        yes, id="loud", question=BilingualText(yes.question.en.upper()), answer=BilingualText("Otherwise.")
    )
    again = dataclasses.replace(no, id="again")
    found = survey([source([yes, later, no, upper_case, again])])
    assert [(e.number, e.id) for e in found.entries] == [(1, later.id)]
    assert unclassified(found) == {"records": {"contradictory": 3, "duplicate": 1}}
    assert found.sources[0]["usable"] == 1
    # Two sources may have different images of the same name.
    elsewhere = survey([source([yes, later]), source([no], "lingoqa")])
    assert [e.id for e in elsewhere.entries] == [yes.id, later.id, "no"] and not unclassified(elsewhere)["lingoqa"]


def test_questions_that_the_maker_does_not_make_are_counted_and_not_drawn() -> None:
    records = [framed(i, "f") for i in range(3)]
    texts = {records[1].question.en: "predictable:x"}
    opened = [source(records)]
    found = survey(opened, unsuited=lambda name, text: texts.get(text) if name == "records" else "other")
    assert [e.number for e in found.entries] == [0, 2]
    assert unclassified(found) == {"records": {"predictable:x": 1}}
    (question,) = load(opened, found.entries[:1])
    assert len(question.scene) == 3


def test_a_scene_includes_unusable_records() -> None:
    records = [framed(0, "f"), framed(1, "f", unanswered=True), framed(2, "f", answer=1), framed(3, "g")]
    opened = [source(records)]
    found = survey(opened)
    assert unclassified(found) == {"records": {"no_answer": 1}}
    assert next(load(opened, found.entries)).scene == tuple(records[:3])


def test_duplicates_are_counted_once() -> None:
    first = a_record(0)
    other_id = dataclasses.replace(first, id="other")
    other_words = dataclasses.replace(first, question=BilingualText("Something else?"))
    other_image = dataclasses.replace(first, id="third", images=("b.jpg",))
    opened = [source([first, other_id, other_words, other_image]), source([first], "lingoqa")]
    found = survey(opened)
    assert [e.id for e in found.entries] == ["q000", "third"]
    assert unclassified(found) == {"records": {"duplicate": 1, "same_id": 1}, "lingoqa": {"duplicate": 1}}
    assert [s["usable"] for s in found.sources] == [2, 0]


def test_two_files_of_one_source_do_not_share_frames() -> None:
    opened = [source([framed(0, "f")], "lingoqa"), source([framed(5, "f")], "lingoqa", Path("/other"))]
    found = survey(opened)
    first, second = load(opened, found.entries)
    assert (first.image_root, second.image_root) == (Path("/images"), Path("/other"))
    assert (len(first.scene), len(second.scene)) == (1, 1)
    assert list(unclassified(found)) == ["lingoqa"]


def test_frame_keys_by_benchmark() -> None:
    assert frame_of(framed(1, "f")) == "s/f"
    assert frame_of(a_record(1, meta={"sample_token": "t"})) == "t"
    assert frame_of(a_record(1, meta={"segment_id": "g"})) == "g"
    assert frame_of(a_record(1, images=("a", "b"))) == "a\nb"


def test_no_usable_question_is_an_error_with_reasons() -> None:
    with pytest.raises(Ad2Error, match=r"no source has .*records: \{'no_answer': 2\}"):
        survey([source(a_record(i, answer=BilingualText()) for i in range(2))])


def test_changed_data_are_an_error() -> None:
    opened = [source(framed(i, "f") for i in range(3))]
    entries = survey(opened).entries
    for now in ([framed(i, "f") for i in (1, 0, 2)], [framed(0, "f")], []):
        with pytest.raises(Ad2Error, match="the data changed meanwhile"):
            list(load([source(now)], entries))


def test_a_lone_surrogate_is_preserved() -> None:
    odd = framed(0, "f", note="\ud800")
    opened = [source([odd, framed(1, "f")])]
    assert next(load(opened, survey(opened).entries)).record == odd


def test_the_survey_of_the_real_sample(data_dir: Path) -> None:
    folder = data_dir / "drivelm"
    opened = [open_source(f"drivelm:train={folder / 'train_sample.json'}", images=folder / "images")]
    found = survey(opened)
    assert (len(found.entries), unclassified(found)) == (771, {"drivelm": {"contradictory": 4, "duplicate": 15}})
    assert len({e.frame for e in found.entries}) == 9
    assert len({e.cluster for e in found.entries}) == 2
    questions = list(load(opened, found.entries[::50]))
    assert all(q.record in q.scene and (q.image_root / q.record.images[0]).is_file() for q in questions)
