"""The JSONL files of `ad2 judge`, and errors that name file, row and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import JudgeItem, JudgeRating, files
from lmms_eval_ad2.judge.agreement import HumanVotes


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n", "utf-8")
    return path


def test_items_and_ratings_round_trip(tmp_path: Path) -> None:
    source = write(
        tmp_path / "i.jsonl",
        {"id": 7, "rubric": "coda_general", "answer": "a", "reference": "b", "model": "m", "task": "general"},
        "",
        {"id": "x", "rubric": "ad2_slps", "answer": "b", "steps": ["a", "b"], "model": "m"},
    )
    items = files.read_items(source)
    assert [i for i, _ in items] == [
        JudgeItem("7", "coda_general", "a", "b"),
        JudgeItem("x", "ad2_slps", "b", steps=("a", "b")),
    ]
    out = tmp_path / "deep" / "r.jsonl"
    files.write_ratings(out, items, [JudgeRating("7", 8.5, "路"), Unscored("ad2_slps", "timeout", "60 s")], "lexical")
    first, second = (json.loads(line) for line in out.read_text("utf-8").splitlines())
    assert first == {
        "id": "7", "task": "general", "rubric": "coda_general", "judge": "lexical", "model": "m", "score": 8.5,
        "reason": None, "raw": "路",
    }  # fmt: skip
    assert (second["score"], second["reason"], second["task"]) == (None, "timeout", "ad2_slps")
    assert [r.score for r in files.read_ratings(out)] == [8.5, None]


def test_votes_are_read(tmp_path: Path) -> None:
    row = {"task": "g", "id": "1", "models": ["a", "b"], "votes": ["a", "tie", "b"]}
    assert files.read_votes(write(tmp_path / "h.jsonl", row)) == [HumanVotes("g", "1", ("a", "b"), ("a", "tie", "b"))]


GOOD_ITEM = {"id": "1", "rubric": "ad2_vqa", "answer": "a"}
GOOD_RATING = {"task": "g", "id": "1", "model": "a", "score": 5}
GOOD_VOTE = {"task": "g", "id": "1", "models": ["a", "b"], "votes": ["a"]}


@pytest.mark.parametrize(
    ("reader", "rows", "message"),
    [
        (files.read_items, ["{"], "row 1.*JSON"),
        (files.read_items, ["[1]"], "row 1.*a JSON object"),
        (files.read_items, [GOOD_ITEM, {**GOOD_ITEM, "answer": 3}], "row 2: field 'answer'"),
        (files.read_items, [{**GOOD_ITEM, "steps": "a"}], "'steps'"),
        (files.read_items, [{"id": "1", "rubric": "ad2_vqa"}], "'answer'"),
        (files.read_items, [{**GOOD_ITEM, "rubric": "ad2_vqe"}], "row 1: 'ad2_vqe'; did you mean ad2_vqa"),
        (files.read_items, [""], "has no items"),
        (files.read_ratings, [{**GOOD_RATING, "score": 11}], "row 1: field 'score'.*found 11"),
        (files.read_ratings, [{**GOOD_RATING, "score": True}], "'score'"),
        (files.read_ratings, [{"task": "g", "id": "1", "model": "a"}], "'score'"),
        (files.read_ratings, [GOOD_RATING, GOOD_RATING], "row 2.*each sample once"),
        (files.read_votes, [{**GOOD_VOTE, "models": ["a"]}], "'models'"),
        (files.read_votes, [{**GOOD_VOTE, "models": ["a", "a"]}], "two different names"),
        (files.read_votes, [{**GOOD_VOTE, "votes": ["c"]}], "'votes'"),
        (files.read_votes, [{**GOOD_VOTE, "votes": []}], "'votes'"),
        (files.read_votes, [GOOD_VOTE, {**GOOD_VOTE, "models": ["b", "a"]}], "row 2.*each pair"),
        (files.read_votes, [], "has no votes"),
    ],
)
def test_invalid_rows_are_rejected_with_row_and_field(
    tmp_path: Path, reader: Any, rows: list[Any], message: str
) -> None:
    with pytest.raises(Ad2Error, match=message):
        reader(write(tmp_path / "f.jsonl", *rows))


def test_ratings_of_several_named_runs_are_read(tmp_path: Path) -> None:
    rows = [{**GOOD_RATING, "run": "1"}, {**GOOD_RATING, "run": "2"}]
    assert [r.run for r in files.read_ratings(write(tmp_path / "f.jsonl", *rows))] == ["1", "2"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"cannot read .*no\.jsonl"):
        list(files.rows(tmp_path / "no.jsonl"))
    assert issubclass(DataError, Ad2Error)


def test_repeated_items_are_numbered_in_run() -> None:
    item = JudgeItem("a", "coda_region", "x", "y")
    assert files.repeated([(item, {"model": "m"})], 1) == [(item, {"model": "m"})]
    found = files.repeated([(item, {"model": "m"}), (item, {"run": "old"})], 2)
    assert [(i.repetition, row["run"]) for i, row in found] == [(0, "1"), (1, "2"), (0, "old.1"), (1, "old.2")]


def test_images_of_items_are_below_their_file(tmp_path: Path) -> None:
    Image.new("RGB", (4, 2)).save(tmp_path / "a.png")
    row = {"id": "1", "rubric": "coda_region", "answer": "x", "reference": "y"}
    path = tmp_path / "items.jsonl"
    for names, found in ((["a.png"], 1), (["../a.png"], None), (["b.png"], None)):
        path.write_text(json.dumps({**row, "images": names}))
        ((item, _),) = files.with_images(files.read_items(path), tmp_path)
        assert item.images is not None
        if found is None:
            with pytest.raises(DataError, match="a readable image below this folder"):
                item.images()
        else:
            assert len(item.images()) == found
    path.write_text(json.dumps({**row, "images": "a.png"}))
    with pytest.raises(DataError, match=r"field 'images': expected a list of file names"):
        files.read_items(path)
