"""DriveLM: the real sample against an independent count, options, answers, object tags, faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import import_release, open_dataset, verify
from lmms_eval_ad2.data.releases import RELEASES, BadRow, OmittedRow
from lmms_eval_ad2.data.releases.base import CAMERAS


def test_real_train_sample_is_imported(data_dir: Path) -> None:
    """2 scenes, 9 key frames: counted by a plain loop over the file."""
    path = data_dir / "drivelm/train_sample.json"
    expected: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    for scene in json.loads(path.read_text("utf-8")).values():
        for frame in scene["key_frames"].values():
            for layer, questions in frame["QA"].items():
                expected[layer] += len(questions)
                answers.update(q["A"] for q in questions)
    assert dict(expected) == {"perception": 337, "prediction": 271, "planning": 173, "behavior": 9}
    manifest = import_release("drivelm", path, check_images=True)
    assert (manifest.split, manifest.n) == ("train", 790)
    assert manifest.counts["task"] == dict(expected)
    assert manifest.counts["form"] == {"vqa": 790 - 232, "yesno": answers["Yes."] + answers["No."]}
    records = list(open_dataset("drivelm", "train").records())
    assert len({r.cluster for r in records}) == 2
    assert len({r.images for r in records}) == 9
    infos = [o["info"] for r in records for o in r.meta["objects"] if "info" in o]
    assert len(infos) > 500 and all({"Category", "Status", "Visual_description", "2d_bbox"} == set(i) for i in infos)
    assert all(r.views == CAMERAS and r.image_size == (1600, 900) for r in records)
    assert verify("drivelm", "train", images=True).n_images == 54


def by_id(path: Path) -> dict[str, Record]:
    opened = RELEASES["drivelm"].open(path, split=None, images=None, options={})
    return {item.id: item for item in opened.records() if isinstance(item, Record)}


def test_challenge_files_have_equal_questions(data_dir: Path) -> None:
    """test_eval.json (graphs) and test_llama.json (conversations) hold the same 66 questions under the same ids."""
    graphs, conversations = by_id(data_dir / "drivelm/test_eval.json"), by_id(data_dir / "drivelm/test_llama.json")
    assert list(graphs) == list(conversations)
    assert len(graphs) == 66
    for name, record in graphs.items():
        other = conversations[name]
        assert (record.question, record.answer, record.letter) == (other.question, other.answer, other.letter)
        assert record.images == other.images
    assert Counter(r.subtask for r in graphs.values()) == {"judged": 27, "accuracy": 26, "language": 9, "match": 4}
    choice = [r for r in graphs.values() if r.form == "mc"]
    assert len(choice) == 17
    truth = json.loads((data_dir / "drivelm/test_eval.json").read_text("utf-8"))
    raw = {
        (scene, frame, q["Q"]): q["A"]
        for scene, content in truth.items()
        for frame, inner in content["key_frames"].items()
        for questions in inner["QA"].values()
        for q in questions
    }
    for record in choice:
        assert len(record.options) == 4
        assert raw[record.meta["scene"], record.meta["frame"], record.meta["question_raw"]] == record.letter
        assert record.question.en.endswith(("?", "."))
        assert "option" not in record.question.en


def frame(*questions: Any, **changes: Any) -> dict[str, Any]:
    paths = {camera: f"../nuscenes/samples/{camera}/x.jpg" for camera in CAMERAS}
    content = {"QA": {"perception": list(questions)}, "image_paths": paths, **changes}
    return {"s1": {"key_frames": {"f1": content}}}


def items(folder: Path, data: Any) -> list[Any]:
    (folder / "samples").mkdir(exist_ok=True)
    path = folder / "x_val.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return list(RELEASES["drivelm"].open(path, split=None, images=None, options={}).records())


def test_options_letters_and_empty_questions(tmp_path: Path) -> None:
    cue = " Please select the correct answer from the following options: A. Car. B. Car and bus. C. Bus."
    found = items(
        tmp_path,
        frame(
            {"Q": "", "A": "x"},
            {"Q": "What is it?" + cue, "A": "B."},
            {"Q": "What is it?" + cue, "A": "Bus."},
            {"Q": "What is it?" + cue, "A": ""},
            {"Q": "What is it?" + cue, "A": "Tram."},
            {"Q": "Is it a car?", "A": "No"},
            {"Q": "Where is <c1,CAM_BACK,10.5,20>?", "A": "By <c2,CAM_FRONT,1,2> and <c1,CAM_BACK,10.5,20>."},
        ),
    )
    empty, by_letter, by_text, unanswered, wrong, yesno, tagged = found
    assert empty == OmittedRow("empty question")
    assert (by_letter.letter, by_letter.answer.en, by_letter.question.en) == ("B", "Car and bus.", "What is it?")
    assert [o.kind for o in by_letter.options] == ["distractor", "correct", "distractor"]
    assert (by_text.letter, by_text.id) == ("C", "s1_f1_2")
    assert (unanswered.letter, unanswered.form, unanswered.meta["unanswered"]) == ("", "mc", True)
    assert isinstance(wrong, BadRow)
    assert wrong.error.field == "QA[4].A"
    assert (yesno.form, yesno.answer.en, yesno.meta["answer_raw"]) == ("yesno", "no", "No")
    assert [(o["id"], o["camera"], o["x"], o["in"]) for o in tagged.meta["objects"]] == [
        ("c1", "CAM_BACK", 10.5, ["question", "answer"]),
        ("c2", "CAM_FRONT", 1.0, ["answer"]),
    ]


def test_a_release_without_answers_is_imported(tmp_path: Path) -> None:
    items(tmp_path, frame({"Q": "What?"}, {"Q": ""}))
    manifest = import_release("drivelm", tmp_path / "x_val.json")
    assert (manifest.n, manifest.left_out, manifest.split) == (1, {"empty question": 1}, "val")


PATHS = {camera: f"samples/{camera}/x.jpg" for camera in CAMERAS}
FAULTS: list[tuple[Any, str]] = [
    (frame({"Q": 5, "A": "x"}), "QA[0].Q"),
    (frame("what?"), "QA[0]"),
    (frame({"Q": "a", "A": "b", "tag": [7]}), "QA[0].tag"),
    (frame({"Q": "a", "A": "b", "tag": 0}), "QA[0].tag"),
    (frame(QA={"perception": {}}), "QA.perception"),
    (frame(QA={"cooking": []}), "QA.cooking"),
    (frame(QA=None), "QA"),
    (frame(image_paths=None), "image_paths"),
    (frame(image_paths={"CAM_FRONT": "samples/x.jpg"}), "image_paths"),
    (frame(image_paths={**PATHS, "CAM_TOP": "x"}), "image_paths"),
    (frame(image_paths={**PATHS, "CAM_BACK": "../../etc/passwd"}), "image_paths.CAM_BACK"),
    (frame(image_paths={**PATHS, "CAM_BACK": "../nuscenes/samples/../../etc/passwd"}), "image_paths.CAM_BACK"),
    (frame(image_paths={**PATHS, "CAM_BACK": "/etc/passwd"}), "image_paths.CAM_BACK"),
    (frame(image_paths={**PATHS, "CAM_BACK": 4}), "image_paths.CAM_BACK"),
    ({"s1": {}}, "key_frames"),
    ({"s1": []}, "row"),
    ([{"id": "a", "image": ["samples/CAM_FRONT/x.jpg"], "conversations": [{"from": "human", "value": "q"}]}], "image"),
    ([{"id": "a", "image": [], "conversations": [{"from": "human", "value": "q"}]}], "image"),
    ([{"conversations": [{"value": "q"}]}], "conversations[0].from"),
]


@pytest.mark.parametrize(("data", "field"), FAULTS, ids=[f"{f}-{i}" for i, (_, f) in enumerate(FAULTS)])
def test_faults_are_reported_with_their_field(tmp_path: Path, data: Any, field: str) -> None:
    (bad,) = items(tmp_path, data)
    assert isinstance(bad, BadRow)
    assert bad.error.field == field


def test_files_that_cannot_be_opened_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cut off"):
        items(tmp_path, '{"s1": {"key_frames": {')
    (tmp_path / "graph.json").write_text("{}")
    release = RELEASES["drivelm"]
    with pytest.raises(Ad2Error, match="give --split"):
        release.open(tmp_path / "graph.json", split=None, images=None, options={})
    with pytest.raises(Ad2Error, match="not found"):
        release.open(tmp_path / "no.json", split="val", images=None, options={})
    with pytest.raises(Ad2Error, match="is a folder"):
        release.open(tmp_path, split="val", images=None, options={})
    (tmp_path / "samples").rmdir()
    with pytest.raises(Ad2Error, match="--images DIR"):
        release.open(tmp_path / "graph.json", split="val", images=None, options={})
