"""The images that a judge sees beside an answer: those of its record, with the mark drawn, as the model saw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.judge.base import Judge, sees_images
from lmms_eval_ad2.llm.request_body import DataUrlImage
from lmms_eval_ad2.prompts.task_prompt import PromptSettings, prompt_images
from lmms_eval_ad2.scoring.sample import ScoredSample


def with_images(
    samples: Iterable[ScoredSample], judge: Judge, root: Path, settings: PromptSettings
) -> Iterator[ScoredSample]:
    """The samples; their texts to be rated get a function that loads the images below `root`, if the judge sees any."""
    for sample in samples:
        if sample.pending and sees_images(judge):
            # Raises DataError for an image that is missing or cannot be read.
            def load(record: Record = sample.record) -> tuple[DataUrlImage, ...]:
                return tuple(DataUrlImage.of("", image) for image in prompt_images(record, root, settings))

            sample.pending = [replace(item, images=load) for item in sample.pending]
        yield sample
