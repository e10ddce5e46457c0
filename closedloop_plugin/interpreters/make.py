"""From `--interpreter` and `--mode` to an Interpreter.

    rules
    endpoint:MODEL@http://host:port/v1[,...] | lmms:NAME[,...]      with --mode cng or dcs

`--describer offline | endpoint:... | lmms:...` makes the slow system one that reads a description instead of seeing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.make import make_backend
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.interpreters.describers import ModelDescriber, OfflineDescriber, SceneDescriber
from closedloop_plugin.interpreters.model_interpreter import cng, dcs
from closedloop_plugin.interpreters.rules import RuleInterpreter
from closedloop_plugin.prompts.texts import PromptTexts, texts_of
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.parsing import parse

MODES = ("cng", "dcs", "rules", "hybrid")


def make_interpreter(
    spec: str,
    mode: str,
    profile: Profile,
    *,
    describer: str | None = None,
    prompts: PromptTexts | File | str | None = None,
    cache: File | None = None,
    seed: int = 0,
) -> Interpreter:
    """One slow system; Ad2Error says in one line what is wrong. For mode "hybrid" see make_hybrid."""
    spec = spec.strip()
    if mode not in MODES:
        raise Ad2Error(f"no mode '{mode}'; known: {', '.join(MODES)}")
    if mode == "hybrid":
        raise Ad2Error("mode hybrid takes two interpreters: --interpreter A --interpreter2 B")
    if spec == "rules":
        return RuleInterpreter(profile)
    if mode == "rules":
        raise Ad2Error(f"mode rules has no model, so '{spec}' has no part in it; take --mode cng or dcs for it")
    if not spec.startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no interpreter '{spec}'; known: rules, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")
    texts = texts_of(prompts)
    build = cng if mode == "cng" else dcs
    seen = _describer(describer, texts, cache, seed)
    return build(make_backend(spec, cache=cache, seed=seed), texts, profile, seen)


def make_hybrid(first: Interpreter, second: Interpreter) -> HybridInterpreter:
    """`second` speaks where the fast system sees a threat; that one must be asked the task "threat"."""
    return HybridInterpreter(first, second)


def tasks_for(interpreter: Interpreter, tasks: Sequence[str]) -> tuple[str, ...]:
    """`tasks` with what this interpreter needs to be asked of the fast system."""
    needed = (TASK,) if interpreter.mode == "hybrid" else ()
    return tuple(dict.fromkeys((*tasks, *needed)))


def _describer(spec: str | None, texts: PromptTexts, cache: File | None, seed: int) -> SceneDescriber | None:
    if spec is None:
        return None
    if spec.strip() == "offline":
        return OfflineDescriber()
    if not spec.strip().startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no describer '{spec}'; known: offline, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")
    return ModelDescriber(make_backend(spec, cache=cache, seed=seed), texts)


# Hybrid mode switching (Bench2ADVLM section 5): the fast system's word on a threat ahead chooses the slow system.
#
# The paper's text takes LLaVA (behaviour quality) "for risky cases and LLaMA otherwise"; its "(i.e., yes/no for
# LLaMA/LLaVA)" says the reverse. Built as the sentence has it: yes -> second, no -> first. An answer that is neither is
# "otherwise" too, and the mode of its Reading says that it was, so that a record counts such ticks.
TASK = "threat"  # the agent must have been given it


class HybridInterpreter:
    """`first` where there is no threat, `second` where there is one."""

    mode = "hybrid"

    def __init__(self, first: Interpreter, second: Interpreter) -> None:
        self.first, self.second = first, second
        self.local = first.local and second.local
        self.name = f"hybrid:{first.name}|{second.name}"

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret: each of the two is asked once, for its own items."""
        threats = [threat(decision) for _, decision in items]
        readings: dict[int, InterpretedControl] = {}
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


def _named(reading: InterpretedControl, name: str, seen: bool | None) -> InterpretedControl:
    mode = name if seen is not None else f"{name} (threat unread)"
    return InterpretedControl(reading.control, reading.raw, reading.reason, mode, reading.latency_s)
