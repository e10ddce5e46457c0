"""The DriveLM challenge: graph walk, matching, parts, final score, and parsed choices of real answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.scoring.drivelm_challenge import (
    ChallengeResult,
    RatingRequest,
    match,
    points,
    score_challenge,
    walk,
)
from lmms_eval_ad2.scoring.metrics.caption import caption_scores

OPTIONS = "Which way? Please choose from these options: A. Left. B. Right. C. Straight on."


def qa(question: str, answer: str, *tags: int) -> dict[str, Any]:
    return {"Q": question, "A": answer, "tag": list(tags)}


def truth_of(*questions: dict[str, Any], **parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One frame "s_f" whose perception holds `questions`; other parts by name."""
    qas = {"perception": list(questions), "prediction": [], "planning": [], "behavior": []} | parts
    return {"s": {"key_frames": {"f": {"QA": qas, "image_paths": {}}}}}


def replies(*answers: str) -> list[dict[str, str]]:
    return [{"id": f"s_f_{i}", "answer": answer} for i, answer in enumerate(answers)]


def score(answers: Any, truth: Any, **kwargs: Any) -> ChallengeResult:
    return score_challenge(answers, truth, tokenizer="plain", **kwargs)


def value_of(result: ChallengeResult, name: str) -> float:
    part = result.parts[name]
    assert not isinstance(part, Unscored), part
    return part.value


# --- coordinates ---------------------------------------------------------------------------------------------------


def test_points_are_decimal_numbers_in_pairs() -> None:
    assert points("<c1,CAM_BACK,1088.3,497.5> and <c2,CAM_FRONT,7.0,8.5>, at 3.5") == [(1088.3, 497.5), (7.0, 8.5)]
    assert points("2 cars at 10,20") == []


def test_match_by_hand() -> None:
    """Two of three given points are true, two of four true points are given: F1 = 2*2 / (3 + 4)."""
    truth = "<a,X,100.0,100.0> <b,X,200.0,200.0> <c,X,300.0,300.0> <d,X,400.0,400.0>"
    hits, f1 = match("<a,X,107.0,108.9> <b,X,200.0,200.0> <c,X,308.0,308.0>", truth)
    assert hits == [(100.0, 100.0), (200.0, 200.0)], "15.9 px in L1 is a hit, 16 is none"
    assert f1 == pytest.approx(4 / 7)


def test_each_truth_is_used_once() -> None:
    hits, f1 = match("<a,X,100.0,100.0> <a,X,100.0,100.0>", "<a,X,100.0,100.0>")
    assert hits == [(100.0, 100.0)]
    assert f1 == pytest.approx(2 / 3)


def test_the_nearest_free_truth_is_taken() -> None:
    hits, _ = match("<a,X,105.0,100.0> <a,X,101.0,100.0>", "<a,X,100.0,100.0> <b,X,106.0,100.0>")
    assert hits == [(106.0, 100.0), (100.0, 100.0)]


def test_no_points_match_nothing() -> None:
    assert match("", "") == ([], 0.0)
    assert match("1.0,2.0", "") == ([], 0.0)
    assert match("", "1.0,2.0") == ([], 0.0)


POINTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6)


