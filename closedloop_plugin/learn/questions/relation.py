"""Spatial relations between two things: left or right of each other, and which is nearer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import ThingWord, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.records import BilingualText

TASK = "relation"
APART = 0.1  # of the picture's width: least distance between two centres that are left and right of each other
NEARER_M, NEARER = 4.0, 1.3  # the other one is at least so much, and so many times, farther away


def relation(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Only things that are each the single one of their word; a random one of the two is named first."""
    for pair in itertools.combinations(asker.singles, 2):
        names = "-".join(sorted(word.en for word, _ in pair))
        first, second = asker.draw(f"order-{names}").sample(sorted(pair, key=lambda one: one[0].en), 2)
        yield from _side(asker, names, first, second)
        yield from _nearer(asker, names, first, second)


def _side(
    asker: FrameQuestions, names: str, first: tuple[ThingWord, SeenActor], second: tuple[ThingWord, SeenActor]
) -> Iterator[WorldQuestion]:
    (one, a), (other, b) = first, second
    if a.box is None or b.box is None:
        return
    apart = a.box[2] <= b.box[0] or b.box[2] <= a.box[0]  # the boxes do not overlap horizontally
    if apart and abs(a.centre[0] - b.centre[0]) >= APART * asker.frame.size[0]:
        side = "left" if a.centre[0] < b.centre[0] else "right"
        yield asker.ask(
            f"side-{names}", task=TASK, subtask="spatial", form="yesno",
            question=text(
                f"Is the {one.en} on the left or the right of the {other.en}?", f"{one.zh}在{other.zh}的左边还是右边？"
            ),
            answer=BilingualText(en=side), group=f"side|{one.en}|{other.en}", value=side,
            truth={"actors": [a.id, b.id], "x": [round(a.centre[0], 1), round(b.centre[0], 1)]},
        )  # fmt: skip


def _nearer(
    asker: FrameQuestions, names: str, first: tuple[ThingWord, SeenActor], second: tuple[ThingWord, SeenActor]
) -> Iterator[WorldQuestion]:
    (one, a), (other, b) = first, second
    near, far = sorted((a.gap, b.gap))
    if far >= max(near + NEARER_M, near * NEARER):
        answer = "yes" if a.gap < b.gap else "no"
        yield asker.ask(
            f"nearer-{names}", task=TASK, subtask="distance", form="yesno",
            question=text(f"Is the {one.en} nearer than the {other.en}?", f"{one.zh}比{other.zh}更近吗？"),
            answer=BilingualText(en=answer), group=f"nearer|{one.en}|{other.en}", value=answer,
            truth={"actors": [a.id, b.id], "metres": [round(a.gap, 1), round(b.gap, 1)]},
        )  # fmt: skip
