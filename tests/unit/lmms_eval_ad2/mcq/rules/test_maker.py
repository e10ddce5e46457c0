"""The rules on all questions of the real DriveLM sample: no attack finds the right option, no option is faulty."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.autodrive_qa import record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.base import AcceptedQuestion, OpenQuestion, RejectedQuestion
from lmms_eval_ad2.mcq.biases import attacks
from lmms_eval_ad2.mcq.faults import denies, fault, repeats
from lmms_eval_ad2.mcq.question_rows import row_of
from lmms_eval_ad2.mcq.rules.maker import OPERATIONS, RulesMaker
from lmms_eval_ad2.mcq.sources import load, open_source, survey
from lmms_eval_ad2.mcq.wording import verdict

BEST_GUESS = 0.33  # accuracy of the best attack, at most; chance is 0.25


def questions(data_dir: Path, file: str) -> list[OpenQuestion]:
    folder = data_dir / "drivelm"
    source = open_source(f"drivelm={folder / file}", split="train", images=folder / "images")
    found = survey([source], progress=False)
    return list(load([source], found.entries, progress=False))


@pytest.fixture(scope="module")
def open_questions(data_dir: Path) -> list[OpenQuestion]:
    return questions(data_dir, "train_sample.json")


@pytest.fixture(scope="module")
def outcomes(open_questions: list[OpenQuestion]) -> list[Any]:
    maker = RulesMaker()
    return [maker.one(question) for question in open_questions]


@pytest.fixture(scope="module")
def accepted(outcomes: list[Any]) -> list[AcceptedQuestion]:
    return [o for o in outcomes if isinstance(o, AcceptedQuestion)]


@pytest.fixture(scope="module")
def records(accepted: list[AcceptedQuestion]) -> list[Record]:
    rows = [row_of(one, seed=0, maker="rules", kind="all", split="test") for one in accepted]
    return [record_of(UntrustedRow(row, Path("questions.jsonl"), 1)) for row in rows]


@pytest.mark.integration
def test_no_attack_finds_the_right_option(records: list[Record]) -> None:
    assert len(records) >= 500
    found = attacks(records)
    for name, row in found["by_attack"].items():
        assert row["all"]["accuracy"] <= BEST_GUESS, name
        assert row["others"]["accuracy"] <= BEST_GUESS, name
        assert row["polar"]["accuracy"] <= BEST_GUESS + 0.03, name  # 225 questions: standard error 0.03


def test_what_is_left_out_is_counted_by_kind(outcomes: list[Any]) -> None:
    reasons = Counter(o.reason for o in outcomes if isinstance(o, RejectedQuestion))
    assert reasons["predictable:occlusion"] == 24 and reasons["predictable:collision_probability"] == 26
    others = {reason: n for reason, n in reasons.items() if not reason.startswith("predictable:")}
    assert sum(others.values()) < 20 and set(others) == {"too_few_distractors", "no_rule"}


def test_kinds_that_are_left_out_are_known_before_questions_are_drawn(outcomes: list[Any]) -> None:
    for outcome in outcomes:
        known_later = isinstance(outcome, AcceptedQuestion) or outcome.reason == "too_few_distractors"
        assert _code(outcome) == (None if known_later else outcome.reason)
    assert RulesMaker("naive").unsuited("drivelm", "Tell me something.") is None


def _code(outcome: Any) -> str | None:
    return RulesMaker().unsuited(outcome.question.source, outcome.question.text)


def test_yes_no_questions_have_options_of_both_verdicts_with_different_reasons(
    accepted: list[AcceptedQuestion],
) -> None:
    polar = [one for one in accepted if verdict(one.question.answer)]
    assert len(polar) > 200
    for one in polar:
        texts = [one.question.answer, *(d.text for d in one.distractors)]
        assert {verdict(text) for text in texts} == {"yes", "no"}, texts
        assert len(set(texts)) == 4


def test_no_distractor_has_a_fault(accepted: list[AcceptedQuestion]) -> None:
    for one in accepted:
        texts = [d.text for d in one.distractors]
        assert [fault(text, one.question) for text in texts] == [None] * 3, one.question.text
        pairs = list(combinations(texts, 2))
        assert not any(repeats(a, [b], one.question) or denies(a, b) for a, b in pairs), (one.question.text, texts)
        assert set(OPERATIONS) >= {name for d in one.distractors for name in d.operation.split("+")}
        assert one.correctness is None and one.rounds == 0 and all(d.reason for d in one.distractors)


def test_options_are_no_telegrams_and_have_the_form_of_the_answer(accepted: list[AcceptedQuestion]) -> None:
    for one in accepted:
        for distractor in one.distractors:
            assert distractor.text[:1].isupper() or distractor.text.startswith("<"), distractor.text
            assert distractor.text.endswith(".") == one.question.answer.endswith("."), distractor.text
            assert " is is " not in distractor.text and " a a" not in distractor.text


def test_distractors_depend_on_the_seed_but_not_on_the_order(
    open_questions: list[OpenQuestion], accepted: list[AcceptedQuestion]
) -> None:
    again, by_id = RulesMaker(), {question.id: question for question in open_questions}
    for one in accepted[::-5]:
        assert again.one(by_id[one.question.id]) == one
    other = RulesMaker(seed=1)
    changed = [other.one(by_id[one.question.id]) for one in accepted[:20]]
    assert any(new.distractors != one.distractors for new, one in zip(changed, accepted, strict=False))  # type: ignore[union-attr]


def test_the_test_sample_gives_questions_too(data_dir: Path) -> None:
    maker = RulesMaker()
    found = [maker.one(question) for question in questions(data_dir, "test_eval.json")]
    assert sum(isinstance(o, AcceptedQuestion) for o in found) > 0.3 * len(found)
    left_out = {o.reason.split(":")[0] for o in found if isinstance(o, RejectedQuestion)}
    assert left_out <= {"predictable", "too_few_distractors", "no_rule"}


def test_naive_options_for_all_questions(open_questions: list[OpenQuestion]) -> None:
    maker = RulesMaker("naive")
    done = [o for q in open_questions[::8] if isinstance(o := maker.one(q), AcceptedQuestion)]
    assert len(done) >= 0.9 * len(open_questions[::8])
    assert {d.category for o in done for d in o.distractors} == {"naive"}
    for one in done:
        pairs = combinations([d.text for d in one.distractors], 2)
        assert not any(repeats(a, [b], one.question) for a, b in pairs), one.question.text


def test_make_reports_each_outcome_once(open_questions: list[OpenQuestion]) -> None:
    seen: list[str] = []
    maker = RulesMaker()
    maker.make(iter(open_questions[:30]), lambda outcome: seen.append(outcome.question.id))
    assert seen == [question.id for question in open_questions[:30]]
    assert maker.label == "rules" and maker.describe() == RulesMaker().describe()
    assert maker.account() == {"requests": 0}
