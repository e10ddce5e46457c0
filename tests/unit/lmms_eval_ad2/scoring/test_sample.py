"""score_sample: scores of each form, before judging."""

from __future__ import annotations

import json

import pytest
from support.builders import BASE, boxed, chain, record

from lmms_eval_ad2.records import AnswerOption, BilingualText
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant


def values(sample: ScoredSample) -> tuple[dict[str, float | None], dict[str, float]]:
    return sample.values, sample.strict


def test_choice_right_and_wrong() -> None:
    right = score_sample(record(), "The answer is (A)", BASE, "t")
    wrong = score_sample(record(), "B", BASE, "t")
    assert values(right) == ({"existence": 1.0}, {"existence": 1.0})
    assert (right.score, right.kind) == (100.0, "correct")
    assert values(wrong) == ({"existence": 0.0}, {"existence": 0.0})
    assert (wrong.score, wrong.kind) == (0.0, "distractor")


def test_unparsed_is_wrong_and_counted() -> None:
    sample = score_sample(record(), "", BASE, "t")
    assert (sample.status, sample.reason) == ("unparsed", "empty")
    assert values(sample) == ({"existence": 0.0}, {"existence": 0.0})


def test_a_failed_request_is_not_the_models_answer() -> None:
    sample = score_sample(record(), "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Connection error.", BASE, "t")
    assert sample.status == "unscored"
    assert values(sample) == ({"existence": None}, {"existence": 0.0})
    assert sample.score is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("<20,10>", 1.0), ("<20,13>", 1 / (1 + 0.005 * 3)), ("<17,6>", 1 / (1 + 0.005 * 5))],
)
def test_location_by_hand(text: str, expected: float) -> None:
    asked = record(form="point", subtask="location", answer=BilingualText("<20,10>"))
    assert score_sample(asked, text, BASE, "t").values["location"] == pytest.approx(expected)


def test_detection_by_hand() -> None:
    # 20x20 against 20x20 shifted by 10 in x: intersection 200, union 600
    sample = score_sample(boxed(), "<OUTPUT START>[20, 10, 40, 30]<OUTPUT END>", BASE, "t")
    assert sample.values["detection"] == pytest.approx(1 / 3)


def test_count_ten_stays_visible() -> None:
    sample = score_sample(record(form="count", subtask="counting", answer=BilingualText("3")), "10", BASE, "t")
    assert (sample.answer, sample.values["counting"]) == (10, 0.0)


def test_ocr_fills_two_columns() -> None:
    part = TaskVariant("ad2_bench", "perception_advanced")
    asked = record(form="ocr", task="perception_advanced", subtask="ocr", answer=BilingualText("AB12"))
    sample = score_sample(asked, "AB13", part, "t")
    assert sample.values["ocr_cer"] == pytest.approx(0.25)
    assert sample.values["ocr_f1"] == pytest.approx(0.75)
    silent = score_sample(asked, "", part, "t")
    assert silent.values == {"ocr_f1": 0.0, "ocr_cer": 1.0}


def test_free_text_waits_for_a_judge() -> None:
    asked = record(form="vqa", answer=BilingualText("A red truck blocks the lane."))
    sample = score_sample(asked, "A truck.", BASE, "t")
    assert [i.rubric for i in sample.pending] == ["ad2_vqa"]
    assert sample.pending[0].reference == "A red truck blocks the lane."
    assert sample.values == {}


def test_choice_asked_openly_is_compared_with_the_options_text() -> None:
    asked = record(answer=BilingualText("A"))
    sample = score_sample(asked, "some text", TaskVariant("ad2_bench", "perception_base", form="vqa"), "t")
    assert sample.pending[0].reference == "option A"


def test_chain_asks_for_all_four_metrics() -> None:
    part = TaskVariant("ad2_bench", "cot", style="chain")
    sample = score_sample(chain(), "<start1>one<end><start2>two<end><start3>stop<end>", part, "t")
    assert [i.rubric for i in sample.pending] == ["ad2_sacs"] * 3 + ["ad2_slps"] * 2 + ["ad2_orcs", "ad2_djss"]
    assert sample.pending[3].steps == ("one", "two")
    assert (sample.pending[-1].steps, sample.pending[-1].answer) == (("one", "two"), "stop")


def test_rounds_are_read_as_they_are() -> None:
    part = TaskVariant("ad2_bench", "cot", rounds=True)
    sample = score_sample(chain(), ["one", "two", "stop"], part, "t")
    assert sample.answer == ["one", "two", "stop"]
    assert len(sample.pending) == 7


def test_chain_without_tags_is_unparsed_in_all_columns() -> None:
    sample = score_sample(chain(), "I would just slow down.", TaskVariant("ad2_bench", "cot", style="chain"), "t")
    assert sample.status == "unparsed"
    assert sample.values == dict.fromkeys(("sacs", "slps", "orcs", "djss"), 0.1)


def test_a_broken_reference_is_not_the_models_fault() -> None:
    broken = record(options=(AnswerOption("A", BilingualText("x")),), letter="D")
    sample = score_sample(broken, "A", BASE, "t")
    assert (sample.status, sample.reason, sample.values["existence"]) == ("unscored", "bad_reference", None)


def test_unknown_subtask_goes_to_other() -> None:
    assert score_sample(record(subtask="brand_new", subtask_id=31), "A", BASE, "t").column == "other"


def test_a_row_is_plain_json() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end>", TaskVariant("ad2_bench", "cot", style="chain"), "t")
    again = json.loads(sample.to_json())
    assert again["answer"] == ["a", "b", ""]
    assert again["record"]["steps"][0]["answer"]["en"] == "truth 1"
    assert "pending" not in again
