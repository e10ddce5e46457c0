"""score_sample: scores of each form, before judging."""

from __future__ import annotations

import json

import pytest
from support.builders import BASE, boxed, chain, record

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import AnswerOption, BilingualText
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


def test_locations_in_collected_frames_count_distances_as_in_a_picture_of_1920_pixels() -> None:
    """5 of 160 pixels are 60 of 1920: 1 / (1 + 0.005 * 60)."""
    question = record(
        benchmark="world", task="location", form="point", answer=BilingualText("<20,10>"), image_size=(160, 90)
    )
    sample = score_sample(question, "<23,14>", TaskVariant("world", "location"), "t")
    assert sample.values["location"] == pytest.approx(1 / 1.3)


def test_failed_request_is_unscored() -> None:
    sample = score_sample(record(), "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Connection error.", BASE, "t")
    assert sample.status == "unscored"
    assert values(sample) == ({"existence": None}, {"existence": 0.0})
    assert sample.score is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("<20,10>", 1.0), ("<20,13>", 1 / (1 + 0.005 * 3)), ("<17,6>", 1 / (1 + 0.005 * 5))],
)
def test_location_by_hand(text: str, expected: float) -> None:
    question = record(form="point", subtask="location", answer=BilingualText("<20,10>"))
    assert score_sample(question, text, BASE, "t").values["location"] == pytest.approx(expected)


def test_detection_by_hand() -> None:
    # 20x20 against 20x20 shifted by 10 in x: intersection 200, union 600
    sample = score_sample(boxed(), "<OUTPUT START>[20, 10, 40, 30]<OUTPUT END>", BASE, "t")
    assert sample.values["detection"] == pytest.approx(1 / 3)


def test_wrong_count_is_stored() -> None:
    sample = score_sample(record(form="count", subtask="counting", answer=BilingualText("3")), "10", BASE, "t")
    assert (sample.answer, sample.values["counting"]) == (10, 0.0)


def ocr(text: str, reply: str) -> ScoredSample:
    question = record(form="ocr", task="perception_advanced", subtask="ocr", answer=BilingualText(text))
    return score_sample(question, reply, TaskVariant("ad2_bench", "perception_advanced"), "t")


# "The sign says STOP": 18 deletions less 4 hits, 14 insertions on 4 characters; F1 2 * 4 / (18 + 4).
@pytest.mark.parametrize(
    ("text", "reply", "f1", "error", "f1_extracted", "error_extracted"),
    [
        ("AB12", "AB13", 0.75, 0.25, 0.75, 0.25),
        ("STOP", "The sign says STOP", 8 / 22, 3.5, 1, 0),
        ("ABC123", "The text on the license plate is ABC123.", 12 / 46, 34 / 6, 1, 0),
        ("STOP", 'The sign says "STOP".', 8 / 25, 17 / 4, 1, 0),
        ("STOP", "<think>The sign is red. It says STOP.</think>\nSTOP", 1, 0, 1, 0),
        ("STOP", "STOP<|im_end|>", 1, 0, 1, 0),
        ("STOP", "<answer>STOP</answer>", 8 / 25, 17 / 4, 1, 0),  # a mark is part of the reply as given
        ("停车", "牌子上写着“停车”。", 4 / 12, 4, 1, 0),
    ],
)
def test_ocr_scores_the_reply_as_given_and_beside_it_the_extracted_text(
    text: str, reply: str, f1: float, error: float, f1_extracted: float, error_extracted: float
) -> None:
    sample = ocr(text, reply)
    expected = {
        "ocr_f1": f1, "ocr_cer": error, "ocr_f1_extracted": f1_extracted, "ocr_cer_extracted": error_extracted,
    }  # fmt: skip
    assert sample.values == pytest.approx(expected) == sample.strict
    assert (sample.status, sample.score) == ("ok", pytest.approx(100 * f1))


FILLER = "The picture shows a wide street in light rain with many cars, trees and people. "  # 15 words, 79 characters


