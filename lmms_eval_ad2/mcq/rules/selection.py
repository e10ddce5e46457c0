"""Three of many: different categories, different statements, and lengths that do not give the answer away."""

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

PER_CATEGORY = 4  # candidates of one category that are weighed: the number of threes grows with the cube
# How often 0, 1, 2 or all wrong options are to be shorter: pools offer more long texts than short ones, and where no
# shorter text can be ("No.") the place is lost.
_PLACES = (0.15, 0.2, 0.25, 0.4)
_LUCK = 0.3  # in log lengths: it is not always the same texts that are taken


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What is compared of a distractor.

    head: the statement without its ground. longer: logarithm of its length against the answer's. wanted: whether it is
    one of the texts drawn for being right elsewhere. luck: makes near equals take turns.
    """

    distractor: Distractor
    head: str
    longer: float
    wanted: bool
    luck: float


def choose(
    pool: Sequence[Distractor], answer: str, rng: random.Random, *, in_order: bool = True, question: str = ""
) -> tuple[Distractor, ...]:
    """The best three of `pool`, () where there are not three that say different things.

    The answer's place by length among the four options is drawn first, so that over many questions the right
    option is neither the shortest nor the longest more often than the others, as far as the pool allows.
    in_order: whether enumerations in another order say another thing. question: whose usual answers (usual.py) come
    before other texts, drawn by how often they are right.
    """
    place = rng.choices(range(SELECTED + 1), _PLACES)[0]
    wanted = draw((d.text for d in pool), shares(question), SELECTED, rng)
    groups = _groups(pool, answer, rng, wanted)
    best: tuple[float, float] | None = None
    chosen: tuple[_Weighed, ...] = ()
    for three in _threes(groups):
        worth = _worth(three, place)
        if (best is None or worth > best) and _differ(three, in_order):
            best, chosen = worth, three
    if not chosen and len(groups) > 1:  # fewer categories with different texts: any three of all
        flat = [w for group in groups for w in group]
        chosen = next((t for t in combinations(flat, SELECTED) if _differ(t, in_order)), ())
    return tuple(w.distractor for w in chosen)


def _groups(
    pool: Sequence[Distractor], answer: str, rng: random.Random, wanted: frozenset[str]
) -> list[list[_Weighed]]:
    """By category, in random order: the wanted texts, what its rules prefer, what is near in length, some by chance."""
    found: dict[str, list[_Weighed]] = {}
    for one in pool:
        longer = math.log(max(1, len(one.text)) / max(1, len(answer)))
        weighed = _Weighed(one, one.text.split(",")[0], longer, one.text in wanted, rng.uniform(0, _LUCK))
        found.setdefault(one.category, []).append(weighed)
    groups = []
    for rows in found.values():
        count = PER_CATEGORY if len(found) >= SELECTED else 3 * PER_CATEGORY
        drawn = sorted(rng.sample(rows, len(rows)), key=lambda w: not w.wanted)
        nearest = min(rows, key=lambda w: abs(w.longer))
        first = drawn[:1] if drawn[0].wanted else rows[:1]
        kept = list(dict.fromkeys((*first, nearest, *drawn)))[:count]
        rng.shuffle(kept)
        groups.append(kept)
    rng.shuffle(groups)
    return groups


def _differ(three: Sequence[_Weighed], in_order: bool) -> bool:
    return not any(same(a.distractor.text, b.distractor.text, in_order) for a, b in combinations(three, 2))


def _threes(groups: list[list[_Weighed]]) -> Iterator[tuple[_Weighed, ...]]:
    """Threes of as many different categories as there are."""
    if len(groups) >= SELECTED:
        for some in combinations(groups, SELECTED):
            yield from product(*some)
    else:
        flat = [w for group in groups for w in group]
        yield from (t for t in combinations(flat, SELECTED) if len({w.distractor.category for w in t}) == len(groups))


def _worth(three: Sequence[_Weighed], place: int) -> tuple[float, float]:
    shorter = sum(w.longer < 0 for w in three)
    longer = sum(w.longer > 0 for w in three)
    # Options as long as the answer leave its place open.
    misplaced = max(0, place - (SELECTED - longer), shorter - place)
    # As much shorter as longer: the right option is as long as the wrong ones on average.
    uneven = abs(sum(w.longer for w in three)) + sum(w.luck for w in three)
    heads = len({w.head for w in three})
    return 6 * heads - 2 * misplaced + 2 * sum(w.wanted for w in three), -uneven


# How often a text is the right answer to a kind of question (usual.yaml): wrong options are drawn by the same shares.
#
# An option that is always wrong wherever it stands gives the right one away without image and question, and so does one
# that is wrong nowhere.
_LEAST = 1e-3


def shares(question: str) -> Mapping[str, float]:
    """Normal form of an answer (mcq/wording.py) -> its share among the right answers; empty for other questions."""
    return next((answers for pattern, answers in _tables() if pattern.match(question)), {})


def draw(texts: Iterable[str], weights: Mapping[str, float], count: int, rng: random.Random) -> frozenset[str]:
    """Up to `count` of the texts that have a weight, drawn by it without replacement (Efraimidis and Spirakis).

    What the weights lack to 1 stands for answers that no table names: they may be drawn instead.
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
