"""ModelAgent: a vision-language model as fast system, called for all tasks of one or more requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.image_encoding import image_for
from closedloop_plugin.core.state import Decision, EpisodeFault
from closedloop_plugin.driver.agent import DecisionRequest, is_concurrent
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts, chosen_suffix
from closedloop_plugin.driver.agents.model_backend import (
    ModelBackend,
    ModelQuestion,
    ModelReply,
    PromptHashes,
    encoding_of,
    fenced,
)

T = TypeVar("T")


class ModelAgent:
    """One model call per task and decision.

    `fine_grained`: "off"; "prompt": the action question offers the speed suffixes; "question": a second question
    determines the suffix, which is appended to the command (Bench2ADVLM section 5).
    """

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
        self.name, self.concurrent = backend.name, is_concurrent(backend)
        self.encoding, self.encodings = encoding_of(backend)

    def start(self, episode: str, seed: int) -> None:
        """No state: earlier decisions that a prompt needs are part of the request."""

    def end(self, episode: str) -> None:
        """See start."""

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        asked = self._by_request(self.questions(requests))
        replies = self._by_request(self.backend.ask([question for own in asked for question in own]))
        decisions = [self._decision(own) for own in replies]
        if self.fine_grained == "question":
            decisions = self._with_suffixes(requests, decisions, asked, replies)
        hashes = PromptHashes()
        usages = [hashes.usage(*own) for own in zip(asked, replies, strict=True)]
        return [replace(decision, usage=usage) for decision, usage in zip(decisions, usages, strict=True)]

    def _by_request(self, items: Sequence[T]) -> list[list[T]]:
        """Questions or replies of each request, one per task."""
        each = len(self.tasks)
        return [list(items[i : i + each]) for i in range(0, len(items), each)]

    def questions(self, requests: Sequence[DecisionRequest]) -> list[ModelQuestion]:
        """Questions of all requests: for each request one per task, in the order of `tasks`."""
        questions = []
        for number, request in enumerate(requests):
            observation, images = request.observation, self._images(request)
            for task in self.tasks:
                key = f"{number}|{request.episode}|{observation.tick}|{task}"
                text = self.prompter.question(task, observation, request.history)
                questions.append(ModelQuestion(key, text, images))
        return questions

    def _images(self, request: DecisionRequest) -> tuple[np.ndarray | str, ...]:
        """The images of all cameras at each moment, the earliest first."""
        moments = [*(past.observation for past in self.prompter.shown(request.history)), request.observation]
        return tuple(
            image_for(moment.images, camera.name, self.encoding) for moment in moments for camera in self.cameras
        )

    def _decision(self, replies: Sequence[ModelReply]) -> Decision:
        """The decision from the replies to a request's questions; one failed task fails it."""
        failed = {task: r for task, r in zip(self.tasks, replies, strict=True) if r.error is not None}
        texts = {task: r.text for task, r in zip(self.tasks, replies, strict=True) if r.error is None}
        seconds = max((r.seconds for r in replies), default=0.0)
        fault = next((r.fault for r in failed.values()), EpisodeFault.DRIVER)
        error = "; ".join(f"{task}: {r.error}" for task, r in failed.items())
        return Decision(texts, latency_s=seconds, error=error or None, fault=fault)

    def _with_suffixes(
        self,
        requests: Sequence[DecisionRequest],
        decisions: list[Decision],
        asked: Sequence[list[ModelQuestion]],
        replies: Sequence[list[ModelReply]],
    ) -> list[Decision]:
        """Ask for the suffix of every decision with a command. A reply that is not on the list is noted and ignored.

        The questions and replies are appended to `asked` and `replies` of their requests.
        """
        wanted = [i for i, d in enumerate(decisions) if d.error is None and "action" in d.texts]
        questions = []
        for i in wanted:
            request, words = requests[i], fenced("decision", decisions[i].texts["action"])
            key = f"{i}|{request.episode}|{request.observation.tick}|suffix"
            text = self.prompter.suffix_question(request.observation, words, request.history)
            questions.append(ModelQuestion(key, text, self._images(request)))
        suffixes = self.backend.ask(questions) if questions else []
        for i, question, reply in zip(wanted, questions, suffixes, strict=True):
            asked[i].append(question)
            replies[i].append(reply)
            decisions[i] = _joined(decisions[i], reply)
        return decisions

    def describe(self) -> dict[str, Any]:
        """See Agent.describe."""
        return {
            "name": self.name,
            "kind": "model",
            **self.backend.describe(),
            "tasks": list(self.tasks),
            "fine_grained": self.fine_grained,
            "cameras": [camera.sized_name for camera in self.cameras],
            **self._past(),
            "prompts": self.prompter.texts.source,
            "prompts_sha256": self.prompter.texts.sha256,
        }

    def _past(self) -> dict[str, int]:
        """What prompts contain of the past; empty if nothing."""
        told, frames = self.prompter.history, self.prompter.frames
        return {"past_decisions": told, "frames": frames} if told or frames > 1 else {}


def _joined(decision: Decision, reply: ModelReply) -> Decision:
    """The decision with the suffix appended to its command ("Keep going straight. with speed = 0.5")."""
    seconds = decision.latency_s + reply.seconds
    if reply.error is not None:
        return replace(decision, latency_s=seconds, error=f"suffix: {reply.error}")
    suffix = chosen_suffix(reply.text)
    thought = {**decision.thought, "suffix_reply": reply.text[:200]}
    if suffix is None:
        return replace(decision, latency_s=seconds, thought=thought)
    command = decision.texts["action"].rstrip().rstrip(".")
    return replace(
        decision, texts={**decision.texts, "action": f"{command}. {suffix}"}, latency_s=seconds, thought=thought
    )
