"""The DriveLM challenge score with its parts, and the accuracy of parsed answers (`score_challenge`).

Rules: OpenDriveLab/DriveLM, `challenge/evaluation.py`. A walk over the questions of a frame selects those that count. A
part that cannot be scored is `Unscored` with its reason; the final score exists only if every part does. Coordinates
are pixels of a 1600x900 camera image.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Answer, Score, Unparsed, Unscored
from lmms_eval_ad2.data.drivelm_text import read_behavior, read_options
from lmms_eval_ad2.parsing import failure_reason, parse
from lmms_eval_ad2.scoring.metrics.caption import DEFAULT_METRICS, CorpusScore, TokenizerName, caption_scores

PARTS = ("perception", "prediction", "planning", "behavior")  # questions are numbered in this order
TAGS = ACCURACY, LLM, LANGUAGE, MATCH = 0, 1, 2, 3
MATCH_RADIUS = 16.0  # pixels, L1 distance below which a point matches a true one
WEIGHTS = {"llm": 0.4, "language": 0.2, "match": 0.2, "accuracy": 0.2}
NO_JUDGE = "no LLM judge was given; the challenge asks GPT-3.5-turbo for 0..100"

# The challenge takes every decimal number, in pairs. The look-behind keeps matching linear on long digit strings.
_DECIMAL = re.compile(r"(?<![0-9])[0-9]+\.[0-9]+")

Point = tuple[float, float]
Part = Score | CorpusScore | Unscored


@dataclass(frozen=True, slots=True)
class ChallengeQuestion:
    """A question with its reference (`truth`) and answer; None if there is none to score. `counts`: by the walk."""

    id: str
    part: str
    text: str
    truth: str
    tags: frozenset[int]
    answer: str | None
    counts: bool

    @property
    def plain_truth(self) -> str:
        return self.truth.strip().rstrip(".")


@dataclass(frozen=True, slots=True)
class RatingRequest:
    """An answer and its reference, for an LLM judge to rate 0..100. All texts are untrusted."""

    id: str
    question: str
    answer: str
    truth: str


LlmJudge = Callable[[Sequence[RatingRequest]], Sequence[float | Unscored]]


@dataclass(frozen=True, slots=True)
class ChallengeResult:
    """The challenge's parts by name, counts, and a row for each closed question (lettered options, or yes/no).

    Units: accuracy, parsed_accuracy, BLEU, ROUGE-L, language and final 0..1; CIDEr 0..10; match_f1, llm and
    match 0..100, as the challenge has them. missing, unknown: ids of questions and of answers without the other.
    """

    parts: Mapping[str, Part]
    counts: Mapping[str, int]
    choices: Sequence[Mapping[str, Any]]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    tokenizer: str

    def to_dict(self) -> dict[str, Any]:
        """Values by name (null where unscored, with the reason under "unscored"), counts, choices, ids."""
        lost = {name: part for name, part in self.parts.items() if isinstance(part, Unscored)}
        return {
            **{name: None if isinstance(part, Unscored) else part.value for name, part in self.parts.items()},
            **self.counts,
            "tokenizer": self.tokenizer,
            "unscored": {name: {"reason": part.reason, "detail": part.detail} for name, part in lost.items()},
            "chosen": list(self.choices),
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
    DataError for a malformed file, a row without id or text, or two different answers to one id.
    """
    given, duplicates = _by_id(answers, answers_file)
    all_questions, failed = walk(given, truth, truth_file)
    questions = [q for q in all_questions if q.text.strip()]
    asked = {tag: [q for q in questions if q.counts and tag in q.tags] for tag in TAGS}
    answered = {tag: [q for q in of if q.answer is not None] for tag, of in asked.items()}
    left_out = sum(len(asked[tag]) - len(answered[tag]) for tag in TAGS)

    right = [q.answer == q.truth for q in answered[ACCURACY]]
    parts: dict[str, Part] = {"accuracy": _mean("accuracy", [float(equal) for equal in right])}
    parts |= _language(answered[LANGUAGE], tokenizer)
    parts["match_f1"] = _mean("match_f1", [100 * match(q.answer or "", q.truth)[1] for q in answered[MATCH]])
    parts["llm"] = _rate("llm", answered[LLM], llm)
    parts["match"] = _match_part(parts["match_f1"], _rate("match_llm", answered[MATCH], llm))
    parts["final"] = _final(parts, left_out)

    known = {q.id for q in all_questions}
    missing = tuple(q.id for q in questions if q.id not in given)
    unknown = tuple(key for key in given if key not in known)
    counts = {
        "n_questions": len(questions),
        "n_answers": len(answers),
        "n_accuracy": len(answered[ACCURACY]),
        "n_accuracy_correct": sum(right),
        "n_language": len(answered[LANGUAGE]),
        "n_match": len(answered[MATCH]),
        "n_match_without_points": sum(not points(q.truth) for q in answered[MATCH]),
        "n_llm": len(answered[LLM]),
        "n_truth_not_offered": sum(_truth_not_offered(q) for q in questions),
        "n_untagged": sum(q.counts and not q.tags for q in questions),
        "n_skipped_by_walk": sum(not q.counts for q in questions),
        "n_empty_questions": len(all_questions) - len(questions),
        "n_missing": len(missing),
        "n_failed": failed,
        "n_duplicate": duplicates,
        "n_unknown": len(unknown),
    }
    choices = [choice for q in questions if (choice := _choice(q)) is not None]
    accuracy_ids = {q.id for q in answered[ACCURACY]}
    groups = {"": [c for c in choices if c["in_walk"] and c["id"] in accuracy_ids]}
    groups |= {f"_{name}": [c for c in choices if c["form"] == form] for name, form in _CLOSED_FORMS.items()}
    for suffix, group in groups.items():
        name = f"parsed_accuracy{suffix}"
        parts[name] = _mean(name, [float(c["correct"] is True) for c in group])
        unread = sum(c["correct"] is None for c in group)
        counts |= {f"n_parsed{suffix}": len(group) - unread, f"n_unparsed{suffix}": unread}
    return ChallengeResult(parts, counts, choices, missing, unknown, tokenizer)


