"""Existence and side: AD2-Bench's sub-tasks existence and existence_left_right."""

from __future__ import annotations

from collections.abc import Iterator

from closedloop_plugin.learn.questions.words import THINGS, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.core.records import BilingualText

TASK = "existence"
OFF_CENTRE = 0.08  # of the picture's width: least distance of a centre from the middle to be left or right
SIGNS = {"signal": ("traffic light", "红绿灯"), "stop": ("stop sign", "停车标志")}


def existence(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Whether something of a word is in the picture; not asked if it is partly hidden, small or dark."""
    frame = asker.frame
    for word in THINGS:
        if (present := frame.presence(word)) is not None:
            question = text(f"Is there {word.a}?", f"有{word.zh}吗？")
            yield _asked(asker, word.en, question, present)
        if (actor := frame.single(word)) is not None:
            offset = actor.centre[0] / frame.size[0] - 0.5
            if abs(offset) >= OFF_CENTRE:
                side = "left" if offset < 0 else "right"
                yield asker.ask(
                    f"side-{word.en}", task=TASK, subtask="existence_left_right", form="yesno",
                    question=text(f"Is the {word.en} on the left or the right?", f"{word.zh}在左边还是右边？"),
                    answer=BilingualText(en=side), group=f"side|{word.en}", value=side,
                    truth={"actor": actor.id, "x": round(actor.centre[0], 1)},
                )  # fmt: skip
    for control, (en, zh) in SIGNS.items():
        signs = [sign for sign in frame.signs if sign.control == control]
        shown = any(sign.shown for sign in signs)
        if shown or not any(sign.appears for sign in signs):
            yield _asked(asker, en, text(f"Is there a {en}?", f"有{zh}吗？"), shown)


def _asked(asker: FrameQuestions, thing: str, question: BilingualText, present: bool) -> WorldQuestion:
    answer = "yes" if present else "no"
    return asker.ask(
        f"existence-{thing}", task=TASK, subtask="existence", form="yesno", question=question,
        answer=BilingualText(en=answer), group=thing, value=answer, truth={"thing": thing, "present": present},
    )  # fmt: skip
