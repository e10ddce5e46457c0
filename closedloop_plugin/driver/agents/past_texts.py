"""Text of a model's earlier decisions for its next prompt."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from closedloop_plugin.core.state import Control, Decision
from closedloop_plugin.driver.agent import PastDecision
from closedloop_plugin.driver.agents.model_backend import harmless
from closedloop_plugin.driver.prompts.texts import PromptTexts

WORDS = 200  # characters of an answer that its next prompt repeats


def past_line(texts: PromptTexts, past: PastDecision, task: str, now_s: float) -> str:
    """One decision: seconds before `now_s`, speed, the answer to `task` and the control that followed."""
    return texts.fill(
        "past",
        ago=f"{round(now_s - past.observation.time_s, 3):g}",
        speed=f"{past.observation.speed:.1f}",
        words=_words(past.decision, task),
        controls=_controls(past.control),
    )


def times_of(moments: Sequence[float]) -> str:
    """Times in s, the last of them the present, in words: "0.1 s apart", or each time before the present."""
    steps = {round(later - earlier, 3) for earlier, later in itertools.pairwise(moments)}
    if len(steps) == 1:
        return f"{steps.pop():g} s apart"
    before = ", ".join(f"{round(moments[-1] - moment, 3):g}" for moment in moments[:-1])
    return f"{before} and 0 s before now"


def _words(decision: Decision, task: str) -> str:
    if decision.error is not None:
        return "no answer"
    text = " ".join(harmless(decision.texts.get(task, "")).split())
    return f'"{text}"' if len(text) <= WORDS else f'"{text[:WORDS]} ..."'


def _controls(control: Control | None) -> str:
    if control is None:
        return "controls not known"
    return f"throttle {control.throttle:.2f}, steer {control.steer:.2f}, brake {control.brake:.2f}"
