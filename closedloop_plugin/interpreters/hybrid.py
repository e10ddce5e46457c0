"""Hybrid mode switching (Bench2ADVLM section 5): the fast system's word on a threat ahead chooses the slow system.

The paper's text takes LLaVA (behaviour quality) "for risky cases and LLaMA otherwise"; its "(i.e., yes/no for
LLaMA/LLaVA)" says the reverse. Built as the sentence has it: yes -> second, no -> first. An answer that is neither is
"otherwise" too, and the mode of its Reading says that it was, so that a record counts such ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from closedloop_plugin.agents.base import Ask
from closedloop_plugin.core.state import Decision, Reading
from closedloop_plugin.interpreters.base import Interpreter
from lmms_eval_ad2.parsing import parse

TASK = "threat"  # the agent must have been given it


class Hybrid:
    """`first` where there is no threat, `second` where there is one."""

    mode = "hybrid"

    def __init__(self, first: Interpreter, second: Interpreter) -> None:
        self.first, self.second = first, second
        self.local = first.local and second.local
        self.name = f"hybrid:{first.name}|{second.name}"

    def interpret(self, items: Sequence[tuple[Ask, Decision]]) -> list[Reading]:
        """See Interpreter.interpret: each of the two is asked once, for its own items."""
        threats = [threat(decision) for _, decision in items]
        readings: dict[int, Reading] = {}
        for system, chosen in ((self.first, False), (self.second, True)):
            mine = [i for i, seen in enumerate(threats) if (seen is True) == chosen]
            for i, reading in zip(mine, system.interpret([items[i] for i in mine]) if mine else [], strict=True):
                readings[i] = _named(reading, system.name, threats[i])
        return [readings[i] for i in range(len(items))]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            "no_threat": self.first.describe(),
            "threat": self.second.describe(),
        }


def threat(decision: Decision) -> bool | None:
    """The fast system's answer to the threat question; None where it gave none that can be read."""
    answer = getattr(parse(decision.texts.get(TASK, ""), "yesno"), "value", None)
    return {"yes": True, "no": False}.get(str(answer))


def _named(reading: Reading, name: str, seen: bool | None) -> Reading:
    mode = name if seen is not None else f"{name} (threat unread)"
    return Reading(reading.control, reading.raw, reading.reason, mode, reading.latency_s)