@pytest.mark.parametrize(
    ("reply", "f1_extracted"),
    [
        (5 * FILLER + "The text is here. Answer: STOP", 1),  # 81 words
        (5 * FILLER + 'Near it, a red one says "STOP".', 1),  # 82
        ("STOP. It is a red sign with a white edge. " + 5 * FILLER, 0),  # 85: no text stands out
        (5 * FILLER + "STOP", 0),  # 76
    ],
)
def test_ocr_replies_of_more_than_fifty_words_are_wrong_whatever_can_be_extracted(
    reply: str, f1_extracted: float
) -> None:
    sample = ocr("STOP", reply)
    assert (sample.values["ocr_f1"], sample.score) == (0, 0)
    assert sample.values["ocr_cer"] >= 1
    assert sample.values["ocr_f1_extracted"] == f1_extracted


def test_ocr_counts_the_first_hundred_characters_of_the_reply_as_given() -> None:
    """The text is after them: 100 characters without the sign's, and the error is over them only."""
    sample = ocr("QQQQ", "1" * 110 + ' "QQQQ"')
    assert (sample.values["ocr_f1"], sample.values["ocr_cer"]) == (0, 25)


def test_words_of_a_thought_do_not_count_and_a_reply_within_one_is_empty() -> None:
    assert ocr("STOP", f"<think>{9 * FILLER}</think>STOP").values["ocr_f1"] == 1
    unfinished = ocr("STOP", f"<think>{FILLER} STOP")
    assert (unfinished.status, unfinished.reason) == ("unparsed", "unfinished_thought")
    assert unfinished.values == {"ocr_f1": 0, "ocr_cer": 1, "ocr_f1_extracted": 0, "ocr_cer_extracted": 1}
    assert ocr("STOP", "").values == unfinished.values


def test_a_reply_without_an_extractable_text_is_scored_as_given_and_unparsed_in_the_extracted_columns() -> None:
    sample = ocr("STOP", "I cannot read any text.")
    assert (sample.status, sample.note) == ("ok", "no text extracted: refusal")
    assert sample.column_status == {"ocr_f1_extracted": "unparsed", "ocr_cer_extracted": "unparsed"}
    assert (sample.values["ocr_f1_extracted"], sample.values["ocr_cer_extracted"]) == (0, 1)


def test_a_blank_ocr_reference_is_unscored() -> None:
    assert ocr(" ", "STOP").reason == "bad_reference"


def test_free_text_is_pending_until_judged() -> None:
    question = record(form="vqa", answer=BilingualText("A red truck blocks the lane."))
    sample = score_sample(question, "A truck.", BASE, "t")
    assert [i.rubric for i in sample.pending] == ["ad2_vqa"]
    assert sample.pending[0].reference == "A red truck blocks the lane."
    assert sample.values == {}


def test_a_task_names_the_rubric_of_its_free_text() -> None:
    question = record(form="vqa", benchmark="my_bench", answer=BilingualText("Slow down, a truck blocks the lane."))
    settings = {"benchmark": "my_bench", "part": "advice", "rubric": "coda_suggestion"}
    variant = TaskVariant.from_dict(settings, "task t")
    assert [i.rubric for i in score_sample(question, "Slow down.", variant, "t").pending] == ["coda_suggestion"]
    assert variant.changes() == {"rubric": "coda_suggestion"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rubric": "ad2_orcs"}, "metadata.ad2.rubric is 'ad2_orcs'; expected one of"),
        ({"rubric": "ad2_vqa", "style": "chain"}, "metadata.ad2.rubric is for free text"),
        ({"rubric": "ad2_vqa", "form": "mc"}, "metadata.ad2.rubric is for free text"),
    ],
)
def test_a_rubric_that_does_not_fit_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(Ad2Error, match=f"task t: {message}"):
        TaskVariant.from_dict({"benchmark": "my_bench", "part": "advice", **settings}, "task t")


