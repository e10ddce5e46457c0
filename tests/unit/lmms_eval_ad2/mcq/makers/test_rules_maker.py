"""The rules on all questions of the real DriveLM sample: distractors for all, deterministic, no length bias."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.base import KINDS, AcceptedQuestion, OpenQuestion, RejectedQuestion
from lmms_eval_ad2.mcq.faults import fault, ordered, same
from lmms_eval_ad2.mcq.makers.rules_maker import RulesMaker
from lmms_eval_ad2.mcq.sources import open_source
from lmms_eval_ad2.mcq.survey import load, survey


def questions(data_dir: Path, file: str) -> list[OpenQuestion]:
    folder = data_dir / "drivelm"
    source = open_source(f"drivelm={folder / file}", split="train", images=folder / "images")
    found = survey([source], progress=False)
    return list(load([source], found.entries, progress=False))


@pytest.fixture(scope="module")
def open_questions(data_dir: Path) -> list[OpenQuestion]:
    return questions(data_dir, "train_sample.json")


@pytest.fixture(scope="module")
def accepted(open_questions: list[OpenQuestion]) -> list[AcceptedQuestion]:
    maker = RulesMaker()
    outcomes = [maker.one(question) for question in open_questions]
    rejected = [(o.question.text, o.reason) for o in outcomes if isinstance(o, RejectedQuestion)]
    assert rejected == []
    return [o for o in outcomes if isinstance(o, AcceptedQuestion)]


@pytest.mark.integration
def test_every_question_gets_distractors(accepted: list[AcceptedQuestion]) -> None:
    assert len(accepted) > 750
    assert {m.question.task for m in accepted} == {"perception", "prediction", "planning"}
    for one in accepted:
        texts = [d.text for d in one.distractors]
        assert len(set(texts)) == 3 and one.question.answer not in texts
        assert all(d.category in ERRORS and d.reason for d in one.distractors)
        assert one.correctness is None and one.rounds == 0


def test_no_distractor_has_a_fault(accepted: list[AcceptedQuestion]) -> None:
    for one in accepted:
        assert [fault(d.text, one.question) for d in one.distractors] == [None] * 3, one.question.text


def test_nearly_all_questions_have_three_categories_and_all_five_occur(accepted: list[AcceptedQuestion]) -> None:
    different = [len({d.category for d in one.distractors}) == 3 for one in accepted]
    assert sum(different) / len(accepted) > 0.98
    used = Counter(d.category for one in accepted for d in one.distractors)
    assert set(used) == set(ERRORS)
    assert min(used.values()) > 0.1 * used.total()


def test_distractors_have_different_meanings(accepted: list[AcceptedQuestion]) -> None:
    for one in accepted:
        in_order = ordered(one.question)
        pairs = combinations([d.text for d in one.distractors], 2)
        assert not any(same(a, b, in_order) for a, b in pairs), (one.question.text, one.distractors)


def test_length_does_not_reveal_the_answer(accepted: list[AcceptedQuestion]) -> None:
    # Nothing is as short as "No." or "Yes.", and of "Low." and "High." the first is always right in this sample.
    rest = [one for one in accepted if one.question.answer not in ("No.", "Yes.", "Low.")]
    sizes = [(len(one.question.answer), [len(d.text) for d in one.distractors]) for one in rest]
    assert 0.05 < sum(size < min(wrong) for size, wrong in sizes) / len(rest) < 0.25
    assert 0.15 < sum(size > max(wrong) for size, wrong in sizes) / len(rest) < 0.32
    ratios = [math.log(size / (sum(wrong) / 3)) for size, wrong in sizes]
    assert abs(sum(ratios) / len(ratios)) < 0.05


def test_the_opposite_of_yes_or_no_is_an_option(accepted: list[AcceptedQuestion]) -> None:
    other = {"Yes.": "No.", "No.": "Yes."}
    verdicts = [one for one in accepted if one.question.answer in other]
    assert len(verdicts) > 200
    for one in verdicts:
        assert other[one.question.answer] in {d.text for d in one.distractors}


def test_most_wrong_options_are_right_for_other_questions(accepted: list[AcceptedQuestion]) -> None:
    """A text that is never right would reveal itself as wrong: "Stop sign" among "Red light" and "White sedan"."""
    looks = [one for one in accepted if one.question.text.startswith("What is the visual description")]
    right = {one.question.answer for one in looks}
    wrong = Counter(d.text in right for one in looks for d in one.distractors)
    assert wrong[True] > 0.5 * wrong.total()


def test_distractors_depend_on_the_seed_but_not_on_the_order(
    open_questions: list[OpenQuestion], accepted: list[AcceptedQuestion]
) -> None:
    again = RulesMaker()
    for one in accepted[::-5]:
        assert again.one(one.question) == one
    other = RulesMaker(seed=1)
    assert any(other.one(one.question).distractors != one.distractors for one in accepted[:20])  # type: ignore[union-attr]


def test_every_question_of_the_test_sample_gets_distractors(data_dir: Path) -> None:
    maker = RulesMaker()
    outcomes = [maker.one(question) for question in questions(data_dir, "test_eval.json")]
    assert outcomes and all(isinstance(o, AcceptedQuestion) for o in outcomes)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_single_kind_gives_distractors_or_a_counted_rejection(kind: str, open_questions: list[OpenQuestion]) -> None:
    maker = RulesMaker(kind)
    outcomes = [maker.one(question) for question in open_questions[::8]]
    done = [o for o in outcomes if isinstance(o, AcceptedQuestion)]
    assert len(done) >= 0.7 * len(outcomes)
    assert {d.category for o in done for d in o.distractors} == {kind}
    assert {o.reason for o in outcomes if isinstance(o, RejectedQuestion)} <= {"too_few_distractors"}


def test_make_reports_each_outcome_once(open_questions: list[OpenQuestion]) -> None:
    seen: list[str] = []
    maker = RulesMaker()
    maker.make(iter(open_questions[:30]), lambda outcome: seen.append(outcome.question.id))
    assert seen == [question.id for question in open_questions[:30]]
    assert maker.label == "rules" and maker.describe() == RulesMaker().describe()
    assert maker.account() == {"requests": 0}


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(Ad2Error, match="unknown"):
        RulesMaker("hard")
    with pytest.raises(Ad2Error, match="at least 3"):
        RulesMaker(n=2)
