"""The Judge protocol: items in, one JudgeRating or Unscored per item out, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.llm.request_body import DataUrlImage

LOWEST, HIGHEST = 1.0, 10.0

# Keys that `Judge.usage` always has. Tokens and requests of this session only: cached replies cost nothing.
USAGE_KEYS = ("requests", "cached", "prompt_tokens", "completion_tokens", "retries", "failed")


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """One text to rate. The rubric decides which fields are used (rubrics.yaml, docs/judge.md).

    ad2_slps: `steps` = (A_i, A_i+1); ad2_orcs: the whole chain; ad2_djss: `steps` = A_1..A_N-1 and `answer` = A_N.
    `raw`: the model's reply from which `answer` was read, for CODA-LM's official wording; empty: as `answer`.
    `repetition`: number of the judgement, from 0, if a text is rated several times (`repeats_of`).
    `images`: loads what a judge that sees images is shown (`sees_images`); raises DataError for an unreadable image.
    """

    id: str
    rubric: str
    answer: str
    reference: str = ""
    question: str = ""
    steps: tuple[str, ...] = ()
    raw: str = ""
    repetition: int = 0
    images: Callable[[], Sequence[DataUrlImage]] | None = None


@dataclass(frozen=True, slots=True)
class JudgeRating:
    """A score from 1 to 10, whole or decimal. `raw` is the reply or the number from which it was read."""

    id: str
    score: float
    raw: str = ""


class Judge(Protocol):
    """A backend. `label` names it in tables; scores with different labels are never combined in a column.

    A judge whose ratings of one text may differ has an attribute `repeats`: how often each text is to be rated.
    One that is shown the image as well has a true attribute `images`.
    """

    label: str
    usage: dict[str, Any]

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """Ratings in the order of `items`; an item without a rating is Unscored, with the rubric as its metric.

        Raises Ad2Error for errors that concern all items (wrong API key, unknown model, unknown rubric).
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Settings needed to repeat the judging: backend, model, rubric versions, seed, temperature."""
        ...


def repeats_of(judge: Judge) -> int:
    """How often the judge is to rate each text; 1 for judges that give a text the same rating every time."""
    return int(getattr(judge, "repeats", 1))


def sees_images(judge: Judge) -> bool:
    """Whether items must have `images`."""
    return bool(getattr(judge, "images", False))


def new_usage() -> dict[str, Any]:
    return dict.fromkeys(USAGE_KEYS, 0)
