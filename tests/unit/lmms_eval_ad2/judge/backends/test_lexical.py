"""The lexical judge: ROUGE-L in cases worked out by hand and against another implementation; unsupported rubrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import JudgeItem, JudgeRating
from lmms_eval_ad2.judge.backends.lexical import LexicalJudge, lcs, rouge_l, tokens


def mark(answer: str, reference: str) -> float:
    (found,) = LexicalJudge().rate([JudgeItem("i", "ad2_vqa", answer, reference)])
    assert isinstance(found, JudgeRating)
    return found.score


def test_marks_in_cases_worked_out_by_hand() -> None:
    # common subsequence "police the gunman" of 4 and 4 tokens: 3; F = 2*3/8
    assert lcs(["police", "kill", "the", "gunman"], ["police", "killed", "the", "gunman"]) == 3
    assert rouge_l(["police", "kill", "the", "gunman"], ["police", "killed", "the", "gunman"]) == 0.75
    assert mark("police kill the gunman", "police killed the gunman") == pytest.approx(1 + 9 * 0.75)
    assert mark("A red car.", "a RED car") == 10
    assert mark("one two", "three four") == 1
    assert mark("", "three") == 1
    assert mark("前方有车", "前方有卡车") == pytest.approx(1 + 9 * 8 / 9)  # 4 of 4 and 4 of 5 characters


def test_tokens() -> None:
    assert tokens("The driver's 3.5 km, ＯＫ!") == ["the", "driver's", "3.5", "km", "ok"]
    assert tokens("前方SUV减速50米") == ["前", "方", "suv", "减", "速", "50", "米"]
    assert tokens("... !?") == []


@given(st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcde"), max_size=80))
def test_lcs_against_another_implementation(a: list[str], b: list[str]) -> None:
    distance = pytest.importorskip("rapidfuzz.distance")
    assert lcs(a, b) == distance.LCSseq.similarity(a, b) == lcs(b, a)


def test_documented_limits() -> None:
    """Opposite advice gets a high mark, a paraphrase a low one."""
    assert mark("turn left at the crossing now", "turn right at the crossing now") > 8
    assert mark("a lorry blocks our lane", "the path is obstructed by one truck") < 3


def test_unsupported_rubrics_and_missing_references_are_unscored() -> None:
    found = LexicalJudge().rate(
        [
            JudgeItem("a", "ad2_slps", "b", steps=("a", "b")),
            JudgeItem("b", "ad2_orcs", "b", steps=("a", "b")),
            JudgeItem("c", "ad2_djss", "b", steps=("a",)),
            JudgeItem("d", "coda_general", "b"),
            JudgeItem("e", "coda_general", "b", "!!!"),
        ]
    )
    reasons = [(u.metric, u.reason) for u in found if isinstance(u, Unscored)]
    lexically = "not_judgeable_lexically"
    assert reasons == [
        ("ad2_slps", lexically), ("ad2_orcs", lexically), ("ad2_djss", lexically),
        ("coda_general", "no_reference"), ("coda_general", "no_reference"),
    ]  # fmt: skip


def test_an_unknown_rubric_is_an_error() -> None:
    with pytest.raises(Ad2Error, match="unknown rubric"):
        LexicalJudge().rate([JudgeItem("a", "nothing", "b", "c")])