@given(POINTS, POINTS)
def test_match_is_bounded(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = (" ".join(f"<{x}.0,{y}.0>" for x, y in side) for side in (one, other))
    hits, f1 = match(left, right)
    assert 0 <= f1 <= 1
    assert len(hits) <= min(len(one), len(other))
    assert all(hits.count(hit) <= other.count((int(hit[0]), int(hit[1]))) for hit in hits)
    assert match(right, right)[1] == (1.0 if other else 0.0)


def test_long_digits_are_read_in_linear_time() -> None:
    assert points("9" * 500_000) == []
    assert match("9" * 5_000 + ".0,1.0", "1.0,1.0")[1] == 0.0, "too large for a float is only far away"


# --- graph walk ----------------------------------------------------------------------------------------------------


def test_a_later_question_counts_only_inside_the_graph() -> None:
    truth = truth_of(
        qa("Important objects?", "<c1,X,100.0,100.0> and <c2,X,500.0,500.0>", 2),
        qa("Is <c1,X,100.0,100.0> moving?", "Yes.", 0),
        qa("Is <c2,X,500.0,500.0> moving?", "Yes.", 0),
        qa("Do <c1,X,100.0,100.0> and <c2,X,500.0,500.0> touch?", "No.", 0),
        behavior=[qa("Is it raining?", "No.", 0)],
    )
    result = score(replies("I see <c9,X,101.0,102.0>.", "Yes.", "Yes.", "No.", "No."), truth)
    assert result.counts["n_accuracy"] == 2, "the one in the graph, and the one without coordinates"
    assert result.counts["n_skipped_by_walk"] == 2
    assert value_of(result, "accuracy") == 1.0


def test_parts_are_numbered_in_the_challenges_order() -> None:
    parts = {name: [qa(name, name, 0)] for name in ("behavior", "planning", "prediction", "perception")}
    questions, _ = walk({}, truth_of(**parts), "t")
    assert [(q.id, q.part) for q in questions] == [
        ("s_f_0", "perception"),
        ("s_f_1", "prediction"),
        ("s_f_2", "planning"),
        ("s_f_3", "behavior"),
    ]


def test_accuracy_is_exact_equality() -> None:
    truth = truth_of(*(qa("Moving?", "No.", 0) for _ in range(4)))
    result = score(replies("No.", "no.", "No", "No. "), truth)
    assert value_of(result, "accuracy") == 0.25
    assert value_of(result, "parsed_accuracy") == 1.0, "what was said is another matter"


def test_missing_duplicate_and_unknown_answers_are_counted() -> None:
    truth = truth_of(
        qa("Moving?", "No.", 0), qa("Wet?", "No.", 0), qa("  ", "No.", 0), qa("Why?", "So."), qa("Dry?", "No.", 0)
    )
    answers = replies("No.", "No.", "No.", "x")
    answers += [answers[0], {"id": "other", "answer": "?"}]
    result = score(answers, truth)
    counts = {name: result.counts[name] for name in result.counts if result.counts[name]}
    assert counts == {
        "n_questions": 4, "n_answers": 6, "n_accuracy": 2, "n_accuracy_correct": 2, "n_untagged": 1,
        "n_empty_questions": 1, "n_missing": 1, "n_duplicate": 1, "n_unknown": 1, "n_parsed": 2, "n_parsed_yesno": 2,
    }  # fmt: skip
    assert (result.missing, result.unknown) == (("s_f_4",), ("other",))


def test_failure_text_is_not_an_answer() -> None:
    truth = truth_of(qa("Moving?", "No.", 0), qa("Wet?", "No.", 0))
    result = score(replies("No.", "[LMMS_EVAL_REQUEST_FAILED after 3 retries]"), truth)
    assert (result.counts["n_accuracy"], result.counts["n_failed"], result.counts["n_missing"]) == (1, 1, 0)
    assert value_of(result, "accuracy") == 1.0


# --- parts and the final score -------------------------------------------------------------------------------------

FULL = truth_of(
    qa("Objects?", "a red car and a blue van at <c1,X,100.0,100.0>", 2),
    qa("Tell", "the old grey bus waits", 2),
    qa("Graph?", "first <c1,X,100.0,100.0> then <c2,X,300.0,300.0>", 3),
    qa("Wet?", "No.", 0),
    qa("Dry?", "Yes.", 0),
    qa("Plan?", "Stop.", 1),
)
FULL_REPLIES = replies(
    "a red car and a blue van at <c1,X,100.0,100.0>", "a bus waits", "first <c1,X,100.0,100.0>", "No.", "No.", "Brake."
)


def test_the_final_score_by_hand() -> None:
    rated: list[list[RatingRequest]] = []

    def judge(items: Any) -> list[float]:
        rated.append(list(items))
        return [80.0 if item.truth == "Stop." else 40.0 for item in items]

    result = score(FULL_REPLIES, FULL, llm=judge)
    assert [[item.id for item in items] for items in rated] == [["s_f_5"], ["s_f_2"]]
    assert rated[0][0] == RatingRequest("s_f_5", "Plan?", "Brake.", "Stop.")
    assert value_of(result, "accuracy") == 0.5
    assert value_of(result, "match_f1") == pytest.approx(100 * 2 / 3)
    assert value_of(result, "match") == pytest.approx((200 / 3 + 40) / 2)
    language = sum(value_of(result, f"bleu_{n}") for n in (1, 2, 3, 4)) / 4 / 3
    language += value_of(result, "rouge_l") / 3 + value_of(result, "cider") / 10 / 3
    assert value_of(result, "language") == pytest.approx(language)
    expected = 0.4 * 0.8 + 0.2 * language + 0.2 * (200 / 3 + 40) / 200 + 0.2 * 0.5
    assert value_of(result, "final") == pytest.approx(expected)


def test_final_score_without_a_judge_lists_the_missing_parts() -> None:
    result = score(FULL_REPLIES, FULL)
    assert result.parts["llm"] == Unscored("llm", "no_judge", result.parts["llm"].detail)  # type: ignore[union-attr]
    final = result.parts["final"]
    assert isinstance(final, Unscored)
    assert final.detail == "missing: llm, match"
    assert value_of(result, "match_f1") > 0, "what needs no judge is there"


def test_final_score_with_a_missing_answer_is_unscored() -> None:
    result = score(FULL_REPLIES[:-1], FULL, llm=lambda items: [50.0] * len(items))
    final = result.parts["final"]
    assert isinstance(final, Unscored)
    assert final.detail == "missing: llm, 1 answers"


@pytest.mark.parametrize("bad", [Unscored("llm", "request_failed"), 101.0, -1.0, float("nan")])
def test_invalid_rating_is_not_averaged(bad: Any) -> None:
    truth = truth_of(qa("Plan?", "Stop.", 1), qa("And?", "Go.", 1))
    llm = score(replies("Stop.", "Go."), truth, llm=lambda items: [100.0, bad]).parts["llm"]
    assert isinstance(llm, Unscored)
    assert llm.reason == "judge_incomplete"
    assert "1 of 2" in llm.detail


def test_wrong_number_of_ratings_is_refused() -> None:
    with pytest.raises(Ad2Error, match="0 ratings for 1"):
        score(FULL_REPLIES, FULL, llm=lambda items: [])


def test_all_parts_without_answers_are_unscored() -> None:
    result = score([], {})
    assert all(isinstance(part, Unscored) for part in result.parts.values())
    assert json.loads(json.dumps(result.to_dict()))["accuracy"] is None


# --- parsed choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "chosen", "reason"),
    [
        ("B", "B", None),
        ("The answer is (B).", "B", None),
        ("It goes straight.", None, "no_verdict"),
        ('It is "Right."', "B", None),
        ("", None, "empty"),
    ],
)
def test_choice_is_parsed_from_the_reply(answer: str, chosen: str | None, reason: str | None) -> None:
    (choice,) = score(replies(answer), truth_of(qa(OPTIONS, "B", 0))).to_dict()["chosen"]
    assert (choice["chosen"], choice["reason"]) == (chosen, reason)
    assert choice["correct"] is (None if chosen is None else chosen == "B")


