"""Safe and dangerous actions, and actions that lead to a collision: only those ruled out by the frame's records."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.data.drivelm_text import read_tags
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.actions import mentions, named, say
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form
from lmms_eval_ad2.mcq.rules.facts import bare

_TAIL = re.compile(r" are (?:dangerous|safe) actions\b.*\Z", re.IGNORECASE | re.DOTALL)
_NO_ACTION = re.compile(r"\bno (?:such )?action", re.IGNORECASE)
_CAN_LEAD = re.compile(r" (?:actions? )?can lead to a collision with .*\Z", re.IGNORECASE | re.DOTALL)
_WILL_LEAD = re.compile(r" will lead to a collision.*\Z", re.IGNORECASE | re.DOTALL)
# Always dangerous, never dangerous: used if the frame has no annotated action of the other kind.
_RECKLESS, _CAREFUL = ["oncoming", "pavement", "back"], ["slow", "keep", "stationary"]


def safe_actions(case: RuleCase) -> Iterator[Distractor]:
    """Lists with a dangerous action."""
    yield from _lists(case, [*named(case.facts.dangerous), *_RECKLESS], "is dangerous here")


def dangerous_actions(case: RuleCase) -> Iterator[Distractor]:
    """Lists with an action annotated as safe."""
    yield from _lists(case, named(case.facts.safe) or _CAREFUL, "is not dangerous here")


def _lists(case: RuleCase, against: list[str], why: str) -> Iterator[Distractor]:
    annotated = mentions(case.answer)
    right = list(dict.fromkeys(m.key for m in annotated))
    wrong = [key for key in dict.fromkeys(against) if key not in right]
    if not right or not wrong:
        return
    gerund, tail = annotated[0].gerund, _TAIL.search(case.answer)

    def option(*keys: str) -> str:
        text = say(dict.fromkeys(keys), gerund)
        if " and " in case.answer:
            text = (", and " if " and " in text else " and ").join(text.rsplit(", ", 1))
        if tail:
            alone = re.sub(r" are (dangerous|safe) actions", r" is a \1 action", tail[0], flags=re.IGNORECASE)
            text += alone if len(set(keys)) == 1 else tail[0]
        return in_form(text, case.answer)

    shifted = [*wrong[1:], *wrong[:1]]
    for a, b in zip(wrong, shifted, strict=True):
        reason = f"{say([a])} {why}".capitalize() + "."
        yield Distractor(option(a, b), READING, f"The question is read as its opposite. {reason}")
        yield Distractor(option(a), DOMAIN, f"The rules of the road are misjudged. {reason}")
    for number, a in enumerate(wrong):
        good = right[number % len(right)]
        reason = f"{say([a])} {why}".capitalize() + "."
        yield Distractor(option(good, a), LOGIC, f"From one action that fits it is concluded that both do. {reason}")
        yield Distractor(option(a, right[-1]), SENSOR, f"The room around the ego vehicle is misjudged. {reason}")
        yield Distractor(option(a, *right[:1]), OVERSIGHT, f"Distance and speed are computed wrongly. {reason}")


_ASKED_AFTER = re.compile(
    r"What is the probability of colliding with (<[^<>]{3,80}>) after the ego vehicle ([a-z ]{4,60})\?", re.IGNORECASE
)
_STEPS = {
    "steps on the brakes": "brake_stop", "goes straight and keeps the same speed": "keep",
    "accelerates and goes straight": "accelerate", "turns left at a constant speed": "turn_left",
    "turns right at a constant speed": "turn_right", "turns left": "turn_left", "turns right": "turn_right",
}  # fmt: skip
_AWAY = {  # camera -> actions that lead away from an object seen by it
    "CAM_FRONT": ["back", "stationary", "brake_stop"],
    "CAM_FRONT_LEFT": ["turn_right", "back", "lane_right", "stationary"],
    "CAM_FRONT_RIGHT": ["turn_left", "back", "lane_left", "stationary"],
    "CAM_BACK": ["accelerate", "keep", "straight", "slow"],
    "CAM_BACK_LEFT": ["turn_right", "lane_right", "keep"],
    "CAM_BACK_RIGHT": ["turn_left", "lane_left", "keep"],
}
_SIMILAR = {  # actions that do not contradict each other
    "accelerate": {"keep", "straight"}, "keep": {"accelerate", "straight"}, "turn_left": {"lane_left", "offset_left"},
    "turn_right": {"lane_right", "offset_right"}, "lane_left": {"turn_left"}, "lane_right": {"turn_right"},
}  # fmt: skip
_ALL = ["accelerate", "turn_left", "turn_right", "back", "keep", "lane_left", "lane_right"]
_COLLISION = (  # (category, actions by preference, reason)
    (SENSOR, ("turn_left", "turn_right", "lane_left", "lane_right"), "The side on which the object is, is misread."),
    (DOMAIN, ("stationary", "brake_stop", "slow", "keep"), "A cautious action is taken for a dangerous one."),
    (LOGIC, ("back", "accelerate", "straight", "lane_left"), "The motion leads away from the object, not to it."),
    (OVERSIGHT, ("keep", "brake_stop", "accelerate", "turn_left"), "The time to meet is computed wrongly."),
    (READING, ("slow", "brake_hard", "back", "turn_right"), "What avoids a collision is given for what leads to one."),
)


def collision(case: RuleCase) -> Iterator[Distractor]:
    """Actions that lead away from the object, or that are annotated as safe."""
    none = bool(_NO_ACTION.search(case.answer))
    wrong = list(_ALL) if none else _ruled_out(case)
    if wrong and not none:
        yield Distractor("No such action will lead to a collision.", LOGIC, f"Annotated is: {case.answer}")
        why = f"Some actions are safe, such as: {say(wrong[:1])}."
        yield Distractor("Every action will lead to a collision.", LOGIC, why)
    found = (_WILL_LEAD if none else _CAN_LEAD).search(case.answer)
    tail = re.sub(r" actions?", "", found[0]) if found else ""
    for category, preferred, why in _COLLISION:
        for key in (*(k for k in preferred if k in wrong), *(k for k in wrong if k not in preferred)):
            text = say([key], gerund=bool(tail)) + tail
            yield Distractor(in_form(text, case.answer), category, why)


def _ruled_out(case: RuleCase) -> list[str]:
    """The actions that do not lead to the object in question, by its camera and by the frame's other records."""
    tag = next(iter(read_tags(case.question.text)), None)
    if not tag:
        return []
    hit, low = _leading(case.answer), _low_probability(case)
    near = hit | {key for action in hit for key in _SIMILAR.get(action, ())}
    away = [key for key in (*named(case.facts.safe), *_AWAY.get(tag.camera, [])) if key not in near]
    return list(dict.fromkeys([*(key for key in low if key not in hit), *away]))


def _low_probability(case: RuleCase) -> list[str]:
    """Actions annotated with a low probability of a collision with the object in question."""
    asked = re.search(r"<[^<>]{3,80}>", case.question.text)
    found = []
    for record in case.question.scene:
        step = _ASKED_AFTER.match(record.question.get("en"))
        if step and asked and step[1] == asked[0] and bare(record.answer.get("en")) == "low":
            found.append(_STEPS.get(step[2].lower(), ""))
    return [key for key in found if key]


def _leading(answer: str) -> set[str]:
    """The annotated actions; "towards the right" includes all actions to the right."""
    low = answer.lower()
    hit = set(named(answer))
    for side in ("left", "right"):
        if re.search(rf"\b{side}\b", low):
            hit |= {f"turn_{side}", f"lane_{side}", f"offset_{side}"}
    if re.search(r"\b(?:forward|front|straight|ahead|accelerat\w{1,4})\b", low):
        hit |= {"accelerate", "straight"}
    return hit
