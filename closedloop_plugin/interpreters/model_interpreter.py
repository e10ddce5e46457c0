"""The slow system as a model: the fast system's words into a prompt, the reply into a Reading.

A vision-language model gets the front picture; with a describer the model is taken to see nothing and gets words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.driving_prompts import situation, top_speed
from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, fenced, harmless
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation
from closedloop_plugin.interpreters.describers import FRONT, SceneDescriber
from closedloop_plugin.interpreters.parsing.controls import UnreadableReply, read_cng, read_dcs
from closedloop_plugin.interpreters.parsing.fine_grained import mentions_speed
from closedloop_plugin.prompts.texts import PromptTexts

NOT_FOR_CONTROL = ("threat",)  # a question to choose the slow system by, no driving command


class ModelInterpreter:
    """`read`: reply -> Control, raising UnreadableReply. `choices`: what this mode's prompt needs besides."""

    local = False

    def __init__(
        self,
        mode: str,
        backend: ModelBackend,
        read: Callable[[str], Control],
        texts: PromptTexts,
        profile: Profile,
        *,
        describer: SceneDescriber | None = None,
        choices: dict[str, str] | None = None,
    ) -> None:
        self.mode, self.backend, self.texts, self.profile = mode, backend, texts, profile
        self.describer = describer
        self.name = f"{mode}:{backend.name}"
        self._read, self._choices = read, choices or {}

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret. What has no words, or no description, is not asked."""
        readings: dict[int, InterpretedControl] = {
            i: InterpretedControl(None, "", why, self.mode)
            for i, (_, d) in enumerate(items)
            if (why := _nothing_to_read(d))
        }
        waiting = [i for i in range(len(items)) if i not in readings]
        scenes = self._scenes([items[i][0] for i in waiting])
        asked: list[tuple[int, ModelQuestion, float]] = []
        for i, scene in zip(waiting, scenes, strict=True):
            if scene.error is not None:
                readings[i] = InterpretedControl(None, scene.error, "no_description", self.mode, scene.seconds)
            else:
                asked.append((i, self._question(i, *items[i], scene.text), scene.seconds))
        answers = self.backend.ask([q for _, q, _ in asked]) if asked else []
        for (i, _, before), said in zip(asked, answers, strict=True):
            readings[i] = self._reading(said, before)
        return [readings[i] for i in range(len(items))]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            **self.backend.describe(),
            "sees": "words" if self.describer else "front camera",
            **({"description": self.describer.describe()} if self.describer else {}),
            "profile": self.profile.name,
            "prompts": self.texts.source,
            "prompts_sha256": self.texts.sha256,
        }

    def prompt(self, observation: Observation, decision: Decision, description: str = "") -> str:
        """The words of one question; the fast system's stand fenced in it."""
        said = {task: text for task, text in decision.texts.items() if task not in NOT_FOR_CONTROL and text.strip()}
        note = ""
        if any(mentions_speed(text) for text in said.values()):
            note = self.texts.fill("suffix_note", top=f"{top_speed(self.profile, observation):g}")
        scene = self.texts.fill("scene_image")
        if self.describer:
            scene = self.texts.fill("scene_words", description=harmless(description))
        return self.texts.fill(
            self.mode,
            situation=situation(self.texts, observation),
            scene=scene,
            words="\n\n".join(fenced(task, text) for task, text in said.items()),
            suffix_note=note,
            **self._choices,
        )

    def _scenes(self, asks: Sequence[DecisionRequest]) -> list[ModelReply]:
        return self.describer.describe_views(asks) if self.describer else [ModelReply()] * len(asks)

    def _question(self, number: int, ask: DecisionRequest, decision: Decision, description: str) -> ModelQuestion:
        key = f"{number}|{ask.episode}|{ask.observation.tick}|{self.mode}"
        images = () if self.describer else (ask.observation.images(FRONT),)
        return ModelQuestion(key, self.prompt(ask.observation, decision, description), images)

    def _reading(self, said: ModelReply, before: float) -> InterpretedControl:
        seconds = before + said.seconds
        if said.error is not None:
            return InterpretedControl(None, said.error, f"no_reply {said.error.split(':')[0]}", self.mode, seconds)
        if said.cut:
            return InterpretedControl(None, said.text, "truncated", self.mode, seconds)
        try:
            return InterpretedControl(self._read(said.text), said.text, None, self.mode, seconds)
        except UnreadableReply as exc:
            return InterpretedControl(None, said.text, str(exc), self.mode, seconds)


def _nothing_to_read(decision: Decision) -> str | None:
    if decision.error is not None:
        return "agent_error"
    spoken = (text for task, text in decision.texts.items() if task not in NOT_FOR_CONTROL)
    return None if any(text.strip() for text in spoken) else "no_answer"


# Continuous Numerical Generation (Bench2ADVLM section 3.1): the slow system writes the three numbers itself.
def cng(
    backend: ModelBackend, texts: PromptTexts, profile: Profile, describer: SceneDescriber | None = None
) -> ModelInterpreter:
    """throttle and brake in [0, 1], steer in [-1, 1]."""
    return ModelInterpreter("cng", backend, read_cng, texts, profile, describer=describer)


# Discrete Classification Selection (Bench2ADVLM section 3.1): the slow system chooses from the profile's sets.
def dcs(
    backend: ModelBackend, texts: PromptTexts, profile: Profile, describer: SceneDescriber | None = None
) -> ModelInterpreter:
    """The sets stand in the prompt; a value outside them is no choice."""
    choices = {
        "throttle_set": _listed(profile.throttle_set),
        "steer_set": _listed(profile.steer_set),
        "brake_set": _listed(profile.brake_set),
    }
    read = partial(read_dcs, profile=profile)
    return ModelInterpreter("dcs", backend, read, texts, profile, describer=describer, choices=choices)


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