BEHAVIOR = (
    "Predict. Options: A. The ego vehicle is going straight. The ego vehicle is driving fast. "
    "B. The ego vehicle is going straight. The ego vehicle is not moving."
)


@pytest.mark.parametrize(
    ("answer", "chosen", "reason"),
    [
        ("It is going straight, and it is driving fast.", "A", None),
        ("It is not moving, going straight.", "B", None),
        ("B. It is going straight and driving fast.", "B", None),
        ("It is going straight and driving slowly.", None, "not_offered"),
        ("It is not going straight, it is driving fast.", None, "no_verdict"),
    ],
)
def test_behaviour_is_parsed_from_one_sentence(answer: str, chosen: str | None, reason: str | None) -> None:
    (choice,) = score(replies(answer), truth_of(qa(BEHAVIOR, "A", 0))).to_dict()["chosen"]
    assert (choice["chosen"], choice["reason"]) == (chosen, reason)


def test_a_truth_that_is_not_offered_is_counted() -> None:
    result = score(replies("A"), truth_of(qa(OPTIONS, "Left.", 0)))
    assert (result.counts["n_truth_not_offered"], result.choices) == (1, [])


# --- real files ----------------------------------------------------------------------------------------------------


def real(data_dir: Path, tokenizer: Any) -> ChallengeResult:
    folder = data_dir / "drivelm"
    answers, truth = (json.loads((folder / name).read_text("utf-8")) for name in ("output.json", "test_eval.json"))
    return score_challenge(answers, truth, tokenizer=tokenizer)


def test_sample_of_the_challenge_equals_the_reference(data_dir: Path) -> None:
    """Figures of the reference: 9 accuracy questions with none exact, 9 language pairs, 4 match questions with F1 0."""
    result = real(data_dir, "plain")
    counts = result.counts
    assert (counts["n_accuracy"], counts["n_accuracy_correct"]) == (9, 0)
    assert (counts["n_language"], counts["n_match"], counts["n_llm"]) == (9, 4, 9)
    assert (counts["n_questions"], counts["n_answers"], counts["n_skipped_by_walk"]) == (66, 66, 35)
    assert (value_of(result, "accuracy"), value_of(result, "match_f1")) == (0.0, 0.0)
    assert not any(
        counts[name] for name in ("n_missing", "n_failed", "n_duplicate", "n_unknown", "n_truth_not_offered")
    )


