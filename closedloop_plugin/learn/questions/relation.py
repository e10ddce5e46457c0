"""Spatial relations between two things: left or right of each other, and which is nearer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import GROUPS, ThingWord, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.core.records import BilingualText

TASK = "relation"
APART = 0.1  # of the picture's width: least distance between two centres that are left and right of each other
NEARER_M, NEARER = 4.0, 1.3  # the other one is at least so much, and so many times, farther away


@dataclass(frozen=True)
class NamedActor:
    """An actor, and words that mean no other one in the picture: "van", or "nearest vehicle" among several."""

    en: str
    zh: str
    word: ThingWord
    actor: SeenActor


def relation(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Between two things that have a name of their own; a random one of the two is named first."""
    for pair in itertools.combinations(_named(asker), 2):
        by_name = sorted(pair, key=lambda one: one.en)
        names = "-".join(one.en for one in by_name)
        first, second = asker.draw(f"order-{names}").sample(by_name, 2)
        yield from _side(asker, names, first, second)
        yield from _nearer(asker, names, first, second)


def _named(asker: FrameQuestions) -> list[NamedActor]:
    found = [NamedActor(word.en, word.zh, word, actor) for word, actor in asker.singles]
    known = {one.actor.id for one in found}
    for word in GROUPS:
        actor = asker.frame.nearest(word)
        if actor is not None and actor.id not in known:
            found.append(NamedActor(f"nearest {word.en}", f"最近的{word.zh}", word, actor))
    return found


def _side(asker: FrameQuestions, names: str, one: NamedActor, other: NamedActor) -> Iterator[WorldQuestion]:
    a, b = one.actor, other.actor
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


def _nearer(asker: FrameQuestions, names: str, one: NamedActor, other: NamedActor) -> Iterator[WorldQuestion]:
    if one.word.kinds & other.word.kinds:
        return  # the nearest vehicle is nearer than any car: known without the picture
    a, b = one.actor, other.actor
    near, far = sorted((a.gap, b.gap))
    if far >= max(near + NEARER_M, near * NEARER):
        answer = "yes" if a.gap < b.gap else "no"
        yield asker.ask(
            f"nearer-{names}", task=TASK, subtask="distance", form="yesno",
            question=text(f"Is the {one.en} nearer than the {other.en}?", f"{one.zh}比{other.zh}更近吗？"),
            answer=BilingualText(en=answer), group=f"nearer|{one.en}|{other.en}", value=answer,
            truth={"actors": [a.id, b.id], "metres": [round(a.gap, 1), round(b.gap, 1)]},
        )  # fmt: skip
