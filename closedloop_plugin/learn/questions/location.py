"""Location (a point) and detection (a box) of the only, or the clearly nearest, thing of a word."""

from __future__ import annotations

from collections.abc import Iterator

from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import GROUPS, ThingWord, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.core.records import BilingualText

LEAST_SIDE = 3.0  # pixels of a box: one pixel of a smaller one is too large a part of its overlap


def location(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The centre of a box, in pixels."""
    for word, actor in asker.singles:
        x, y = actor.centre
        yield asker.ask(
            f"location-{word.en}", task="location", subtask="location", form="point",
            question=text(f"Where is the {word.en}?", f"{word.zh}在哪里？"),
            answer=BilingualText(en=f"<{x:g},{y:g}>"), group="all", value="", truth={"actor": actor.id},
        )  # fmt: skip


def detection(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The box around the visible part, in pixels."""
    for word, actor in asker.singles:
        question = text(f"Where is the {word.en}?", f"{word.zh}在哪里？")
        yield from _boxed(asker, "detection", word, actor, question)
    for word in GROUPS:
        if (first := asker.frame.nearest(word)) is not None:
            question = text(f"Where is the nearest {word.en}?", f"最近的{word.zh}在哪里？")
            yield from _boxed(asker, "reference_detection", word, first, question)


def _boxed(
    asker: FrameQuestions, subtask: str, word: ThingWord, actor: SeenActor, question: BilingualText
) -> Iterator[WorldQuestion]:
    if actor.box is None:
        return
    x_min, y_min, x_max, y_max = actor.box
    if min(x_max - x_min, y_max - y_min) >= LEAST_SIDE:
        yield asker.ask(
            f"{subtask}-{word.en}", task="detection", subtask=subtask, form="box", question=question,
            answer=BilingualText(en=f"[{', '.join(f'{v:g}' for v in actor.box)}]"), group=subtask, value="",
            truth={"actor": actor.id, "pixels": actor.pixels, "visible": actor.share},
        )  # fmt: skip
