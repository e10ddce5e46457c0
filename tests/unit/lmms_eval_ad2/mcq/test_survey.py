"""Survey and loading of questions: short entries first, then full questions in any order with their frames."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.mcq.building import a_record, write_records

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.mcq.sources import QuestionSource, open_source
from lmms_eval_ad2.mcq.survey import frame_of, load, survey


def source(records: Iterable[Record], name: str = "records", root: Path = Path("/images")) -> QuestionSource:
    kept = list(records)
    return QuestionSource(name=name, spec=name, split="test", image_root=root, sha256="0" * 64, read=lambda: iter(kept))


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


def test_without_scenes_only_the_requested_questions_are_loaded() -> None:
    opened = [source(framed(i, f"f{i % 2}") for i in range(6))]
    entries = survey(opened).entries
    assert [(q.id, q.scene) for q in load(opened, entries[3:1:-1], scenes=False)] == [("q003", ()), ("q002", ())]
    assert list(load(opened, [])) == []


def test_contradictory_questions_are_not_used() -> None:
    yes, later = a_record(0), a_record(1)
    no = dataclasses.replace(yes, id="no", answer=BilingualText("Not at all."))
    upper_case = dataclasses.replace(
        yes, id="loud", question=BilingualText(yes.question.en.upper()), answer=BilingualText("Otherwise.")
    )
    again = dataclasses.replace(no, id="again")
    found = survey([source([yes, later, no, upper_case, again])])
    assert [(e.number, e.id) for e in found.entries] == [(1, later.id)]
    assert found.unclassified == {"records": {"contradictory": 3, "duplicate": 1}}
    assert found.facts()["sources"][0]["usable"] == 1
    # Two sources may have different images of the same name.
    elsewhere = survey([source([yes, later]), source([no], "lingoqa")])
    assert [e.id for e in elsewhere.entries] == [yes.id, later.id, "no"] and not elsewhere.unclassified["lingoqa"]


def test_questions_that_the_maker_does_not_make_are_counted_and_not_drawn() -> None:
    records = [framed(i, "f") for i in range(3)]
    texts = {records[1].question.en: "predictable:x"}
    opened = [source(records)]
    found = survey(opened, unsuited=lambda name, text: texts.get(text) if name == "records" else "other")
    assert [e.number for e in found.entries] == [0, 2]
    assert found.unclassified == {"records": {"predictable:x": 1}}
    (question,) = load(opened, found.entries[:1])
    assert len(question.scene) == 3


def test_a_scene_includes_unusable_records() -> None:
    records = [framed(0, "f"), framed(1, "f", unanswered=True), framed(2, "f", answer=1), framed(3, "g")]
    opened = [source(records)]
    found = survey(opened)
    assert found.unclassified == {"records": {"no_answer": 1}}
    assert next(load(opened, found.entries)).scene == tuple(records[:3])


def test_duplicates_are_counted_once() -> None:
    first = a_record(0)
    other_id = dataclasses.replace(first, id="other")
    other_words = dataclasses.replace(first, question=BilingualText("Something else?"))
    other_image = dataclasses.replace(first, id="third", images=("b.jpg",))
    opened = [source([first, other_id, other_words, other_image]), source([first], "lingoqa")]
    found = survey(opened)
    assert [e.id for e in found.entries] == ["q000", "third"]
    assert found.unclassified == {"records": {"duplicate": 1, "same_id": 1}, "lingoqa": {"duplicate": 1}}
    assert [s["usable"] for s in found.facts()["sources"]] == [2, 0]


def test_two_files_of_one_source_do_not_share_frames() -> None:
    opened = [source([framed(0, "f")], "lingoqa"), source([framed(5, "f")], "lingoqa", Path("/other"))]
    found = survey(opened)
    first, second = load(opened, found.entries)
    assert (first.image_root, second.image_root) == (Path("/images"), Path("/other"))
    assert (len(first.scene), len(second.scene)) == (1, 1)
    assert list(found.unclassified) == ["lingoqa"]


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
    assert (len(found.entries), found.unclassified) == (771, {"drivelm": {"contradictory": 4, "duplicate": 15}})
    assert len({e.frame for e in found.entries}) == 9
    assert len({e.cluster for e in found.entries}) == 2
    questions = list(load(opened, found.entries[::50]))
    assert all(q.record in q.scene and (q.image_root / q.record.images[0]).is_file() for q in questions)
