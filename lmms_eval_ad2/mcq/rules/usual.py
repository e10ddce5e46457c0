"""How often a text is the right answer to a kind of question (usual.yaml): wrong options are drawn by the same shares.

An option that is always wrong wherever it stands gives the right one away without image and question, and so does one
that is wrong nowhere.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

import yaml

from lmms_eval_ad2.mcq.wording import normal

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