def test_choice_as_open_question_has_the_option_text_as_reference() -> None:
    question = record(answer=BilingualText("A"))
    sample = score_sample(question, "some text", TaskVariant("ad2_bench", "perception_base", form="vqa"), "t")
    assert sample.pending[0].reference == "option A"


def test_chain_requests_ratings_for_all_four_metrics() -> None:
    variant = TaskVariant("ad2_bench", "cot", style="chain")
    sample = score_sample(chain(), "<start1>one<end><start2>two<end><start3>stop<end>", variant, "t")
    assert [i.rubric for i in sample.pending] == ["ad2_sacs"] * 3 + ["ad2_slps"] * 2 + ["ad2_orcs", "ad2_djss"]
    # SACS: each answer with the reference and the question of its step (equation 1: relevance to the question)
    assert [(i.answer, i.reference, i.question) for i in sample.pending[:3]] == [
        (text, f"truth {n}", f"question {n}?") for n, text in enumerate(("one", "two", "stop"), 1)
    ]
    # SLPS: each answer with the model's own next one (equation 2), not with a reference
    assert [(i.steps, i.reference) for i in sample.pending[3:5]] == [(("one", "two"), ""), (("two", "stop"), "")]
    assert (sample.pending[-1].steps, sample.pending[-1].answer) == (("one", "two"), "stop")


def test_rounds_are_used_unchanged() -> None:
    variant = TaskVariant("ad2_bench", "cot", rounds=True)
    sample = score_sample(chain(), ["one", "two", "stop"], variant, "t")
    assert sample.answer == ["one", "two", "stop"]
    assert len(sample.pending) == 7


def test_thoughts_and_special_tokens_of_rounds_are_not_judged() -> None:
    variant = TaskVariant("ad2_bench", "cot", rounds=True)
    replies = ["<think>It is dark.</think>Fog.", "◁think▷A bus?◁/think▷A bus.<|im_end|>", "<think>So stop"]
    sample = score_sample(chain(), replies, variant, "t")
    assert (sample.answer, sample.note) == (["Fog.", "A bus.", ""], "rounds; missing steps: 3")
    assert [item.answer for item in sample.pending[:3]] == ["Fog.", "A bus.", ""]
    assert sample.raw == replies
    for texts, reason in ((["<think>a", "<think>b", "<think>c"], "unfinished_thought"), (["", " ", ""], "empty")):
        lost = score_sample(chain(), texts, variant, "t")
        assert (lost.status, lost.reason, lost.values["sacs"]) == ("unparsed", reason, 0.1)


def test_chain_without_tags_is_unparsed_in_all_columns() -> None:
    sample = score_sample(chain(), "I would just slow down.", TaskVariant("ad2_bench", "cot", style="chain"), "t")
    assert sample.status == "unparsed"
    assert sample.values == dict.fromkeys(("sacs", "slps", "orcs", "djss"), 0.1)


def test_invalid_reference_is_unscored() -> None:
    broken = record(options=(AnswerOption("A", BilingualText("x")),), letter="D")
    sample = score_sample(broken, "A", BASE, "t")
    assert (sample.status, sample.reason, sample.values["existence"]) == ("unscored", "bad_reference", None)


def test_unknown_subtask_has_a_column_of_its_own_name() -> None:
    assert score_sample(record(subtask="brand_new", subtask_id=31), "A", BASE, "t").column == "brand_new"


@pytest.mark.parametrize("name", ["score", "ocr_cer"])
def test_unknown_subtask_named_like_another_column_is_in_column_other(name: str) -> None:
    assert score_sample(record(subtask=name), "A", BASE, "t").column == "other"


def test_a_row_is_plain_json() -> None:
    sample = score_sample(chain(), "<start1>a<end><start2>b<end>", TaskVariant("ad2_bench", "cot", style="chain"), "t")
    row = json.loads(sample.to_json())
    assert row["answer"] == ["a", "b", ""]
    assert row["record"]["steps"][0]["answer"]["en"] == "truth 1"
    assert "pending" not in row
