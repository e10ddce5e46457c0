"""Selection of three distractors: different categories, different statements, lengths that do not reveal the answer."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import combinations, product

import yaml

from lmms_eval_ad2.mcq.base import SELECTED, Distractor
from lmms_eval_ad2.mcq.faults import same
from lmms_eval_ad2.mcq.wording import normal

PER_CATEGORY = 4  # candidates compared per category; the number of triples grows with the cube
# Target probabilities that 0, 1, 2 or 3 wrong options are shorter than the answer. Not uniform, because pools have more
# long texts than short ones, and some answers ("No.") have no shorter text.
_PLACES = (0.15, 0.2, 0.25, 0.4)
_NOISE = 0.3  # of the log length, so that the selected texts vary


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A distractor with its features for the selection.

    head: the statement without its reason. log_ratio: ln(length / length of the answer). wanted: whether it was drawn
    because it is often right elsewhere. noise: random tie-breaker.
    """

    distractor: Distractor
    head: str
    log_ratio: float
    wanted: bool
    noise: float


def choose(
    pool: Sequence[Distractor], answer: str, rng: random.Random, *, in_order: bool = True, question: str = ""
) -> tuple[Distractor, ...]:
    """Select the best three distractors of `pool`; () if there are not three with different meanings.

    The rank of the answer by length among the four options is drawn first, so that over many questions the right option
    is neither the shortest nor the longest more often than the others, as far as the pool allows.
    in_order: whether the order of enumerations matters. question: its usual answers (usual.yaml) are preferred, drawn
    by how often they are right.
    """
    place = rng.choices(range(SELECTED + 1), _PLACES)[0]
    wanted = draw((d.text for d in pool), shares(question), SELECTED, rng)
    groups = _groups(pool, answer, rng, wanted)
    best: tuple[float, float] | None = None
    chosen: tuple[_Candidate, ...] = ()
    for triple in _triples(groups):
        score = _score(triple, place)
        if (best is None or score > best) and _differ(triple, in_order):
            best, chosen = score, triple
    if not chosen and len(groups) > 1:  # too few categories with different texts: any three candidates
        flat = [c for group in groups for c in group]
        chosen = next((t for t in combinations(flat, SELECTED) if _differ(t, in_order)), ())
    return tuple(c.distractor for c in chosen)


def _groups(
    pool: Sequence[Distractor], answer: str, rng: random.Random, wanted: frozenset[str]
) -> list[list[_Candidate]]:
    """Candidates by category, in random order: wanted texts, the first, the nearest in length, and random ones."""
    found: dict[str, list[_Candidate]] = {}
    for one in pool:
        log_ratio = math.log(max(1, len(one.text)) / max(1, len(answer)))
        candidate = _Candidate(one, one.text.split(",")[0], log_ratio, one.text in wanted, rng.uniform(0, _NOISE))
        found.setdefault(one.category, []).append(candidate)
    groups = []
    for rows in found.values():
        count = PER_CATEGORY if len(found) >= SELECTED else 3 * PER_CATEGORY
        drawn = sorted(rng.sample(rows, len(rows)), key=lambda c: not c.wanted)
        nearest = min(rows, key=lambda c: abs(c.log_ratio))
        first = drawn[:1] if drawn[0].wanted else rows[:1]
        kept = list(dict.fromkeys((*first, nearest, *drawn)))[:count]
        rng.shuffle(kept)
        groups.append(kept)
    rng.shuffle(groups)
    return groups


def _differ(triple: Sequence[_Candidate], in_order: bool) -> bool:
    return not any(same(a.distractor.text, b.distractor.text, in_order) for a, b in combinations(triple, 2))


def _triples(groups: list[list[_Candidate]]) -> Iterator[tuple[_Candidate, ...]]:
    """Triples with as many different categories as possible."""
    if len(groups) >= SELECTED:
        for some in combinations(groups, SELECTED):
            yield from product(*some)
    else:
        flat = [c for group in groups for c in group]
        yield from (t for t in combinations(flat, SELECTED) if len({c.distractor.category for c in t}) == len(groups))


def _score(triple: Sequence[_Candidate], place: int) -> tuple[float, float]:
    """Lexicographic score: 6 heads - 2 misplaced + 2 wanted, then -(|sum of log_ratio| + noise).

    heads: number of different statements. misplaced: distance of the answer's rank by length from `place`.
    """
    shorter = sum(c.log_ratio < 0 for c in triple)
    longer = sum(c.log_ratio > 0 for c in triple)
    # Options as long as the answer leave its rank open: it lies between `shorter` and SELECTED - longer.
    misplaced = max(0, place - (SELECTED - longer), shorter - place)
    # Sum 0: the right option is as long as the geometric mean of the wrong ones.
    uneven = abs(sum(c.log_ratio for c in triple)) + sum(c.noise for c in triple)
    heads = len({c.head for c in triple})
    return 6 * heads - 2 * misplaced + 2 * sum(c.wanted for c in triple), -uneven


# Wrong options are drawn with the shares that texts have among the right answers (usual.yaml): a text that is always
# wrong, or never, would reveal the right option without image and question.
_LEAST = 1e-3  # weight of other answers, at least


def shares(question: str) -> Mapping[str, float]:
    """Normal form of an answer (mcq/wording.py) -> its share among the right answers; empty for unknown questions."""
    return next((answers for pattern, answers in _tables() if pattern.match(question)), {})


def draw(texts: Iterable[str], weights: Mapping[str, float], count: int, rng: random.Random) -> frozenset[str]:
    """Draw up to `count` of the texts that have a weight, by weight, without replacement.

    Efraimidis and Spirakis: the largest keys u ** (1 / weight), u uniform in [0, 1). What the weights lack to 1 is the
    weight of answers outside the table, which may be drawn instead.
    """
    if not weights:
        return frozenset()
    known = [(text, weights[key]) for text in dict.fromkeys(texts) if (key := normal(text)) in weights]
    others = [("", max(_LEAST, 1 - sum(weights.values())))] * count
    ranked = sorted([*known, *others], key=lambda row: rng.random() ** (1 / row[1]), reverse=True)
    return frozenset(text for text, _ in ranked[:count]) - {""}


@cache
def _tables() -> tuple[tuple[re.Pattern[str], Mapping[str, float]], ...]:
    rows = yaml.safe_load(resources.files(__package__).joinpath("usual.yaml").read_text("utf-8"))
    return tuple(
        (re.compile(row["question"], re.IGNORECASE), {normal(text): share for text, share in row["answers"].items()})
        for row in rows
    )