def points(text: str) -> list[Point]:
    """Return the points in `text`: its decimal numbers in pairs; an unpaired last number is ignored."""
    numbers = [float(number) for number in _DECIMAL.findall(text)]
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def match(answer: str, truth: str) -> tuple[list[Point], float]:
    """Return the true points that `answer` hits, and F1 = 2 hits / (points given + true points), 0..1.

    Greedy in the order of the answer: each point takes the nearest unmatched true point if its L1 distance is below
    16 px. F1 is 0 if either side has no point, as in the challenge.
    """
    given, free = points(answer), points(truth)
    n_given, n_true = len(given), len(free)
    hits: list[Point] = []
    for x, y in given:
        if not free:
            break
        distance, index = min((abs(x - tx) + abs(y - ty), i) for i, (tx, ty) in enumerate(free))
        if distance < MATCH_RADIUS:
            hits.append(free.pop(index))
    return hits, 2 * len(hits) / (n_given + n_true) if hits else 0.0


def walk(given: Mapping[str, str], truth: Any, file: str) -> tuple[list[ChallengeQuestion], int]:
    """All questions of a test file with their answers by id, and whether each counts; the number of failure texts.

    A frame's first question always counts; the true points hit by its answer form the frame's graph. Each later
    question counts if all points in its text are in the graph.
    """
    questions: list[ChallengeQuestion] = []
    failed = 0
    for frame, items in _frames(truth, file):
        graph: set[Point] = set()
        for number, (part, qa) in enumerate(items):
            key = f"{frame}_{number}"
            text, target, tags = _question(qa, key, file)
            answer = given.get(key)
            if answer is not None and failure_reason(answer):
                failed += 1
                answer = None
            if number == 0:
                graph = set(match(answer or "", target)[0])
            counts = number == 0 or graph.issuperset(points(text))
            questions.append(ChallengeQuestion(key, part, text, target, tags=tags, answer=answer, counts=counts))
    return questions, failed