def test_parsed_choices_of_the_real_answers(data_dir: Path) -> None:
    """Checked manually: three behaviours are not offered, six are wrong; of eight about motion three are right."""
    result = real(data_dir, "plain")
    in_graph = [choice for choice in result.choices if choice["in_walk"]]
    assert [row["chosen"] for row in in_graph] == ["C", "C", None, "A", "D", "D", None, None, "C"]
    assert {row["reason"] for row in in_graph} == {None, "not_offered"}
    motion = [c for c in result.choices if not c["in_walk"] and c["form"] == "mc"]
    assert [row["chosen"] for row in motion] == ["C", "A", "C", "A", "D", "C", "C", "D"]
    assert [row["correct"] for row in motion] == [False, False, True, False, False, True, False, True]
    assert value_of(result, "parsed_accuracy") == 0.0
    assert value_of(result, "parsed_accuracy_options") == pytest.approx(3 / 17)
    assert (result.counts["n_parsed"], result.counts["n_unparsed"]) == (6, 3)
    assert (result.counts["n_parsed_options"], result.counts["n_unparsed_options"]) == (14, 3)


def test_language_part_equals_the_caption_metrics(data_dir: Path) -> None:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    first = [row for row in rows if "important objects" in row["question"]]
    expected = caption_scores(
        {row["id"]: [row["gt_answer"]] for row in first}, {row["id"]: row["answer"] for row in first}, tokenizer="plain"
    )
    result = real(data_dir, "plain")
    assert len(first) == 9
    assert {name: result.parts[name] for name in expected} == expected


# --- malformed files -----------------------------------------------------------------------------------------------

GOOD = truth_of(qa("Moving?", "No.", 0))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"id": "s_f_0"}, "expected a list"),
        ("text", "expected a list"),
        (["text"], "row 0"),
        ([{"answer": "No."}], "field 'id'"),
        ([{"id": 3, "answer": "No."}], "field 'id': expected a string, found 3"),
        ([{"id": "s_f_0"}], "field 'answer'"),
        ([{"id": "s_f_0", "answer": None}], "field 'answer'"),
        ([{"id": "s_f_0", "answer": ["No."]}], "field 'answer'"),
        (replies("No.") + replies("Yes."), "row 1: field 'id': expected one answer to each question, found 's_f_0'"),
    ],
)
def test_malformed_answers_are_reported(answers: Any, words: str) -> None:
    with pytest.raises(DataError) as error:
        score_challenge(answers, GOOD, answers_file="out.json")
    assert "out.json" in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ([], "expected an object"),
        ({"s": []}, "row s"),
        ({"s": {}}, "field 'key_frames'"),
        ({"s": {"key_frames": {"f": {}}}}, "row s_f: field 'QA'"),
        ({"s": {"key_frames": {"f": {"QA": {}}}}}, "field 'QA.perception'"),
        (truth_of("text"), "row s_f_0"),  # type: ignore[arg-type]
        (truth_of({"Q": "x", "A": 1, "tag": []}), "field 'A'"),
        (truth_of({"Q": "x", "A": "y"}), "Only the challenge's test files carry tags"),
        (truth_of({"Q": "x", "A": "y", "tag": [7]}), "field 'tag'"),
        (truth_of({"Q": "x", "A": "y", "tag": 0}), "field 'tag'"),
    ],
)
def test_malformed_truth_is_reported(truth: Any, words: str) -> None:
    with pytest.raises(DataError) as error:
        score_challenge([], truth, truth_file="test.json")
    assert "test.json" in str(error.value)
    assert words in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "answer", "key_frames", "QA", "Q", "A", "tag", "perception"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(150))
@given(JSON, JSON)
def test_any_json_is_scored_or_reported(answers: Any, truth: Any) -> None:
    try:
        result = score(answers, truth)
    except DataError as error:
        assert error.field
    else:
        json.dumps(result.to_dict())


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(max_size=60), min_size=6, max_size=6))
def test_any_answers_are_scored(texts: list[str]) -> None:
    result = score(replies(*texts), FULL)
    assert result.counts["n_questions"] == 6
    assert 0 <= value_of(result, "accuracy") <= 1
