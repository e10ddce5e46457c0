"""A model as interviewee: asked about perception, prediction and planning, each with its earlier answers quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, fenced
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import InterviewScene
from closedloop_plugin.threats.driven.summary import DriverReply
from closedloop_plugin.threats.spec_parsing import kept, short
from closedloop_plugin.threats.transcript import Stage, StageAnswer

REPLY_SHOWN = 200  # characters of each of its own earlier replies


class ModelInterviewee:
    """One backend call per stage for all scenes. Every question carries the images of all frames of its moment."""

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
            "cameras": [camera.sized_name for camera in self.cameras],
            "prompts": self.texts.source,
            "prompts_sha256": self.texts.sha256,
        }

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
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

    def _question(self, stage: Stage, scene: InterviewScene, before: Sequence[StageAnswer]) -> ModelQuestion:
        quoted: Mapping[str, str] = {a.stage: fenced(f"your {a.stage}", a.text) for a in before}
        text = self.texts.fill(stage, scene=self._scene(scene), **quoted)
        return ModelQuestion(f"{scene.route_id}|{scene.number}|{stage}", text, scene.images)

    def _scene(self, scene: InterviewScene) -> str:
        """Text with the drive so far, speed and navigation at the moment."""
        moment = scene.moment
        forward, left = moment.target
        return self.texts.fill(
            "scene",
            cameras=self._cameras(),
            pictures=self._pictures(scene),
            driven=self._driven(scene),
            speed=f"{moment.speed:.1f}",
            limit=f"{moment.speed_limit:.1f}",
            command=moment.command,
            ahead=f"{forward:.1f}",
            side="straight on" if abs(left) < 0.5 else f"{abs(left):.1f} m to the {'left' if left > 0 else 'right'}",
        )

    def _cameras(self) -> str:
        names = [c.name.replace("_", " ") for c in self.cameras]
        return "the camera" if len(names) <= 1 else f"these cameras, in this order: {', '.join(names)}"

    def _pictures(self, scene: InterviewScene) -> str:
        times = scene.moment.frame_s
        if len(times) < 2:
            return ""
        ages = ", ".join(f"{times[-1] - t:g}" for t in times)
        each = f", with {len(self.cameras)} pictures of each" if len(self.cameras) > 1 else ""
        return self.texts.fill("pictures", n=len(times), ages=ages, each=each)

    def _driven(self, scene: InterviewScene) -> str:
        """How far it has driven, and its own last replies, fenced: text that was a model's output stays untrusted."""
        moment = scene.moment
        if not scene.moved:
            return self.texts.fill("unmoved", time=f"{moment.time_s:.0f}")
        text = self.texts.fill("driven", time=f"{moment.time_s:.0f}", s=f"{moment.s:.0f}")
        if not moment.replies:
            return text
        quoted = fenced("your earlier replies", "\n".join(_line(r, moment.time_s) for r in moment.replies))
        return f"{text}\n{self.texts.fill('replies', list=quoted)}"


def _line(reply: DriverReply, now_s: float) -> str:
    texts = "; ".join(f"{name}: {short(text, REPLY_SHOWN)}" for name, text in reply.texts.items())
    return f"- {now_s - reply.time_s:.1f} s ago, at {reply.speed:.1f} m/s: {texts}"
