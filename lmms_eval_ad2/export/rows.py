"""One question -> rows of ms-swift's training format: what the model is asked in evaluation, and the right answer.

    {"id": "ad2_mcq_planning:drivelm:...", "messages": [{"role": "user", "content": "<image>..."},
     {"role": "assistant", "content": "B"}], "images": ["/data/..."]}

One `<image>` an image, before the text, as `--model ad2_swift` asks. A task that asks in rounds gives a row a round,
with the reference answers as those to the rounds before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lmms_eval_ad2.export.source import Task
from lmms_eval_ad2.prompts import asked
from lmms_eval_ad2.prompts.media_tags import without_tags
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.variant import Variant
from lmms_eval_ad2.scoring.written import chain, reference, written

Turn = tuple[str, str]  # what is asked, what is right


def training_turns(record: Record, variant: Variant, prompts: PromptSet) -> list[Turn]:
    """The question's turns, each asked on its own; empty where the record has no readable reference."""
    form, lang = variant.asked_form(record.form), variant.lang
    if form != "chain":
        value = reference(record, form, lang)
        if value is None:
            return []
        answer = written(value, form, lang, variant.frame, record.image_size)
        return [(asked.words(record, variant, prompts), answer)]
    steps = [reference(record, form, lang, step) for step in range(len(record.steps))]
    said = [str(step) for step in steps if step is not None]
    if not said or len(said) < len(steps):
        return []
    if not variant.rounds:
        return [(asked.words(record, variant, prompts), chain(said))]
    return [(asked.round_words(record, variant, i, said[:i], prompts), said[i]) for i in range(len(said))]


def training_rows(record: Record, task: Task, asked_and_right: list[Turn], images: list[str]) -> Iterator[dict[str, Any]]:
    for number, (question, answer) in enumerate(asked_and_right):
        rounds = f"#{number + 1}" if len(asked_and_right) > 1 else ""
        yield {
            "id": f"{task.name}:{record.id}{rounds}",
            "messages": [
                {"role": "user", "content": "<image>" * len(images) + without_tags(question)},
                {"role": "assistant", "content": without_tags(answer)},
            ],
            "images": images,
        }
