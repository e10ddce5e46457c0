"""Behaviour of the ego vehicle, "The ego vehicle is going straight. The ego vehicle is driving slowly."."""

from __future__ import annotations

from collections.abc import Iterator

from lmms_eval_ad2.data.drivelm_text import read_behavior
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase

STEERING = ("steering to the left", "slightly steering to the left", "going straight",
            "slightly steering to the right", "steering to the right")  # fmt: skip
SPEEDS = ("not moving", "driving slowly", "driving with normal speed", "driving fast", "driving very fast")


def behavior(case: RuleCase) -> Iterator[Distractor]:
    """Other pairs of steering and speed, in the wording of the annotation."""
    read = read_behavior(case.answer)
    if not read:
        return
    steering, speed = read
    steered = STEERING.index(steering)
    driven = SPEEDS.index(speed)
    # Adjacent classes are hard to separate; classes two steps apart are certainly wrong.
    other_steering = [s for i, s in enumerate(STEERING) if abs(i - steered) > 1]
    other_speed = [s for i, s in enumerate(SPEEDS) if abs(i - driven) > 1]

    def option(a: str, b: str) -> str:
        return f"The ego vehicle is {a}. The ego vehicle is {b}."

    moving = [s for s in other_speed if s != "not moving"] or other_speed
    for a in other_steering:
        yield Distractor(option(a, speed), SENSOR, f"The course of the road is misread; annotated: {steering}.")
        yield Distractor(option(a, speed), DOMAIN, f"The lane is taken for a turning lane; annotated: {steering}.")
    for a in other_steering:
        for b in moving:
            yield Distractor(option(a, b), READING, "Another vehicle's behaviour is given.")
            yield Distractor(option(a, b), LOGIC, "The behaviour is inferred from the signals, against the annotation.")
    for b in other_speed:
        yield Distractor(option(steering, b), OVERSIGHT, f"The speed is computed wrongly; annotated: {speed}.")
        yield Distractor(option(steering, b), LOGIC, f"The speed is inferred from the traffic; annotated: {speed}.")
        yield Distractor(option(steering, b), DOMAIN, f"The speed is inferred from the limit; annotated: {speed}.")
