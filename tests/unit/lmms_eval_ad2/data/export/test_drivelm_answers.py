"""A run's replies as the DriveLM challenge's answer file: rows, counts, the challenge's score of them, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.export.answer_files import TEAM_FIELDS, export_drivelm
from lmms_eval_ad2.data.home import import_release, open_dataset
from lmms_eval_ad2.data.releases.base import CAMERAS
from lmms_eval_ad2.judge import make_judge
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.drivelm_challenge import score_challenge
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary, write_summary
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

MOVES = "Which way does it move? Please select the correct answer from the following options: A. Left. B. Right."
WHAT = "What is important here?"
TRUTH: dict[str, list[dict[str, Any]]] = {
    "perception": [
        {"Q": WHAT, "A": "A red car at <c1,CAM_FRONT,100.0,200.0>.", "tag": [2]}, {"Q": "", "A": "", "tag": [0]},
        {"Q": MOVES, "A": "B", "tag": [0]},
    ],
    "prediction": [{"Q": "Is <c1,CAM_FRONT,100.0,200.0> a sign?", "A": "No.", "tag": [0]}],
    "planning": [{"Q": "What now?", "A": "Brake.", "tag": [1]}],
    "behavior": [{"Q": "How does the ego car behave? A. Slow. B. Fast.", "A": "A", "tag": [0]}],
}  # fmt: skip
REPLIES = {
    "s_f_0": "I see <c1,CAM_FRONT,101.0,200.0>.", "s_f_2": "The answer is B.", "s_f_3": "no", "s_f_4": "Stop the car.",
    "s_f_5": "Hard to say.",
}  # fmt: skip
PARTS = tuple(TRUTH)


def truth_file(folder: Path, questions: dict[str, list[dict[str, Any]]] = TRUTH) -> Path:
    views = {camera: f"../nuscenes/samples/{camera}/a.jpg" for camera in CAMERAS}
    path = folder / "test_eval.json"
    (folder / "samples").mkdir(parents=True)
    path.write_text(json.dumps({"s": {"key_frames": {"f": {"QA": questions, "image_paths": views}}}}), "utf-8")
    return path


def make_run(folder: Path, replies: dict[str, str], parts: tuple[str, ...] = PARTS, **settings: Any) -> Path:
    """A run folder with the tasks of `parts`, in which only the questions of `replies` were asked."""
    data = open_dataset("drivelm", "test")
    about = {"name": "drivelm", "split": "test", "sha256": data.sha256}
    tables = {}
    for part in parts:
        variant = TaskVariant("drivelm", part, judge=False, **settings)
        samples = [
            score_sample(r, replies[r.id], variant, f"t_{part}", "p")
            for r in data.records() if r.task == part and r.id in replies
        ]  # fmt: skip
        table, _ = pipeline.score_task(samples, f"t_{part}", variant, lambda: make_judge("lexical"), folder)
        tables[f"t_{part}"] = {**table, "data": about}
    write_summary(folder, {"label": "mine"}, tables)
    return folder


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    path = truth_file(tmp_path / "release")
    import_release("drivelm", path, split="test", partial=True)
    return path


def test_rows_are_in_the_order_of_the_challenge(truth: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", REPLIES)
    file = export_drivelm(run, tmp_path / "out")
    assert file.path == tmp_path / "out" / "output.json"
    assert (file.questions, file.rows, file.not_asked, file.failed) == (5, 5, 0, 0)
    rows = json.loads(file.path.read_text("utf-8"))
    assert {row["id"]: row["answer"] for row in rows} == REPLIES
    assert [row["id"] for row in rows] == list(REPLIES)
    assert [row["question"] for row in rows][:2] == [WHAT, MOVES], "the released text, with its options"
    assert all(set(row) == {"id", "question", "answer"} for row in rows)


def test_the_challenge_scores_the_exported_rows(truth: Path, tmp_path: Path) -> None:
    """By hand: the first answer hits its point, so all five questions count. Replies equal none of the three closed
    truths B, "No." and A exactly; their parsed choices equal two."""
    run = make_run(tmp_path / "run", REPLIES)
    target = json.loads(truth.read_text("utf-8"))
    for parsed, accuracy in ((False, 0.0), (True, 2 / 3)):
        file = export_drivelm(run, tmp_path / f"{parsed}.json", parsed=parsed)
        found = score_challenge(json.loads(file.path.read_text("utf-8")), target, tokenizer="plain").to_dict()
        assert found["accuracy"] == pytest.approx(accuracy)
        assert (found["n_accuracy"], found["n_language"], found["n_llm"]) == (3, 1, 1)
        assert (found["n_missing"], found["n_unknown"], found["n_skipped_by_walk"]) == (0, 0, 0)
    assert (file.parsed, file.unparsed) == (2, 1)
    rows = {row["id"]: row["answer"] for row in json.loads(file.path.read_text("utf-8"))}
    assert (rows["s_f_2"], rows["s_f_3"], rows["s_f_5"]) == ("B", "No.", "Hard to say.")


def test_questions_without_a_reply_are_counted(truth: Path, tmp_path: Path) -> None:
    replies = {**REPLIES, "s_f_3": "[LMMS_EVAL_REQUEST_FAILED] timeout"}
    del replies["s_f_2"], replies["s_f_4"]
    run = make_run(tmp_path / "run", replies, parts=PARTS[:2])
    file = export_drivelm(run, tmp_path / "o.json")
    assert (file.questions, file.rows, file.not_asked, file.failed) == (5, 1, 3, 1)
    assert [row["id"] for row in json.loads(file.path.read_text("utf-8"))] == ["s_f_0"]
    file = export_drivelm(run, tmp_path / "o.json", fill=True, parsed=True)
    rows = json.loads(file.path.read_text("utf-8"))
    assert [(row["id"], row["answer"]) for row in rows if row["id"] != "s_f_0"] == [
        (f"s_f_{number}", "") for number in (2, 3, 4, 5)
    ]
    assert (file.rows, file.not_asked, file.failed, file.parsed, file.unparsed) == (5, 3, 1, 0, 0)


def test_a_submission_has_the_team_beside_the_rows(truth: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", REPLIES)
    team = dict.fromkeys(TEAM_FIELDS, "x") | {"authors": ["A. B."]}
    (tmp_path / "team.json").write_text(json.dumps(team), "utf-8")
    file = export_drivelm(run, tmp_path / "out", team=tmp_path / "team.json")
    assert file.path.name == "submission.json"
    found = json.loads(file.path.read_text("utf-8"))
    assert list(found) == [*TEAM_FIELDS, "results"] and len(found["results"]) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"team": ""}, "field 'team': expected a text"), ({"authors": "me"}, "field 'authors': expected a list of"),
        ({"more": "x"}, "expected the fields method, team"),
    ],
)  # fmt: skip
def test_a_bad_team_file_is_one_error(truth: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    run = make_run(tmp_path / "run", REPLIES)
    team = dict.fromkeys(TEAM_FIELDS, "x") | {"authors": ["A. B."]} | change
    (tmp_path / "team.json").write_text(json.dumps(team), "utf-8")
    with pytest.raises(DataError, match=message):
        export_drivelm(run, tmp_path / "out", team=tmp_path / "team.json")
    assert not (tmp_path / "out").exists()


def test_two_tasks_with_the_same_question_are_refused(truth: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", REPLIES, parts=("perception",))
    summary = read_summary(run)
    (run / "samples" / "twice.jsonl").write_bytes((run / "samples" / "t_perception.jsonl").read_bytes())
    write_summary(run, summary["run"], {**summary["tasks"], "twice": summary["tasks"]["t_perception"]})
    with pytest.raises(Ad2Error, match="t_perception and twice both answer question s_f_0: name one, with --tasks"):
        export_drivelm(run, tmp_path / "o.json")
    assert export_drivelm(run, tmp_path / "o.json", tasks=["twice"]).rows == 2


def test_an_id_without_a_question_is_one_error(truth: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", REPLIES, parts=("planning",))
    rows = [{**row, "id": "s_f_77"} for row in read_samples(run, "t_planning")]
    (run / "samples" / "t_planning.jsonl").write_text(json.dumps(rows[0]) + "\n", "utf-8")
    with pytest.raises(DataError, match="field 'id': expected the id of a question of drivelm/test"):
        export_drivelm(run, tmp_path / "o.json")
    assert not (tmp_path / "o.json").exists()


def test_other_data_and_other_benchmarks_are_refused(truth: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", REPLIES, parts=("planning",))
    with pytest.raises(Ad2Error, match="has no task ad2_cot of DriveLM; it has: t_planning"):
        export_drivelm(run, tmp_path / "o.json", tasks=["ad2_cot"])
    fewer = {**TRUTH, "planning": []}
    import_release("drivelm", truth_file(tmp_path / "other", fewer), split="test", partial=True)
    with pytest.raises(Ad2Error, match=r"the imported drivelm/test is not that of the run \(another sha256\)"):
        export_drivelm(run, tmp_path / "o.json")


def test_questions_of_a_release_without_answers_are_asked_and_exported(tmp_path: Path) -> None:
    """The challenge's own test questions have no answers; they are asked, not scored, and exported."""
    open_questions = {part: [{"Q": q["Q"], "A": ""} for q in rows] for part, rows in TRUTH.items()}
    import_release("drivelm", truth_file(tmp_path / "release", open_questions), split="test", partial=True)
    variant = TaskVariant("drivelm", "behavior", judge=False)
    (record,) = [r for r in open_dataset("drivelm", "test").records() if r.task == "behavior"]
    assert task_prompt.can_ask(record, variant)
    assert "(A) Slow" in task_prompt.prompt_text(record, variant)
    run = make_run(tmp_path / "run", {**REPLIES, "s_f_5": "A"})
    assert read_summary(run)["tasks"]["t_behavior"]["reasons"] == {"unscored:bad_reference": 1}
    file = export_drivelm(run, tmp_path / "o.json", parsed=True)
    assert json.loads(file.path.read_text("utf-8"))[-1]["answer"] == "A"
    assert (file.rows, file.parsed, file.unparsed) == (5, 2, 0)
