"""Questions about the things in a picture: existence, side, number, place, and relations between two of them.

Each is asked only if the picture shows its answer clearly (see seen_frame.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from closedloop_plugin.learn.questions.kinds import FrameQuestions, WorldQuestion
from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import GROUPS, THINGS, ThingWord
from lmms_eval_ad2.core.records import BilingualText

OFF_CENTRE = 0.08  # of the picture's width: least distance of a centre from the middle to be left or right
SIGNS = {"signal": ("traffic light", "红绿灯"), "stop": ("stop sign", "停车标志")}
MOST = 6  # more are a crowd in a small picture
LEAST_SIDE = 3.0  # pixels of a box: one pixel of a smaller one is too large a part of its overlap
APART = 0.1  # of the picture's width: least distance between two centres that are left and right of each other
NEARER_M, NEARER = 4.0, 1.3  # the other one is at least so much, and so many times, farther away

NamedActor = tuple[str, str, ThingWord, SeenActor]  # en and zh mean no other one in the picture: "nearest vehicle"


def existence(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Whether something of a word is in the picture; not asked if it is partly hidden, small or dark."""
    frame = asker.frame
    for word in THINGS:
        if (present := frame.presence(word)) is not None:
            yield _exists(asker, word.forms, present)
        if (actor := frame.single(word)) is not None:
            offset = actor.centre[0] / frame.size[0] - 0.5
            if abs(offset) >= OFF_CENTRE:
                side = "left" if offset < 0 else "right"
                truth = {"actor": actor.id, "x": round(actor.centre[0], 1)}
                yield asker.ask("side", word.forms, BilingualText(en=side), side, truth)
    for control, (en, zh) in SIGNS.items():
        signs = [sign for sign in frame.signs if sign.control == control]
        shown = any(sign.shown for sign in signs)
        if shown or not any(sign.appears for sign in signs):
            yield _exists(asker, {"en": en, "a": f"a {en}", "zh": zh}, shown)


def _exists(asker: FrameQuestions, words: dict[str, str], present: bool) -> WorldQuestion:
    answer = "yes" if present else "no"
    truth = {"thing": words["en"], "present": present}
    return asker.ask("existence", words, BilingualText(en=answer), answer, truth)


def counting(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    for word in THINGS:
        number = asker.frame.count(word)
        if number is not None and number <= MOST:
            truth = {"thing": word.en, "count": number}
            yield asker.ask("count", word.forms, BilingualText(en=str(number)), str(number), truth)


def location(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The centre of a box, in pixels."""
    for word, actor in asker.singles:
        x, y = actor.centre
        yield asker.ask("location", word.forms, BilingualText(en=f"<{x:g},{y:g}>"), "", {"actor": actor.id})


def detection(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The box around the visible part, in pixels, of the only, or the clearly nearest, thing of a word."""
    nearest = ((word, asker.frame.nearest(word)) for word in GROUPS)
    found = [("detection", word, actor) for word, actor in asker.singles]
    found += [("nearest", word, actor) for word, actor in nearest if actor is not None]
    for kind, word, actor in found:
        if actor.box is None:
            continue
        x_min, y_min, x_max, y_max = actor.box
        if min(x_max - x_min, y_max - y_min) >= LEAST_SIDE:
            answer = BilingualText(en=f"[{', '.join(f'{v:g}' for v in actor.box)}]")
            truth = {"actor": actor.id, "pixels": actor.pixels, "visible": actor.share}
            yield asker.ask(kind, word.forms, answer, "", truth)


def relation(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Left or right of each other, and which is nearer, of two things that have a name of their own; a random one of
    the two is named first."""
    for pair in itertools.combinations(_named(asker), 2):
        by_name = sorted(pair, key=lambda one: one[0])
        names = "-".join(one[0] for one in by_name)
        (en, zh, word, a), (other_en, other_zh, other_word, b) = asker.draw(f"order-{names}").sample(by_name, 2)
        words = {"names": names, "en": en, "zh": zh, "other_en": other_en, "other_zh": other_zh}
        yield from _beside(asker, words, a, b)
        if not word.kinds & other_word.kinds:  # the nearest vehicle is nearer than any car: known without the picture
            yield from _nearer(asker, words, a, b)


def _named(asker: FrameQuestions) -> list[NamedActor]:
    found = [(word.en, word.zh, word, actor) for word, actor in asker.singles]
    known = {actor.id for *_, actor in found}
    for word in GROUPS:
        actor = asker.frame.nearest(word)
        if actor is not None and actor.id not in known:
            found.append((f"nearest {word.en}", f"最近的{word.zh}", word, actor))
    return found


def _beside(asker: FrameQuestions, words: dict[str, str], a: SeenActor, b: SeenActor) -> Iterator[WorldQuestion]:
    if a.box is None or b.box is None:
        return
    apart = a.box[2] <= b.box[0] or b.box[2] <= a.box[0]  # the boxes do not overlap horizontally
    if apart and abs(a.centre[0] - b.centre[0]) >= APART * asker.frame.size[0]:
        side = "left" if a.centre[0] < b.centre[0] else "right"
        truth = {"actors": [a.id, b.id], "x": [round(a.centre[0], 1), round(b.centre[0], 1)]}
        yield asker.ask("beside", words, BilingualText(en=side), side, truth)


def _nearer(asker: FrameQuestions, words: dict[str, str], a: SeenActor, b: SeenActor) -> Iterator[WorldQuestion]:
    near, far = sorted((a.gap, b.gap))
    if far >= max(near + NEARER_M, near * NEARER):
        answer = "yes" if a.gap < b.gap else "no"
        truth = {"actors": [a.id, b.id], "metres": [round(a.gap, 1), round(b.gap, 1)]}
        yield asker.ask("nearer", words, BilingualText(en=answer), answer, truth)
