"""Random answers to records: those of the baseline ad2_chance, and the floor of a task's scores from them.

Letters, yes/no, counts, points and boxes are uniform. Free text, and each step of a chain, is the reference of another
record of the same sub-task: an answer of the right kind to another question. A judge that compares wording gives such
answers a good part of its scale.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import Form, Record, Value
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.reference_answers import chain, written
from lmms_eval_ad2.scoring.reference_pools import NoOtherRecordError, ReferencePools
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

LARGEST_COUNT = 10
SEED = 0  # of the floor: the default of ad2_chance
WITHOUT_ANSWER = "[AD2_NO_OTHER_REFERENCE]"  # starts a reply that is read as Unscored (parsing/reasons.py)


def chance_value(record: Record, form: Form, step: int, seed: int, pools: ReferencePools) -> Value:
    """A random answer that depends only on the record, the form, the step of a chain, the seed and the pools.

    The corners of a box are uniform over the pixels; an image of unknown size gets the extent of the references.
    Raises NoOtherRecordError if there is no other reference to draw from.
    """
    rng = random.Random(f"{seed}|{record.id}|{form}|{step}")
    match form:
        case "mc":
            return rng.choice(offered(record))
        case "yesno":
            return rng.choice(record.words)
        case "count":
            return rng.randint(0, LARGEST_COUNT)
        case "point" | "box":
            size = record.image_size or pools.extent(record, form)
            return random_point(rng, size) if form == "point" else random_box(rng, size)
    return pools.draw_other(record, form, step, rng)


def offered(record: Record) -> tuple[str, ...]:
    """The letters of a multiple-choice record."""
    if not record.options:
        raise DataError(record.benchmark, record.id, "options", "at least one option of a multiple-choice record")
    return tuple(option.letter for option in record.options)


def random_point(rng: random.Random, size: tuple[int, int]) -> tuple[float, float]:
    """A point in whole pixels: values below 1 would be parsed as proportions of the image."""
    return float(rng.randrange(size[0])), float(rng.randrange(size[1]))


def random_box(rng: random.Random, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """A box in pixels, at least one pixel wide and high."""
    (x1, x2), (y1, y2) = (sorted((rng.randrange(length), rng.randrange(length))) for length in size)
    return float(x1), float(y1), float(x2 + 1), float(y2 + 1)


def chance_floor(
    records: Callable[[], Iterable[Record]], task: str, variant: TaskVariant, judge: Judge
) -> dict[str, Any]:
    """The table of a task (scoring/pipeline.py) for random answers to `records`, which is called twice.

    References are drawn from these records alone; a record without another reference to draw from is Unscored. Points
    and boxes are in pixels, whatever the frame of the task is. Without n-gram metrics.
    """
    pixels = replace(variant, frame="pixel", model_input="", captions=())
    pools = ReferencePools(records(), pixels)
    asked = (score_sample(record, _answer(record, pixels, pools), pixels, task) for record in records())
    table, _ = pipeline.score_task(asked, task, pixels, lambda: judge, None, progress=False)
    return {**table, "variant": variant.changes(), "coordinates": {}}


def _answer(record: Record, variant: TaskVariant, pools: ReferencePools) -> str | list[str]:
    form = variant.asked_form(record)
    try:
        if form != "chain":
            value = chance_value(record, form, 0, SEED, pools)
            return written(value, form, variant.lang, variant.frame, record.image_size)
        steps = [str(chance_value(record, form, step, SEED, pools)) for step in range(len(record.steps))]
    except NoOtherRecordError as exc:
        return f"{WITHOUT_ANSWER} {exc}"
    return steps if variant.rounds else chain(steps)
