"""The DriveLM challenge score with its parts, and the accuracy of parsed answers (`score_challenge`).

Rules: OpenDriveLab/DriveLM, `challenge/evaluation.py`. A part that cannot be scored is `Unscored` with its reason; the
final score exists only if every part does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Answer, Score, Unparsed, Unscored
from lmms_eval_ad2.data.drivelm_text import read_behavior, read_options
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.scoring.drivelm_challenge.question_graph import ChallengeQuestion, PairedAnswers, match, points, walk
from lmms_eval_ad2.scoring.metrics.caption import DEFAULT_METRICS, CorpusScore, TokenizerName, caption_scores

ACCURACY, LLM, LANGUAGE, MATCH = 0, 1, 2, 3  # the challenge's tags
WEIGHTS = {"llm": 0.4, "language": 0.2, "match": 0.2, "accuracy": 0.2}
FORMS = {"options": "mc", "yesno": "yesno"}  # forms of closed questions
NO_JUDGE = "no LLM judge was given; the challenge asks GPT-3.5-turbo for 0..100"


@dataclass(frozen=True, slots=True)
class RatingRequest:
    """An answer and its reference, for an LLM judge to rate 0..100. All texts are untrusted."""

    id: str
    question: str
    answer: str
    truth: str


LlmJudge = Callable[[Sequence[RatingRequest]], Sequence[float | Unscored]]
Part = Score | CorpusScore | Unscored


@dataclass(frozen=True, slots=True)
class ChallengeChoice:
    """The parsed answer to a closed question. `truth`: a letter or "yes"/"no"; `correct`: False if unparsed."""

    id: str
    part: str
    truth: str
    read: Answer | Unparsed
    correct: bool
    counts: bool

    def to_dict(self) -> dict[str, Any]:
        unread = isinstance(self.read, Unparsed)
        return {
            "id": self.id,
            "part": self.part,
            "form": self.read.form,
            "truth": self.truth,
            "chosen": None if isinstance(self.read, Unparsed) else self.read.value,
            "reason": self.read.reason if isinstance(self.read, Unparsed) else None,
            "correct": None if unread else self.correct,
            "in_walk": self.counts,
        }


@dataclass(frozen=True, slots=True)
class ChallengeResult:
    """The challenge's parts by name, counts, and choices.

    Units: accuracy, parsed_accuracy, BLEU, ROUGE-L, language and final 0..1; CIDEr 0..10; match_f1, llm and
    match 0..100, as the challenge has them.
    """

    parts: Mapping[str, Part]
    counts: Mapping[str, int]
    choices: tuple[ChallengeChoice, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    tokenizer: str

    def to_dict(self) -> dict[str, Any]:
        """Values by name (null where unscored, with the reason under "unscored"), counts, choices, ids."""
        values = {name: None if isinstance(part, Unscored) else part.value for name, part in self.parts.items()}
        unscored = {
            name: {"reason": part.reason, "detail": part.detail}
            for name, part in self.parts.items()
            if isinstance(part, Unscored)
        }
        return {
            **values,
            **self.counts,
            "tokenizer": self.tokenizer,
            "unscored": unscored,
            "chosen": [choice.to_dict() for choice in self.choices],
            "missing": list(self.missing),
            "unknown": list(self.unknown),
        }


def score_challenge(
    answers: Sequence[Mapping[str, Any]],
    truth: Mapping[str, Any],
    *,
    llm: LlmJudge | None = None,
    tokenizer: TokenizerName = "ptb",
    answers_file: str = "answers",
    truth_file: str = "truth",
) -> ChallengeResult:
    """Score `answers` ([{id, answer}]) against a challenge test file with tags.

    Missing answers, and failure texts of lmms-eval, are counted but not scored; the final score is then Unscored.
    `llm` rates pairs 0..100; without it the LLM part, the match part and the final score are Unscored. Raises
    DataError for malformed input (see `question_graph.walk`).
    """
    found = walk(answers, truth, answers_file=answers_file, truth_file=truth_file)
    asked = {
        tag: [q for q in found.questions if q.counts and tag in q.tags] for tag in (ACCURACY, LLM, LANGUAGE, MATCH)
    }
    answered = {tag: [q for q in questions if q.answer is not None] for tag, questions in asked.items()}
    choices = tuple(choice for q in found.questions if (choice := _choice(q)) is not None)
    parts: dict[str, Part] = {"accuracy": _mean("accuracy", [float(q.answer == q.truth) for q in answered[ACCURACY]])}
    parts |= _language(answered[LANGUAGE], tokenizer)
    parts["match_f1"] = _mean("match_f1", [100 * match(q.answer or "", q.truth)[1] for q in answered[MATCH]])
    parts["llm"] = _rate("llm", answered[LLM], llm)
    parts["match"] = _match_part(parts["match_f1"], _rate("match_llm", answered[MATCH], llm))
    left_out = sum(len(asked[tag]) - len(answered[tag]) for tag in asked)
    parts["final"] = _final(parts, left_out)
    closed = [choice for choice in choices if choice.counts and choice.id in {q.id for q in answered[ACCURACY]}]
    groups = {"": closed} | {f"_{name}": [c for c in choices if c.read.form == form] for name, form in FORMS.items()}
    counts = _counts(found, answered)
    for suffix, group in groups.items():
        name = f"parsed_accuracy{suffix}"
        parts[name] = _mean(name, [float(choice.correct) for choice in group])
        unread = sum(isinstance(choice.read, Unparsed) for choice in group)
        counts |= {f"n_parsed{suffix}": len(group) - unread, f"n_unparsed{suffix}": unread}
    return ChallengeResult(
        parts=parts, counts=counts, choices=choices, missing=found.missing, unknown=found.unknown, tokenizer=tokenizer
    )


def _choice(question: ChallengeQuestion) -> ChallengeChoice | None:
    """Parse the answer to a closed question (lettered options, or a yes/no truth); None for other questions."""
    if question.answer is None:
        return None
    options = read_options(question.text)
    truth = question.truth.strip().rstrip(".")
    if options and truth in options:
        read = _option(question.answer, options)
    elif truth.lower() in ("yes", "no"):
        truth = truth.lower()
        read = parse(question.answer, "yesno")
    else:
        return None
    correct = isinstance(read, Answer) and read.value == truth
    return ChallengeChoice(
        id=question.id, part=question.part, truth=truth, read=read, correct=correct, counts=question.counts
    )


def _truth_not_offered(question: ChallengeQuestion) -> bool:
    options = read_options(question.text)
    return bool(options) and question.truth.strip().rstrip(".") not in options


def _option(answer: str, options: Mapping[str, str]) -> Answer | Unparsed:
    """Return the chosen option. An option that states a behaviour also matches the same behaviour in other words."""
    read = parse(answer, "mc", letters=list(options), options=options)
    answered = read_behavior(answer)
    if isinstance(read, Answer) or read.reason != "no_verdict" or answered is None:
        return read
    offered = {letter: read_behavior(text) for letter, text in options.items()}
    if None in offered.values():
        return read
    letters = [letter for letter, behavior in offered.items() if behavior == answered]
    if len(letters) != 1:
        return Unparsed("mc", "not_offered" if not letters else "several", "; ".join(answered))
    return Answer("mc", letters[0], "by its behaviour")


def _mean(name: str, values: Sequence[float]) -> Score | Unscored:
    if not values:
        return Unscored(name, "no_items", "no question of this kind is left to score")
    return Score(name, math.fsum(values) / len(values))


def _language(questions: Sequence[ChallengeQuestion], tokenizer: TokenizerName) -> dict[str, Part]:
    """BLEU-1..4, ROUGE-L, CIDEr, and "language" = (mean BLEU + ROUGE-L + CIDEr / 10) / 3, in 0..1."""
    scores = caption_scores(
        {q.id: [q.truth] for q in questions}, {q.id: q.answer or "" for q in questions}, tokenizer=tokenizer
    )
    parts: dict[str, Part] = dict(scores)
    values = {name: part.value for name, part in scores.items() if isinstance(part, CorpusScore)}
    lost = [part for part in scores.values() if isinstance(part, Unscored)]
    if lost:
        parts["language"] = Unscored("language", lost[0].reason, lost[0].detail)
    else:
        bleu = sum(values[name] for name in DEFAULT_METRICS if name.startswith("bleu")) / 4
        parts["language"] = Score("language", (bleu + values["rouge_l"] + values["cider"] / 10) / 3)
    return parts


def _rate(name: str, questions: Sequence[ChallengeQuestion], llm: LlmJudge | None) -> Score | Unscored:
    """Mean LLM rating (0..100) over `questions`; Unscored if one of them has none."""
    if not questions:
        return Unscored(name, "no_items", "no question of this kind is left to score")
    if llm is None:
        return Unscored(name, "no_judge", NO_JUDGE)
    rated = llm([RatingRequest(q.id, q.text, q.answer or "", q.truth) for q in questions])
    if len(rated) != len(questions):
        raise Ad2Error(f"the LLM judge gave {len(rated)} ratings for {len(questions)} pairs")
    values = [float(r) for r in rated if not isinstance(r, Unscored) and 0 <= r <= 100]
    if len(values) < len(rated):
        lost = len(rated) - len(values)
        return Unscored(name, "judge_incomplete", f"{lost} of {len(rated)} pairs got no rating from 0 to 100")
    return _mean(name, values)


def _match_part(f1: Part, llm: Score | Unscored) -> Score | Unscored:
    if isinstance(f1, Unscored):
        return Unscored("match", f1.reason, f1.detail)
    if isinstance(llm, Unscored):
        return Unscored("match", llm.reason, llm.detail)
    return Score("match", (f1.value + llm.value) / 2)


def _final(parts: Mapping[str, Part], left_out: int) -> Score | Unscored:
    """final = 0.4 llm / 100 + 0.2 language + 0.2 match / 100 + 0.2 accuracy; Unscored with the missing parts."""
    missing = [name for name in WEIGHTS if isinstance(parts[name], Unscored)]
    if left_out:
        missing.append(f"{left_out} answers")
    if missing:
        return Unscored("final", "parts_missing", f"missing: {', '.join(missing)}")
    unit = {"llm": 100.0, "language": 1.0, "match": 100.0, "accuracy": 1.0}
    values = {name: part.value for name, part in parts.items() if not isinstance(part, Unscored)}
    return Score("final", sum(weight * values[name] / unit[name] for name, weight in WEIGHTS.items()))


def _counts(found: PairedAnswers, answered: Mapping[int, Sequence[ChallengeQuestion]]) -> dict[str, int]:
    return {
        "n_questions": len(found.questions),
        "n_answers": found.n_answers,
        "n_accuracy": len(answered[ACCURACY]),
        "n_accuracy_correct": sum(q.answer == q.truth for q in answered[ACCURACY]),
        "n_language": len(answered[LANGUAGE]),
        "n_match": len(answered[MATCH]),
        "n_match_without_points": sum(not points(q.truth) for q in answered[MATCH]),
        "n_llm": len(answered[LLM]),
        "n_truth_not_offered": sum(_truth_not_offered(q) for q in found.questions),
        "n_untagged": sum(q.counts and not q.tags for q in found.questions),
        "n_skipped_by_walk": sum(not q.counts for q in found.questions),
        "n_empty_questions": found.n_empty_questions,
        "n_missing": len(found.missing),
        "n_failed": len(found.failed),
        "n_duplicate": found.n_duplicate,
        "n_unknown": len(found.unknown),
    }
