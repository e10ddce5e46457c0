"""The rules on all questions of the real DriveLM sample: all made, deterministic, without a length bias."""

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
def asked(data_dir: Path) -> list[OpenQuestion]:
    return questions(data_dir, "train_sample.json")


@pytest.fixture(scope="module")
def made(asked: list[OpenQuestion]) -> list[AcceptedQuestion]:
    maker = RulesMaker()
    outcomes = [maker.one(question) for question in asked]
    left = [(o.question.text, o.reason) for o in outcomes if isinstance(o, RejectedQuestion)]
    assert left == []
    return [o for o in outcomes if isinstance(o, AcceptedQuestion)]


@pytest.mark.integration
def test_every_question_is_made(made: list[AcceptedQuestion]) -> None:
    assert len(made) > 750
    assert {m.question.task for m in made} == {"perception", "prediction", "planning"}
    for one in made:
        texts = [d.text for d in one.distractors]
        assert len(set(texts)) == 3 and one.question.answer not in texts
        assert all(d.category in ERRORS and d.reason for d in one.distractors)
        assert one.correctness is None and one.rounds == 0


def test_no_distractor_has_a_fault(made: list[AcceptedQuestion]) -> None:
    for one in made:
        assert [fault(d.text, one.question) for d in one.distractors] == [None] * 3, one.question.text


def test_three_categories_nearly_everywhere_and_all_five_in_use(made: list[AcceptedQuestion]) -> None:
    different = [len({d.category for d in one.distractors}) == 3 for one in made]
    assert sum(different) / len(made) > 0.98
    used = Counter(d.category for one in made for d in one.distractors)
    assert set(used) == set(ERRORS)
    assert min(used.values()) > 0.1 * used.total()


def test_distractors_have_different_meanings(made: list[AcceptedQuestion]) -> None:
    for one in made:
        in_order = ordered(one.question)
        pairs = combinations([d.text for d in one.distractors], 2)
        assert not any(same(a, b, in_order) for a, b in pairs), (one.question.text, one.distractors)


def test_length_does_not_reveal_the_answer(made: list[AcceptedQuestion]) -> None:
    # Nothing is as short as "No." or "Yes.", and of "Low." and "High." the first is always right in this sample.
    rest = [one for one in made if one.question.answer not in ("No.", "Yes.", "Low.")]
    sizes = [(len(one.question.answer), [len(d.text) for d in one.distractors]) for one in rest]
    assert 0.05 < sum(size < min(wrong) for size, wrong in sizes) / len(rest) < 0.25
    assert 0.15 < sum(size > max(wrong) for size, wrong in sizes) / len(rest) < 0.32
    ratios = [math.log(size / (sum(wrong) / 3)) for size, wrong in sizes]
    assert abs(sum(ratios) / len(ratios)) < 0.05


def test_the_other_plain_verdict_is_an_option(made: list[AcceptedQuestion]) -> None:
    other = {"Yes.": "No.", "No.": "Yes."}
    verdicts = [one for one in made if one.question.answer in other]
    assert len(verdicts) > 200
    for one in verdicts:
        assert other[one.question.answer] in {d.text for d in one.distractors}


def test_texts_that_are_right_elsewhere_are_the_wrong_ones(made: list[AcceptedQuestion]) -> None:
    """A text that is never right would reveal itself as wrong: "Stop sign" among "Red light" and "White sedan"."""
    looks = [one for one in made if one.question.text.startswith("What is the visual description")]
    right = {one.question.answer for one in looks}
    wrong = Counter(d.text in right for one in looks for d in one.distractors)
    assert wrong[True] > 0.5 * wrong.total()


def test_the_same_in_any_order_and_another_draw_by_another_seed(
    asked: list[OpenQuestion], made: list[AcceptedQuestion]
) -> None:
    again = RulesMaker()
    for one in made[::-5]:
        assert again.one(one.question) == one
    other = RulesMaker(seed=1)
    assert any(other.one(one.question).distractors != one.distractors for one in made[:20])  # type: ignore[union-attr]


def test_the_test_sample_is_made_too(data_dir: Path) -> None:
    maker = RulesMaker()
    outcomes = [maker.one(question) for question in questions(data_dir, "test_eval.json")]
    assert outcomes and all(isinstance(o, AcceptedQuestion) for o in outcomes)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_one_kind_alone_is_made_or_counted(kind: str, asked: list[OpenQuestion]) -> None:
    maker = RulesMaker(kind)
    outcomes = [maker.one(question) for question in asked[::8]]
    done = [o for o in outcomes if isinstance(o, AcceptedQuestion)]
    assert len(done) >= 0.7 * len(outcomes)
    assert {d.category for o in done for d in o.distractors} == {kind}
    assert {o.reason for o in outcomes if isinstance(o, RejectedQuestion)} <= {"too_few_distractors"}


def test_make_reports_each_outcome_once(asked: list[OpenQuestion]) -> None:
    seen: list[str] = []
    maker = RulesMaker()
    maker.make(iter(asked[:30]), lambda outcome: seen.append(outcome.question.id))
    assert seen == [question.id for question in asked[:30]]
    assert maker.label == "rules" and maker.describe() == RulesMaker().describe()
    assert maker.account() == {"requests": 0}


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(Ad2Error, match="unknown"):
        RulesMaker("hard")
    with pytest.raises(Ad2Error, match="at least 3"):
        RulesMaker(n=2)
