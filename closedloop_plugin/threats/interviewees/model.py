"""A model as interviewee: asked about perception, prediction and planning, each with its earlier answers quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, fenced
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import InterviewFrame
from closedloop_plugin.threats.spec_parsing import kept
from closedloop_plugin.threats.transcript import Stage, StageAnswer


class ModelInterviewee:
    """One backend call per stage for all routes. Every question carries the images of all frames."""

    source: Literal["said", "observed"] = "said"

    def __init__(self, backend: ModelBackend, texts: PromptTexts, profile: Profile, cameras: Sequence[Camera]) -> None:
        self.backend, self.texts, self.profile, self.cameras = backend, texts, profile, tuple(cameras)

    def describe(self) -> dict[str, Any]:
        """Identity: equal for equal arguments, so without facts that only replies reveal (served_as)."""
        known = {k: v for k, v in self.backend.describe().items() if k != "served_as"}
        return {
            "name": self.backend.name,
            "kind": "model",
            **known,
            "cameras": [f"{c.name} {c.width}x{c.height}" for c in self.cameras],
            "prompts": self.texts.source,
            "prompts_sha256": self.texts.sha256,
        }

    def answer(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        """See Interviewee.answer."""
        answers: list[list[StageAnswer]] = [[] for _ in scenes]
        for stage in get_args(Stage):
            pending = [i for i, earlier in enumerate(answers) if not any(a.error for a in earlier)]
            questions = [self._question(stage, scenes[i], answers[i]) for i in pending]
            replies = self.backend.ask(questions) if questions else []
            for i, question, reply in zip(pending, questions, replies, strict=True):
                text = kept(reply.text) + ("\n[cut: the model's token limit]" if reply.cut else "")
                answers[i].append(
                    StageAnswer(
                        stage=stage,
                        question=kept(question.text),
                        text="" if reply.error else text,
                        error=kept(reply.error, 500) if reply.error else None,
                        seconds=round(reply.seconds, 3),
                    )
                )
            for i in set(range(len(scenes))) - set(pending):
                answers[i].append(StageAnswer(stage=stage, question="", error="not asked"))
        return answers

    def _question(self, stage: Stage, scene: Sequence[InterviewFrame], before: Sequence[StageAnswer]) -> ModelQuestion:
        quoted: Mapping[str, str] = {a.stage: fenced(f"your {a.stage}", a.text) for a in before}
        text = self.texts.fill(stage, scene=self._scene(scene), **quoted)
        images = tuple(image for frame in scene for image in frame.images)
        return ModelQuestion(f"{scene[0].route.id}|{stage}", text, images)

    def _scene(self, scene: Sequence[InterviewFrame]) -> str:
        """Text with speed and navigation at the last frame."""
        observation = scene[-1].observation
        forward, left = observation.target
        return self.texts.fill(
            "scene",
            cameras=self._cameras(),
            pictures=self._pictures(scene),
            speed=f"{observation.speed:.1f}",
            limit=f"{observation.speed_limit:.1f}",
            command=str(observation.command),
            ahead=f"{forward:.1f}",
            side="straight on" if abs(left) < 0.5 else f"{abs(left):.1f} m to the {'left' if left > 0 else 'right'}",
        )

    def _cameras(self) -> str:
        names = [c.name.replace("_", " ") for c in self.cameras]
        return "the camera" if len(names) <= 1 else f"these cameras, in this order: {', '.join(names)}"

    def _pictures(self, scene: Sequence[InterviewFrame]) -> str:
        if len(scene) < 2:
            return ""
        step = scene[1].observation.time_s - scene[0].observation.time_s
        each = f", with {len(self.cameras)} pictures of each" if len(self.cameras) > 1 else ""
        return self.texts.fill("pictures", n=len(scene), step=f"{step:g}", each=each)
