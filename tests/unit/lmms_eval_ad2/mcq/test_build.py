"""Build of a set with a fake maker: replacements, endpoint failures, limits, interruptions."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.mcq.building import FakeMaker, a_job, a_record, made, rejecting, rows_of, write_records

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import VisualPrompt
from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.build import build
from lmms_eval_ad2.mcq.output_files import summed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(tmp_path / "data")


def test_a_built_set_can_be_imported(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    result = build(a_job(file, out, FakeMaker()))
    card = json.loads((out / "card.json").read_text("utf-8"))
    assert card["counts"]["n"] == 20 and result.card == card
    assert (card["name"], card["split"], card["maker"], card["kind"]) == ("autodrive_qa", "test", "fake", "all")
    assert card["account"]["requests"] == 20 and not card["rejected"] and not card["unfinished"]
    manifest = import_release("autodrive_qa", out / "questions.jsonl", images=out / "images", check_images=True)
    assert (manifest.n, manifest.bad_rows) == (20, 0)
    assert manifest.counts["task"] == {"perception": 10, "planning": 5, "prediction": 5}


def test_each_asked_question_has_a_transcript(tmp_path: Path, file: Path) -> None:
    build(a_job(file, tmp_path / "out", FakeMaker()))
    texts = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "out/transcripts/records").rglob("*.json")]
    assert len(texts) == 20
    assert texts[0]["exchanges"][0]["role"] == "select"
    assert {"question", "answer", "distractors", "correctness", "status", "images"} <= set(texts[0])


def test_a_second_build_asks_nothing(tmp_path: Path, file: Path) -> None:
    build(a_job(file, tmp_path / "out", FakeMaker()))
    before = (tmp_path / "out/questions.jsonl").read_bytes()
    second_maker = FakeMaker()
    build(a_job(file, tmp_path / "out", second_maker))
    assert second_maker.asked == []
    assert (tmp_path / "out/questions.jsonl").read_bytes() == before


def test_a_rejected_question_is_replaced_from_its_stratum(tmp_path: Path, file: Path) -> None:
    first = build(a_job(file, tmp_path / "first", FakeMaker(), total=8))
    rejected_ids = [row["meta"]["source_id"] for row in rows_of(tmp_path / "first")][:3]
    result = build(a_job(file, tmp_path / "out", FakeMaker(rejecting(*rejected_ids)), total=8))
    assert result.card["counts"]["subtask"] == first.card["counts"]["subtask"]
    assert not {row["meta"]["source_id"] for row in rows_of(tmp_path / "out")} & set(rejected_ids)
    assert result.card["rejected"] == {"ambiguous": 3} and not result.short
    rejected = rows_of(tmp_path / "out", "rejected.jsonl")
    assert sorted(row["id"] for row in rejected) == sorted(rejected_ids)
    assert all(row["question"] and row["reason"] == "ambiguous" for row in rejected)


def test_a_source_that_runs_out_is_reported(tmp_path: Path, file: Path) -> None:
    """All motion states but one are rejected: the other questions of the plan are still made."""
    rejected_ids = [f"q{number:03}" for number in range(0, 20, 4)][1:]
    result = build(a_job(file, tmp_path / "out", FakeMaker(rejecting(*rejected_ids)), total=12))
    (short,) = result.short
    assert short == {"source": "records", "task": "perception", "subtask": "motion state", "asked": 3, "made": 1}
    assert result.card["counts"]["n"] == 10


def test_only_temporary_rejections_are_asked_again(tmp_path: Path, file: Path) -> None:
    def outcome_of(question: OpenQuestion) -> Outcome | None:
        return rejecting("q001")(question) or rejecting("q002", passing=True)(question)

    result = build(a_job(file, tmp_path / "out", FakeMaker(outcome_of)))
    assert (result.unfinished, result.card["unfinished"]) == (1, {"http_500": 1})
    assert result.card["rejected"] == {"ambiguous": 1}
    second_maker = FakeMaker()
    result = build(a_job(file, tmp_path / "out", second_maker))
    assert second_maker.asked == ["q002"]
    assert (result.unfinished, result.card["counts"]["n"]) == (0, 19)
    assert result.card["account"]["requests"] == 21  # both runs


def test_a_temporarily_failed_question_is_not_replaced(tmp_path: Path, file: Path) -> None:
    """The final set is then the same as without the failure."""
    complete = tmp_path / "whole"
    build(a_job(file, complete, FakeMaker(rejecting("q005")), total=10))
    failed_ids = [row["meta"]["source_id"] for row in rows_of(complete)][2:6]
    out = tmp_path / "out"
    first = FakeMaker(lambda q: rejecting("q005")(q) or rejecting(*failed_ids, passing=True)(q))
    assert build(a_job(file, out, first, total=10)).unfinished == 4
    build(a_job(file, out, FakeMaker(rejecting("q005")), total=10))
    assert (out / "questions.jsonl").read_bytes() == (complete / "questions.jsonl").read_bytes()


def test_a_limited_build_covers_all_strata_and_can_be_continued(tmp_path: Path, file: Path) -> None:
    complete, out = tmp_path / "whole", tmp_path / "out"
    build(a_job(file, complete, FakeMaker(rejecting("q003"))))
    result = build(a_job(file, out, FakeMaker(rejecting("q003")), limit=4))
    assert result.card["counts"]["n"] + sum(result.card["rejected"].values()) == 4
    assert result.left == 16
    subtasks = {name.split("/")[1] for name in result.card["counts"]["subtask"]}
    assert len(subtasks) >= 3
    assert build(a_job(file, out, FakeMaker(rejecting("q003")))).left == 0
    assert (out / "questions.jsonl").read_bytes() == (complete / "questions.jsonl").read_bytes()


class InterruptedMaker(FakeMaker):
    """Raises the exception of its settings, by default Ctrl-C, after five questions."""

    def make(self, questions: Any, done: Any) -> None:
        for number, question in enumerate(questions):
            if number == 5:
                raise self.settings.get("with", KeyboardInterrupt)()
            self.asked.append(question.id)
            done(made(question))

    def unsuited(self, source: str, text: str) -> str | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"maker": "fake"}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Ad2Error])
def test_an_interrupted_build_keeps_the_finished_questions(
    tmp_path: Path, file: Path, kind: type[BaseException]
) -> None:
    with pytest.raises(kind):
        build(a_job(file, tmp_path / "out", InterruptedMaker(settings={"with": kind})))
    assert len(rows_of(tmp_path / "out")) == 5
    assert json.loads((tmp_path / "out/card.json").read_text("utf-8"))["counts"]["n"] == 5


def test_a_bug_in_a_maker_is_not_swallowed(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        build(a_job(file, tmp_path / "out", FakeMaker(lambda q: 1 / 0)))  # type: ignore[arg-type,return-value]


def test_changed_settings_are_named(tmp_path: Path, file: Path) -> None:
    build(a_job(file, tmp_path / "out", FakeMaker()))
    with pytest.raises(Ad2Error, match=r"plan\.seed is 0 there and 1 here.*seed is 0 there and 1 here"):
        build(a_job(file, tmp_path / "out", FakeMaker(), seed=1))
    with pytest.raises(Ad2Error, match=r"maker\.model"):
        build(a_job(file, tmp_path / "out", FakeMaker(settings={"model": "b"})))
    write_records(file.parent, 21)
    with pytest.raises(Ad2Error, match=r"sources\.records\.sha256"):
        build(a_job(file, tmp_path / "out", FakeMaker()))


def test_rows_that_cannot_be_imported_are_rejected(tmp_path: Path, file: Path) -> None:
    def outcome_of(question: OpenQuestion) -> Outcome | None:
        texts = {"q000": ("a", "a", "b"), "q001": ("a", "b"), "q002": ("a", "b", "\udfff"), "q003": ("", "b", "c")}
        if question.id not in texts:
            return None
        return made(question, distractors=tuple(Distractor(t, "naive") for t in texts[question.id]))

    result = build(a_job(file, tmp_path / "out", FakeMaker(outcome_of)))
    assert result.card["rejected"] == {"not_importable": 4}
    assert import_release("autodrive_qa", result.questions, images=tmp_path / "out/images").n == 16


def test_questions_without_their_images_are_counted(tmp_path: Path, file: Path) -> None:
    (file.parent / "cam/1.jpg").unlink()
    result = build(a_job(file, tmp_path / "out", FakeMaker()))
    assert result.card["rejected"] == {"image_missing": 7}
    assert result.card["counts"]["n"] == 13


def test_questions_with_a_mark_on_the_image_are_rejected(tmp_path: Path) -> None:
    marked = a_record(1, mark=VisualPrompt("box", ((1.0, 1.0, 4.0, 4.0),)))
    file = write_records(tmp_path, records=[a_record(0), marked])
    maker = FakeMaker()
    assert build(a_job(file, tmp_path / "out", maker)).card["rejected"] == {"visual_mark": 1}
    assert maker.asked == ["q000"]


def test_a_wrong_image_folder_is_an_error_and_rejects_nothing(tmp_path: Path, file: Path) -> None:
    for path in (file.parent / "cam").iterdir():
        path.unlink()
    with pytest.raises(Ad2Error, match=r"images of its first 20 questions are not there.*--images records=DIR"):
        build(a_job(file, tmp_path / "out", FakeMaker()))
    write_records(file.parent)
    assert build(a_job(file, tmp_path / "out", FakeMaker())).card["counts"]["n"] == 20


def test_a_stratum_without_results_takes_few_rounds(tmp_path: Path) -> None:
    file = write_records(tmp_path, records=(a_record(4 * n) for n in range(200)))
    rounds = []

    class CountingMaker(FakeMaker):
        def make(self, questions: Any, done: Any) -> None:
            before = len(self.asked)
            super().make(questions, done)
            rounds.append(len(self.asked) - before)

    rejected_ids = [f"q{4 * n:03}" for n in range(200)]
    result = build(a_job(file, tmp_path / "out", CountingMaker(rejecting(*rejected_ids)), total=5))
    assert sum(rounds) == 200 and len(rounds) <= 7
    assert result.short[0]["made"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_set_does_not_depend_on_the_order_of_outcomes_or_on_interruptions(
    tmp_path: Path, file: Path, seed: int
) -> None:
    rejected_ids = random.Random(seed).sample([f"q{n:03}" for n in range(20)], 6)
    build(a_job(file, tmp_path / "whole", FakeMaker(rejecting(*rejected_ids)), total=8))
    rng = random.Random(seed)

    class UnreliableMaker(FakeMaker):
        """Reports outcomes in random order, fails sometimes, and is interrupted."""

        def make(self, questions: Any, done: Any) -> None:
            shuffled = list(questions)
            rng.shuffle(shuffled)
            for question in shuffled:
                if rng.random() < 0.15:
                    raise KeyboardInterrupt
                if rng.random() < 0.3:
                    done(RejectedQuestion(question, "http_500", passing=True))
                else:
                    done(rejecting(*rejected_ids)(question) or made(question))

    unfinished = True
    for _ in range(200):
        try:
            result = build(a_job(file, tmp_path / "out", UnreliableMaker(), total=8))
        except KeyboardInterrupt:
            continue
        unfinished = bool(result.unfinished)
        if not unfinished:
            break
    assert not unfinished
    for name in ("questions.jsonl",):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_accounts_add_up() -> None:
    first = {"requests": 3, "cost": 0.5, "evaluator": {"requests": 1}, "model": "a", "price": None}
    second = {"requests": 4, "cost": 0.25, "evaluator": {"requests": 2}, "model": "b"}
    assert summed([first, {}, second]) == {
        "requests": 7, "cost": 0.75, "evaluator": {"requests": 3}, "model": "b", "price": None,
    }  # fmt: skip


def test_a_full_disk_stops_the_build_without_losing_saved_questions(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lmms_eval_ad2.mcq.store import QuestionStore

    real, saved_ids, full = QuestionStore.save, [], threading.Event()

    def save(self: QuestionStore, line: Any, transcript: Any = None) -> None:
        if len(saved_ids) == 5:
            full.set()
            raise OSError(28, "No space left on device")
        saved_ids.append(line["id"])
        real(self, line, transcript)

    monkeypatch.setattr(QuestionStore, "save", save)

    def wait_for_full_disk(question: OpenQuestion) -> None:
        """Waits from the sixth question on until the writer has failed with the full disk."""
        if len(slow.asked) > 6:
            full.wait(60)
        time.sleep(0.05)

    slow = FakeMaker(wait_for_full_disk)
    with pytest.raises(OSError, match="No space"):
        build(a_job(file, tmp_path / "out", slow))
    assert len(slow.asked) < 20  # no further requests once results cannot be saved
    monkeypatch.setattr(QuestionStore, "save", real)
    second_maker = FakeMaker()
    assert build(a_job(file, tmp_path / "out", second_maker)).card["counts"]["n"] == 20
    assert sorted(second_maker.asked + saved_ids) == sorted(f"q{n:03}" for n in range(20))


def test_a_manually_edited_row_is_rejected_with_the_file(tmp_path: Path, file: Path) -> None:
    build(a_job(file, tmp_path / "out", FakeMaker()))
    journal = tmp_path / "out/journal.jsonl"
    good = journal.read_text("utf-8")
    for wrong, right in (('"letter": "A"', '"letter": "Z"'), ('"task": "planning", "subtask"', '"subtask"')):
        assert wrong in good
        journal.write_text(good.replace(wrong, right), "utf-8")
        with pytest.raises(DataError, match=r"journal\.jsonl.*the same command asks it again"):
            build(a_job(file, tmp_path / "out", FakeMaker()))


def test_no_replacement_is_requested_from_a_dead_endpoint(tmp_path: Path, file: Path) -> None:
    def outcome_of(question: OpenQuestion) -> Outcome | None:
        if question.id in sampled_ids[:3]:
            return RejectedQuestion(question, "ambiguous")
        return RejectedQuestion(question, "endpoint_down", passing=True) if question.id in sampled_ids[3:5] else None

    job = a_job(file, tmp_path / "out", FakeMaker(outcome_of), total=8)
    sampled_ids = [entry.id for stratum in job.plan.strata for entry in stratum.entries[: stratum.quota]]
    result = build(job)
    assert sorted(job.maker.asked) == sorted(sampled_ids)  # type: ignore[attr-defined]
    assert (result.unfinished, result.left) == (2, 3)
