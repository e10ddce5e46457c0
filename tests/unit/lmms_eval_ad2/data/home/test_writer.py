"""Writing: counts, hashes, bad rows, duplicates, images, expected numbers, replacement of a dataset."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import ImageFile
from support.library_rows import items, row, store

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.home import open_dataset, verify, write_dataset
from lmms_eval_ad2.data.releases.base import BadRow

COLUMNS = ["id", "benchmark", "task", "subtask", "form", "record"]


def test_stored_records_are_read_back_and_counted(tmp_path: Path) -> None:
    manifest = store(tmp_path, 50)
    assert (manifest.n, manifest.bad_rows, manifest.left_out) == (50, 5, {"empty question": 5})
    assert manifest.counts == {"task": {"cot": 25, "relation": 25}, "subtask": {"social": 50}, "form": {"vqa": 50}}
    assert [part.n for part in manifest.parts] == [20, 20, 10]
    data = open_dataset("d", "test", home=tmp_path)
    assert list(data.records()) == [item for item in items(50) if isinstance(item, Record)]
    assert pq.read_schema(data.parts[0]).names == COLUMNS
    listed = [json.loads(line) for line in (data.parts[0].parent / "bad_rows.jsonl").read_text("utf-8").splitlines()]
    assert [(bad["file"], bad["row"], bad["field"]) for bad in listed] == [
        ("rows.jsonl", n, "answer") for n in (3, 13, 23, 33, 43)
    ]


def test_hash_depends_on_the_content_only(tmp_path: Path) -> None:
    hashes = {store(tmp_path / str(size), 50, part_size=size).sha256 for size in (7, 20, 1000)}
    assert len(hashes) == 1
    assert store(tmp_path / "other", 49).sha256 not in hashes


def test_bad_row_stops_the_import_unless_skipped(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl, row 3.*--skip-bad"):
        store(tmp_path, 50, skip_bad=False)
    with pytest.raises(Ad2Error, match="not imported"):
        open_dataset("d", "test", home=tmp_path)


def write(home: Path, *records: Record, **changes: object) -> object:
    arguments = {"image_root": home, "source": {}, "home": home, **changes}
    return write_dataset("d", "test", records, **arguments)  # type: ignore[arg-type]


def test_repeated_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an id that no other record has, found 'r1'"):
        write(tmp_path, row(1), row(2), row(1))


ABSENT = AnswerOption("F", BilingualText("It is not there."), "absent")
STEP = ReasoningStep(BilingualText("s"), BilingualText("What?"), BilingualText("A car."))
OPTIONS = (AnswerOption("A", BilingualText("x")), AnswerOption("B", BilingualText("y")))
FAULTY = [
    (row(1, id=" "), "id"),
    (row(1, task=""), "task"),
    (row(1, form="essay"), "form"),
    (row(1, question=BilingualText()), "question"),
    (row(1, images=()), "images"),
    (row(1, images=("../x.jpg",)), "images"),
    (row(1, images=("/etc/passwd",)), "images"),
    (row(1, views=("a", "b")), "views"),
    (row(1, image_size=(0, 4)), "image_size"),
    (row(1, form="mc"), "options"),
    (row(1, form="mc", options=OPTIONS), "letter"),
    (row(1, form="mc", options=OPTIONS, letter="C"), "letter"),
    (row(1, form="mc", options=(OPTIONS[0], OPTIONS[0]), letter="A"), "options"),
    (row(1, form="mc", options=(OPTIONS[0], AnswerOption("B", BilingualText())), letter="A"), "options"),
    (row(1, answer=BilingualText()), "answer"),
    (row(1, form="yesno", answer=BilingualText("Yes.")), "answer"),
    (row(1, form="count", answer=BilingualText("three")), "answer"),
    (row(1, form="point", answer=BilingualText("1,2")), "answer"),
    (row(1, form="box", answer=BilingualText("[1, 2, 3]")), "answer"),
    (row(1, form="chain"), "steps"),
    (row(1, mark=VisualPrompt("box", ((5.0, 5.0, 1.0, 9.0),))), "mark"),
    (row(1, mark=VisualPrompt("box")), "mark"),
    (row(1, mark=VisualPrompt("point", ((float("inf"), 1.0),))), "mark"),
    (row(1, mark=VisualPrompt("star", ())), "mark"),  # type: ignore[arg-type]
    (row(1, answer=BilingualText("\ud800")), "record"),
    # Both forms: a free-text question with options needs a letter, two options, and an answer that E or F is not.
    (row(1, options=OPTIONS), "letter"),
    (row(1, options=OPTIONS[:1], letter="A"), "options"),
    (row(1, options=(*OPTIONS, ABSENT), letter="F", answer=ABSENT.text), "answer"),
    (row(1, form="chain", steps=(STEP, replace(STEP, mark=VisualPrompt("box")))), "steps[1].mark"),
]


@pytest.mark.parametrize(("record", "field"), FAULTY, ids=[f"{f}-{i}" for i, (_, f) in enumerate(FAULTY)])
def test_no_faulty_record_is_stored(tmp_path: Path, record: Record, field: str) -> None:
    with pytest.raises(DataError) as caught:
        write(tmp_path, record)
    assert caught.value.field == field


def test_deep_nesting_is_rejected(tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(3000):
        deep = {"x": deep}
    with pytest.raises(DataError, match="field 'meta'"):
        write(tmp_path, row(1, meta=deep))


@pytest.mark.parametrize("lenient", [False, True], ids=["", "after lmms-eval told Pillow to fill up cut files"])
def test_images_are_checked_on_demand(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch, lenient: bool
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    shutil.copy(data_dir / "road_photos/solidWhiteCurve.jpg", tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:2000])
    write(tmp_path, row(1, image_size=(960, 540)), check_images=True)
    for record, problem in (
        (row(1, image_size=(10, 10)), "size 960x540"),
        (row(1, images=("b.jpg",)), "not a readable image"),
        (row(1, images=("c.jpg",)), "file not found"),
    ):
        with pytest.raises(DataError, match=problem):
            write(tmp_path, record, check_images=True)
    write(tmp_path, row(1, images=("b.jpg",)))
    verdict = verify("d", "test", images=True, home=tmp_path)
    assert (verdict.ok, verdict.n_images, len(verdict.problems)) == (False, 1, 1)


def test_unexpected_counts_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task relation.*3 records in all"):
        write(tmp_path, row(0), expected={"relation": 3})
    assert write(tmp_path, row(0), expected={"relation": 1})


def test_dataset_without_records_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="no record could be read"):
        write(tmp_path)


def test_failed_import_keeps_the_previous_dataset(tmp_path: Path) -> None:
    first = store(tmp_path, 30)
    with pytest.raises(DataError):
        write(tmp_path, row(1), row(1))
    assert open_dataset("d", "test", home=tmp_path).sha256 == first.sha256
    second = write(tmp_path, row(1))
    opened = open_dataset("d", "test", home=tmp_path)
    assert opened.manifest == second
    assert sorted(path.name for path in opened.parts[0].parent.iterdir()) == ["manifest.json", "records-00000.parquet"]
    assert sorted(p.name for p in (tmp_path / "data/d").iterdir()) == [".test.lock", "test"]


@pytest.mark.parametrize(("name", "split"), [("../x", "test"), ("d", ".."), ("", "test"), ("a/b", "test"), ("d", "é")])
def test_dataset_names_that_are_paths_are_rejected(tmp_path: Path, name: str, split: str) -> None:
    with pytest.raises(Ad2Error, match="use letters"):
        write_dataset(name, split, [row(1)], image_root=tmp_path, source={}, home=tmp_path)


@pytest.mark.parametrize(
    ("hint", "end"),
    [
        ("Give it: --images DIR", "DIR. --skip-bad"),
        ("Repair it.", "it. --skip-bad"),
        ("What?", "? --skip-bad"),
        ("", "found 1. --skip-bad"),
    ],
)
def test_the_hint_about_bad_rows_is_a_sentence_of_its_own(tmp_path: Path, hint: str, end: str) -> None:
    bad = BadRow(DataError("rows.jsonl", 3, "answer", "a text", 1, hint))
    with pytest.raises(DataError) as fault:
        write_dataset("d", "test", [bad], image_root=tmp_path, source={}, home=tmp_path)
    assert f"{end} leaves such rows out and lists them." in str(fault.value)
