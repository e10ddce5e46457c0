"""Counting, only if each thing of a word is either clearly shown or not in the picture."""

from __future__ import annotations

from collections.abc import Iterator

from closedloop_plugin.learn.questions.words import THINGS, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.core.records import BilingualText

TASK = "counting"
MOST = 6  # more are a crowd in a small picture


def counting(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    for word in THINGS:
        number = asker.frame.count(word)
        if number is not None and number <= MOST:
            yield asker.ask(
                f"count-{word.en}", task=TASK, subtask=TASK, form="count",
                question=text(f"How many {word.plural} are there?", f"有几{word.counter}{word.zh}？"),
                answer=BilingualText(en=str(number)), group=word.en, value=str(number),
                truth={"thing": word.en, "count": number},
            )  # fmt: skip
