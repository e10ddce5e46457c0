"""Interpreters by their command-line specification (`--interpreter`, `--mode`), and HybridInterpreter.

    rules
    endpoint:MODEL@http://host:port/v1[,...] | lmms:NAME[,...]      with --mode cng or dcs

With `--describer none | offline | endpoint:... | lmms:...` the slow system gets a description, or nothing, instead of
the image.

Hybrid mode switching (Bench2ADVLM section 5): the fast system's answer to the threat question selects the slow system.
The paper's text takes LLaVA (behaviour quality) "for risky cases and LLaMA otherwise", but its "(i.e., yes/no for
LLaMA/LLaVA)" states the reverse. Implemented as in the sentence: yes -> second, no -> first. An answer that is neither
is treated as "otherwise" and marked in the mode of its InterpretedControl, so that records count such ticks.

The readers of replies are imported by the first that needs one: their patterns take most of a second to compile, which
a run of the expert need not spend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.image_encoding import common_encodings
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.driver.agent import DecisionRequest, is_concurrent
from closedloop_plugin.driver.agents.make import make_backend
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.describers import (
    ModelDescriber,
    NoDescriber,
    OfflineDescriber,
    SceneDescriber,
)
from closedloop_plugin.driver.prompts.texts import PromptTexts, texts_of
from lmms_eval_ad2.core.errors import Ad2Error

MODES = ("cng", "dcs", "rules", "hybrid")
TASK = "threat"  # of the agent, required for hybrid mode


def make_interpreter(
    spec: str,
    mode: str,
    profile: Profile,
    *,
    describer: str | None = None,
    prompts: PromptTexts | Path | str | None = None,
    cache: Path | None = None,
    seed: int = 0,
    official: bool = False,
    situation: str | None = None,
    make_model: Callable[..., ModelBackend] | None = None,
) -> Interpreter:
    """The interpreter for `spec` and `mode`. Raises Ad2Error, in one line. For mode "hybrid" see make_hybrid.

    `official`, `situation`: see ModelInterpreter. `make_model`: of its models; None: make_backend.
    """
    spec = spec.strip()
    if mode not in MODES:
        raise Ad2Error(f"no mode '{mode}'; known: {', '.join(MODES)}")
    if mode == "hybrid":
        raise Ad2Error("mode hybrid takes two interpreters: --interpreter A --interpreter2 B")
    if spec == "rules":
        from closedloop_plugin.driver.interpreters.rules import RuleInterpreter

        return RuleInterpreter(profile)
    if mode == "rules":
        raise Ad2Error(f"mode rules uses no model, so '{spec}' is not allowed; use --mode cng or dcs with it")
    if not spec.startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no interpreter '{spec}'; known: rules, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")
    from closedloop_plugin.driver.interpreters.model_interpreter import cng, dcs

    texts = texts_of(prompts)
    build = cng if mode == "cng" else dcs
    model_of = make_model or make_backend
    seen = _describer(describer, texts, lambda spec: model_of(spec, cache=cache, seed=seed))
    return build(model_of(spec, cache=cache, seed=seed), texts, profile, seen, official=official, situation=situation)


def make_hybrid(first: Interpreter, second: Interpreter) -> HybridInterpreter:
    """Uses `second` if the fast system sees a threat, else `first`. The agent needs the task "threat"."""
    return HybridInterpreter(first, second)


def tasks_for(interpreter: Interpreter, tasks: Sequence[str]) -> tuple[str, ...]:
    """`tasks` and those that this interpreter needs from the fast system."""
    needed = (TASK,) if interpreter.mode == "hybrid" else ()
    return tuple(dict.fromkeys((*tasks, *needed)))


def _describer(
    spec: str | None, texts: PromptTexts, make_model: Callable[[str], ModelBackend]
) -> SceneDescriber | None:
    if spec is None:
        return None
    if spec.strip() == "offline":
        return OfflineDescriber()
    if spec.strip() == "none":
        return NoDescriber()
    if not spec.strip().startswith(("endpoint:", "lmms:")):
        raise Ad2Error(
            f"no describer '{spec}'; known: none, offline, endpoint:MODEL@http://host:port/v1, lmms:NAME,..."
        )
    return ModelDescriber(make_model(spec), texts)


class HybridInterpreter:
    """Uses `second` if the fast system sees a threat, else `first`."""

    mode = "hybrid"

    def __init__(self, first: Interpreter, second: Interpreter) -> None:
        self.first, self.second = first, second
        self.local = first.local and second.local
        self.concurrent = is_concurrent(first) and is_concurrent(second)
        self.encodings = common_encodings((first, second))
        self.name = f"hybrid:{first.name}|{second.name}"

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret. Each of the two is called at most once, with its items."""
        threats = [threat(decision) for _, decision in items]
        controls: dict[int, InterpretedControl] = {}
        for system, chosen in ((self.first, False), (self.second, True)):
            own = [i for i, seen in enumerate(threats) if (seen is True) == chosen]
            for i, control in zip(own, system.interpret([items[i] for i in own]) if own else [], strict=True):
                controls[i] = _named(control, system.name, threats[i])
        return [controls[i] for i in range(len(items))]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            "no_threat": self.first.describe(),
            "threat": self.second.describe(),
        }


def threat(decision: Decision) -> bool | None:
    """The fast system's answer to the threat question; None if it cannot be parsed."""
    from lmms_eval_ad2.parsing import parse

    answer = getattr(parse(decision.texts.get(TASK, ""), "yesno"), "value", None)
    return {"yes": True, "no": False}.get(str(answer))


def _named(control: InterpretedControl, name: str, seen: bool | None) -> InterpretedControl:
    mode = name if seen is not None else f"{name} (threat unread)"
    return replace(control, mode=mode)
