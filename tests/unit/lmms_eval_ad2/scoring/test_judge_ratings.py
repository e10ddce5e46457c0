"""Ratings into columns: means, missing replies, empty answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builders import BASE, chain, record

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import BilingualText, Record, Unscored
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating
from lmms_eval_ad2.scoring import judge_ratings, pipeline
from lmms_eval_ad2.scoring.merge import SavedMarks
from lmms_eval_ad2.scoring.result_files import read_samples
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

COT = TaskVariant("ad2_bench", "cot", style="chain")


class Scripted:
    """A judge that gives the scores of a list, in order; None is a failed reply."""

    label = "scripted"

    def __init__(self, *scores: float | None) -> None:
        self.scores: list[float | None] = list(scores)
        self.asked: list[JudgeItem] = []
        self.usage: dict[str, Any] = {}

    def describe(self) -> dict[str, Any]:
        return {"backend": "scripted"}

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        self.asked += items
        given = [self.scores.pop(0) for _ in items]
        return [
            Unscored(i.rubric, "timeout") if s is None else JudgeRating(i.id, s)
            for i, s in zip(items, given, strict=True)
        ]


def test_chain_ratings_by_hand() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end><start3>c<end>", COT, "t")
    judge = Scripted(8, 6, 4, 9, 7, 5, 10)
    judge_ratings.apply([sample], judge, progress=False)
    assert sample.values == pytest.approx({"sacs": 0.6, "slps": 0.8, "orcs": 0.5, "djss": 1.0})
    # what was rated: SACS with reference and question of the step, SLPS the answers i and i + 1 of the model
    assert [(i.answer, i.reference, i.question) for i in judge.asked[:3]] == [
        (text, f"truth {n}", f"question {n}?") for n, text in enumerate("abc", 1)
    ]
    assert [i.steps for i in judge.asked[3:5]] == [("a", "b"), ("b", "c")]
    assert (judge.asked[5].steps, judge.asked[6].steps) == (("a", "b", "c"), ("a", "b"))
    assert sample.score == pytest.approx((60 + 80 + 50 + 100) / 4)
    assert not sample.pending


def test_missing_reply_is_omitted_or_the_lowest_rating() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end><start3>c<end>", COT, "t")
    judge_ratings.apply([sample], Scripted(8, None, 4, 9, 7, None, 10), progress=False)
    assert sample.values == pytest.approx({"sacs": 0.6, "slps": 0.8, "orcs": None, "djss": 1.0})
    assert sample.strict == pytest.approx({"sacs": (0.8 + 0.1 + 0.4) / 3, "slps": 0.8, "orcs": 0.1, "djss": 1.0})
    assert (sample.status, sample.reason, sample.score) == ("partly", "timeout", None)
    # one of three steps, and the chain's one rating, are missing; "partly" is also the status of SACS
    assert sample.column_status == {"slps": "ok", "orcs": "unscored", "djss": "ok"}


def test_a_chain_without_any_rating_is_unscored() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end><start3>c<end>", COT, "t")
    judge_ratings.apply([sample], Scripted(*[None] * 7), progress=False)
    assert (sample.status, sample.column_status, sample.score) == ("unscored", {}, None)


def test_empty_step_has_the_lowest_rating_without_a_request() -> None:
    sample = score_sample(chain(), "<start1>a<end><start3>c<end>", COT, "t")
    judge = Scripted(8, 4, 5, 10)
    judge_ratings.apply([sample], judge, progress=False)
    assert [i.rubric for i in judge.asked] == ["ad2_sacs", "ad2_sacs", "ad2_orcs", "ad2_djss"]
    assert sample.values["sacs"] == pytest.approx((0.8 + 0.1 + 0.4) / 3)
    assert sample.values["slps"] == pytest.approx(0.1)


def test_all_samples_are_rated_in_one_call() -> None:
    samples = [score_sample(record(f"r{i}", "vqa", answer=BilingualText("x y")), "x", BASE, "t") for i in range(5)]
    judge = Scripted(*range(1, 6))
    judge_ratings.apply(samples, judge, progress=False)
    assert [s.values["existence"] for s in samples] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert len(judge.asked) == 5


def test_a_chain_of_one_step_has_no_pairs() -> None:
    sample = score_sample(chain(steps=1), "<start1>stop<end>", COT, "t")
    judge_ratings.apply([sample], Scripted(6, 8), progress=False)
    assert sample.values == pytest.approx({"sacs": 0.6, "orcs": 0.8})
    assert sample.score == pytest.approx(70)


class Replying(Scripted):
    """A judge that gives all texts one verdict."""

    def __init__(self, verdict: str | Unscored, repeats: int = 1) -> None:
        super().__init__()
        self.verdict, self.repeats = verdict, repeats

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        given = self.verdict
        return [
            given if isinstance(given, Unscored) else JudgeRating(i.id, 3, f"{given}{i.repetition or ''}")
            for i in items
        ]


def rated(judge: Replying, answer: str = "x") -> list[dict[str, Any]]:
    sample = score_sample(record("r", "vqa", answer=BilingualText("x y")), answer, BASE, "t")
    judge_ratings.apply([sample], judge, progress=False)
    return [{k: v for k, v in entry.items() if k.startswith("repl")} for entry in sample.judge]


def test_the_reply_is_stored_with_its_mark() -> None:
    assert rated(Replying("No red light. [[3]]")) == [{"reply": "No red light. [[3]]"}]
    assert rated(Replying("a", repeats=3)) == [{"replies": ["a", "a1", "a2"]}]
    assert rated(Replying(Unscored("ad2_vqa", "unparsed_reply", "Seven."))) == [{"reply": "Seven."}]
    assert rated(Replying(Unscored("ad2_vqa", "timeout"))) == [{"reply": None}]


def test_steps_have_each_their_reply_and_an_empty_one_says_why() -> None:
    sample = score_sample(chain(), "<start1>a<end><start3>c<end>", COT, "t")
    judge_ratings.apply([sample], Replying("why"), progress=False)
    empty = judge_ratings.NOT_ASKED
    assert [entry["reply"] for entry in sample.judge] == ["why", empty, "why", empty, empty, "why", "why"]


def test_a_stored_reply_is_bounded_and_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcd1234efgh")
    (entry,) = rated(Replying("Because\ud800 abcd1234efgh " + "x" * 9000 + " [[3]]"))
    reply = entry["reply"]
    assert len(reply) == judge_ratings.REPLY
    assert reply.startswith("Because? [REDACTED] xx") and reply.endswith("x [[3]]")


REGION = TaskVariant("coda_lm", "region")


class Repeating:
    """A judge with the marks of each text, by id and repetition; None is a reply without a mark."""

    label, usage = "scripted", {}  # type: ignore[var-annotated]

    def __init__(self, marks: dict[str, Sequence[float | None]], repeats: int) -> None:
        self.marks, self.repeats = marks, repeats

    def describe(self) -> dict[str, Any]:
        return {"backend": "scripted", "repeats": self.repeats}

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        found = [self.marks[item.id][item.repetition] for item in items]
        return [
            Unscored(i.rubric, "unparsed_reply") if m is None else JudgeRating(i.id, m, f"mark {m}")
            for i, m in zip(items, found, strict=True)
        ]


def question(name: str) -> Record:
    truth = BilingualText("a bus")
    return record(name, "vqa", benchmark="coda_lm", task="region", subtask="region", answer=truth, cluster=name)


def region(name: str) -> ScoredSample:
    return score_sample(question(name), "a bus", REGION, "t")


def test_mean_and_deviation_by_hand(tmp_path: Path) -> None:
    judge = Repeating({"t:a": (8, 6, 7), "t:b": (4, None, 3), "t:c": (None, None, None)}, 3)
    table, _ = pipeline.score_task(map(region, "abc"), "t", REGION, lambda: judge, tmp_path, progress=False)
    # a: 7; b: 3.5, of two replies; c: unscored. Judgements: (8 + 4) / 2, 6, (7 + 3) / 2.
    assert table["score"]["official"] == pytest.approx(52.5)
    assert table["judge_repeats"] == {
        "n": 3,
        "score": {"by_repetition": [60, 60, 50], "mean": pytest.approx(56.666667), "sd": pytest.approx(5.773503)},
        "columns": {"text_score": table["judge_repeats"]["score"]},
        "partly_read": 1,
        "unread": 1,
    }
    # Strict: a missing judgement is the lowest mark. (7 + (4 + 1 + 3) / 3 + 1) / 3 = 3.5556
    assert table["score"]["strict"] == pytest.approx(35.555556)
    assert table["score"]["n_unscored"] == 1
    a, b, c = read_samples(tmp_path, "t")
    assert (a["judge"][0]["score"], a["judge"][0]["scores"]) == (7, [8, 6, 7])
    assert (b["judge"][0]["scores"], b["judge"][0]["reasons"]) == ([4, None, 3], [None, "unparsed_reply", None])
    assert (b["status"], b["repeated"]) == ("ok", {"text_score": [0.4, None, 0.3]})
    assert (c["status"], c["reason"]) == ("unscored", "unparsed_reply")


def test_the_columns_of_a_chain() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end><start3>c<end>", COT, "t")
    marks = {item.id: (2 + k, 4 + k) for k, item in enumerate(sample.pending)}
    table, _ = pipeline.score_task([sample], "t", COT, lambda: Repeating(marks, 2), None, progress=False)
    block = table["judge_repeats"]
    # sacs: texts 0 to 2, slps: 3 and 4, orcs: 5, djss: 6; the first judgement gives 2 + k, the second 4 + k.
    expected = {"sacs": (30, 50), "slps": (55, 75), "orcs": (70, 90), "djss": (80, 100)}
    assert {name: tuple(c["by_repetition"]) for name, c in block["columns"].items()} == expected
    assert block["score"]["by_repetition"] == [58.75, 78.75]
    assert block["score"]["mean"] == table["score"]["official"] == 68.75


def test_answers_that_no_judge_sees_are_the_same_in_all_judgements() -> None:
    samples = [region("a"), score_sample(question("e"), "", REGION, "t")]
    table, _ = pipeline.score_task(samples, "t", REGION, lambda: Repeating({"t:a": (9, 5)}, 2), None, progress=False)
    assert table["n_unparsed"] == 1
    assert table["judge_repeats"]["score"]["by_repetition"] == [50, 30]  # (90 + 10) / 2, (50 + 10) / 2


def test_one_judgement_leaves_no_trace(tmp_path: Path) -> None:
    judge = Repeating({"t:a": (8,)}, 1)
    table, _ = pipeline.score_task([region("a")], "t", REGION, lambda: judge, tmp_path, progress=False)
    assert "judge_repeats" not in table
    (row,) = read_samples(tmp_path, "t")
    assert "repeated" not in row and "scores" not in row["judge"][0]
    assert json.dumps(row["judge"][0]["score"]) == "8"


def test_saved_judgements_of_a_shard_give_the_same_marks(tmp_path: Path) -> None:
    judge = Repeating({"t:a": (8, None, 7)}, 3)
    pipeline.score_task([region("a")], "t", REGION, lambda: judge, tmp_path, progress=False)
    (row,) = read_samples(tmp_path, "t")
    saved, sample = SavedMarks("scripted", 3), region("a")
    saved.add(sample, row["judge"], tmp_path)
    judge_ratings.apply([sample], saved, progress=False)
    assert sample.judge == row["judge"] and sample.repeated == row["repeated"]
    with pytest.raises(DataError, match="the marks of 1 texts"):
        SavedMarks("scripted", 2).add(region("a"), row["judge"], tmp_path)