def _by_id(answers: Any, file: str) -> tuple[dict[str, str], int]:
    """Return the answers by id, and the number of duplicate rows."""
    if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
        raise DataError(file, None, "(file)", "a list of {id, answer} objects", type(answers).__name__)
    given: dict[str, str] = {}
    for row, item in enumerate(answers):
        if not isinstance(item, Mapping):
            raise DataError(file, row, "(row)", "an object with id and answer", item)
        key, text = _texts(item, ("id", "answer"), file, row)
        if given.setdefault(key, text) != text:
            raise DataError(file, row, "id", "one answer to each question", key, "Two rows answer it differently.")
    return given, len(answers) - len(given)


def _frames(truth: Any, file: str) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Id of each frame, and its questions with the name of their part."""
    for scene, scene_data in _object(truth, file, None, "(file)").items():
        frames = _object(_object(scene_data, file, scene, scene).get("key_frames"), file, scene, "key_frames")
        for frame, data in frames.items():
            key = f"{scene}_{frame}"
            parts = _object(_object(data, file, key, frame).get("QA"), file, key, "QA")
            for part in PARTS:
                if not isinstance(parts.get(part), list):
                    raise DataError(file, key, f"QA.{part}", "a list of questions", parts.get(part, "(absent)"))
            yield key, [(part, qa) for part in PARTS for qa in parts[part]]


def _question(qa: Any, key: str, file: str) -> tuple[str, str, frozenset[int]]:
    item = _object(qa, file, key, "(question)")
    text, target = _texts(item, ("Q", "A"), file, key)
    tags = item.get("tag")
    if not isinstance(tags, list) or not all(isinstance(tag, int) and tag in TAGS for tag in tags):
        hint = "Only the challenge's test files carry tags; the training and validation releases do not."
        raise DataError(file, key, "tag", f"a list of {TAGS}", item.get("tag", "(absent)"), hint)
    return text, target, frozenset(tags)


def _texts(item: Mapping[str, Any], names: Sequence[str], file: str, row: int | str) -> list[str]:
    for name in names:
        if not isinstance(item.get(name), str):
            raise DataError(file, row, name, "a string", item.get(name, "(absent)"))
    return [item[name] for name in names]


def _object(value: Any, file: str, row: str | None, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(file, row, name, "an object", "(absent)" if value is None else value)
    return value


_CLOSED_FORMS = {"options": "mc", "yesno": "yesno"}


def _choice(question: ChallengeQuestion) -> dict[str, Any] | None:
    """The parsed answer to a closed question, by its options or yes/no truth; None for other questions."""
    if question.answer is None:
        return None
    options, truth = read_options(question.text), question.plain_truth
    if options and truth in options:
        read = _option(question.answer, options)
    elif truth.lower() in ("yes", "no"):
        truth, read = truth.lower(), parse(question.answer, "yesno")
    else:
        return None
    unread = isinstance(read, Unparsed)
    return {
        "id": question.id,
        "part": question.part,
        "form": read.form,
        "truth": truth,
        "chosen": None if isinstance(read, Unparsed) else read.value,
        "reason": read.reason if isinstance(read, Unparsed) else None,
        "correct": None if unread else isinstance(read, Answer) and read.value == truth,
        "in_walk": question.counts,
    }


def _truth_not_offered(question: ChallengeQuestion) -> bool:
    options = read_options(question.text)
    return bool(options) and question.plain_truth not in options


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
    values = {name: part.value for name, part in scores.items() if isinstance(part, CorpusScore)}
    lost = [part for part in scores.values() if isinstance(part, Unscored)]
    if lost:
        return {**scores, "language": Unscored("language", lost[0].reason, lost[0].detail)}
    bleu = sum(values[name] for name in DEFAULT_METRICS if name.startswith("bleu")) / 4
    return {**scores, "language": Score("language", (bleu + values["rouge_l"] + values["cider"] / 10) / 3)}


def _rate(name: str, questions: Sequence[ChallengeQuestion], llm: LlmJudge | None) -> Score | Unscored:
    """Mean LLM rating (0..100) over `questions`; Unscored if one of them has none."""
    if not questions:
        return _mean(name, ())
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


def _match_part(f1: Part, llm: Part) -> Score | Unscored:
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
