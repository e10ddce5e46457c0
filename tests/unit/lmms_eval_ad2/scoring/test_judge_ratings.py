"""Ratings into columns: means, missing replies, empty answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.builders import BASE, chain, record

from lmms_eval_ad2.core.records import BilingualText, Unscored
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating
from lmms_eval_ad2.scoring import judge_ratings
from lmms_eval_ad2.scoring.sample import score_sample
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
