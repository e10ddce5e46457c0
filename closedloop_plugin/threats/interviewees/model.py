"""The target as a model: asked at perception, prediction and planning, each stage with its own earlier answers."""

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
    """One call of the backend a stage, for all routes at once. All frames' pictures go with every question."""

    source: Literal["said", "observed"] = "said"

    def __init__(self, backend: ModelBackend, texts: PromptTexts, profile: Profile, cameras: Sequence[Camera]) -> None:
        self.backend, self.texts, self.profile, self.cameras = backend, texts, profile, tuple(cameras)

    def describe(self) -> dict[str, Any]:
        """Equal at every start with the same arguments: without what a backend learns on its way."""
        known = {k: v for k, v in self.backend.describe().items() if k != "served_as"}
        return {
            "name": self.backend.name,
            "kind": "model",
            **known,
            "cameras": [f"{c.name} {c.width}x{c.height}" for c in self.cameras],
            "prompts": self.texts.source,
            "prompts_sha256": self.texts.sha256,
        }

    def tell(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        """See Teller.tell."""
        told: list[list[StageAnswer]] = [[] for _ in scenes]
        for stage in get_args(Stage):
            open_ones = [i for i, answers in enumerate(told) if not any(a.error for a in answers)]
            questions = [self._question(stage, scenes[i], told[i]) for i in open_ones]
            said = self.backend.ask(questions) if questions else []
            for i, question, answer in zip(open_ones, questions, said, strict=True):
                text = kept(answer.text) + ("\n[cut: the model's token limit]" if answer.cut else "")
                told[i].append(
                    StageAnswer(
                        stage=stage,
                        question=kept(question.text),
                        text="" if answer.error else text,
                        error=kept(answer.error, 500) if answer.error else None,
                        seconds=round(answer.seconds, 3),
                    )
                )
            for i in set(range(len(scenes))) - set(open_ones):
                told[i].append(StageAnswer(stage=stage, question="", error="not asked"))
        return told

    def _question(
        self, stage: Stage, moments: Sequence[InterviewFrame], before: Sequence[StageAnswer]
    ) -> ModelQuestion:
        quoted: Mapping[str, str] = {a.stage: fenced(f"your {a.stage}", a.text) for a in before}
        text = self.texts.fill(stage, scene=self._scene(moments), **quoted)
        images = tuple(image for moment in moments for image in moment.images)
        return ModelQuestion(f"{moments[0].route.id}|{stage}", text, images)

    def _scene(self, moments: Sequence[InterviewFrame]) -> str:
        """What speedometer and navigation say at the last of the moments."""
        seen = moments[-1].observation
        forward, left = seen.target
        return self.texts.fill(
            "scene",
            cameras=self._cameras(),
            pictures=self._pictures(moments),
            speed=f"{seen.speed:.1f}",
            limit=f"{seen.speed_limit:.1f}",
            command=str(seen.command),
            ahead=f"{forward:.1f}",
            side="straight on" if abs(left) < 0.5 else f"{abs(left):.1f} m to the {'left' if left > 0 else 'right'}",
        )

    def _cameras(self) -> str:
        names = [c.name.replace("_", " ") for c in self.cameras]
        return "the camera" if len(names) <= 1 else f"these cameras, in this order: {', '.join(names)}"

    def _pictures(self, moments: Sequence[InterviewFrame]) -> str:
        if len(moments) < 2:
            return ""
        step = moments[1].observation.time_s - moments[0].observation.time_s
        each = f", with {len(self.cameras)} pictures of each" if len(self.cameras) > 1 else ""
        return self.texts.fill("pictures", n=len(moments), step=f"{step:g}", each=each)
