"""The fast system under test: any model that answers in words, asked for all waiting episodes and tasks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.driving_prompts import DrivingPrompts, chosen_suffix
from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, fenced
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Decision


class ModelAgent:
    """One model call a task and decision. `fine_grained`: "off", "prompt" (the action question offers the suffixes) or
    "question" (a second question, which has the command in it, and whose answer is put behind the command)."""

    privileged = False
    local = False

    def __init__(
        self,
        backend: ModelBackend,
        prompter: DrivingPrompts,
        cameras: tuple[Camera, ...],
        tasks: tuple[str, ...] = ("action",),
        fine_grained: str = "off",
    ) -> None:
        self.backend, self.prompter, self.cameras, self.tasks = backend, prompter, cameras, tasks
        self.fine_grained = fine_grained
        self.name = backend.name

    def start(self, episode: str, seed: int) -> None:
        """Nothing to keep: every decision stands alone, as in the published loop."""

    def end(self, episode: str) -> None:
        """See start."""

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        decisions = self.decisions(asks, self.backend.ask(self.questions(asks)))
        return self._with_suffixes(asks, decisions) if self.fine_grained == "question" else decisions

    def questions(self, asks: Sequence[DecisionRequest]) -> list[ModelQuestion]:
        """Every ask's questions in the order of `tasks`, ask by ask."""
        made = []
        for number, ask in enumerate(asks):
            observation = ask.observation
            images = tuple(observation.images(camera.name) for camera in self.cameras)
            for task in self.tasks:
                key = f"{number}|{ask.episode}|{observation.tick}|{task}"
                made.append(ModelQuestion(key, self.prompter.question(task, observation), images))
        return made

    def decisions(self, asks: Sequence[DecisionRequest], said: Sequence[ModelReply]) -> list[Decision]:
        """The answers to `questions(asks)` as decisions; one failed task fails the decision."""
        each = len(self.tasks)
        return [self._decision(said[i * each : (i + 1) * each]) for i in range(len(asks))]

    def _decision(self, said: Sequence[ModelReply]) -> Decision:
        failed = [f"{task}: {s.error}" for task, s in zip(self.tasks, said, strict=True) if s.error is not None]
        texts = {task: s.text for task, s in zip(self.tasks, said, strict=True) if s.error is None}
        seconds = max((s.seconds for s in said), default=0.0)
        return Decision(texts, latency_s=seconds, error="; ".join(failed) or None)

    def _with_suffixes(self, asks: Sequence[DecisionRequest], decisions: list[Decision]) -> list[Decision]:
        """The second question, for every decision that has a command. A suffix off the list is left out and noted."""
        wanted = [i for i, d in enumerate(decisions) if d.error is None and "action" in d.texts]
        made = []
        for i in wanted:
            observation, words = asks[i].observation, fenced("decision", decisions[i].texts["action"])
            images = tuple(observation.images(camera.name) for camera in self.cameras)
            key = f"{i}|{asks[i].episode}|{observation.tick}|suffix"
            made.append(ModelQuestion(key, self.prompter.suffix_question(observation, words), images))
        for i, said in zip(wanted, self.backend.ask(made) if made else [], strict=True):
            decisions[i] = _joined(decisions[i], said)
        return decisions

    def describe(self) -> dict[str, Any]:
        """See Agent.describe."""
        return {
            "name": self.name,
            "kind": "model",
            **self.backend.describe(),
            "tasks": list(self.tasks),
            "fine_grained": self.fine_grained,
            "cameras": [f"{c.name} {c.width}x{c.height}" for c in self.cameras],
            "prompts": self.prompter.texts.source,
            "prompts_sha256": self.prompter.texts.sha256,
        }


def _joined(decision: Decision, said: ModelReply) -> Decision:
    """The command with its suffix behind it ("Keep going straight. with speed = 0.5")."""
    seconds = decision.latency_s + said.seconds
    if said.error is not None:
        return replace(decision, latency_s=seconds, error=f"suffix: {said.error}")
    suffix = chosen_suffix(said.text)
    thought = {**decision.thought, "suffix_reply": said.text[:200]}
    if suffix is None:
        return replace(decision, latency_s=seconds, thought=thought)
    command = decision.texts["action"].rstrip().rstrip(".")
    return replace(
        decision, texts={**decision.texts, "action": f"{command}. {suffix}"}, latency_s=seconds, thought=thought
    )
