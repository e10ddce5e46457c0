"""What every judge is: items in, one Rating or Unscored an item out, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lmms_eval_ad2.records import Unscored

LOWEST, HIGHEST = 1.0, 10.0

# What `Judge.usage` always holds. Tokens and requests are those of this session: a reply from the cache costs nothing.
USAGE_KEYS = ("requests", "cached", "prompt_tokens", "completion_tokens", "retries", "failed")


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """One text to rate. Which fields count depends on the rubric (rubrics.yaml, docs/judge.md).

    ad2_slps: `steps` = (A_i, A_i+1); ad2_orcs: the whole chain; ad2_djss: `steps` = A_1..A_N-1 and `answer` = A_N.
    """

    id: str
    rubric: str
    answer: str
    reference: str = ""
    question: str = ""
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeRating:
    """A judge's score on 1..10, whole or decimal. `raw` is the reply or the number that it was read from."""

    id: str
    score: float
    raw: str = ""


class Judge(Protocol):
    """A backend. `label` names it in every table; scores of different labels never share a column."""

    label: str
    usage: dict[str, Any]

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """Ratings in the order of `items`; what could not be rated is Unscored with the rubric as its metric.

        Raises Ad2Error where going on is pointless (wrong key, unknown model, unknown rubric).
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What a result file must know to repeat the judging: backend, model, rubric versions, seed, temperature."""
        ...


def new_usage() -> dict[str, Any]:
    return dict.fromkeys(USAGE_KEYS, 0)
