"""Interviews about moments of the target's own drives: questions in batches, transcripts stored as they arrive.

The drives are complete before the first question (driven/target.py), so that a model sees its own replies and speeds
of an episode that it really drove. A kill loses at most the answers of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from tqdm import tqdm

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, fenced
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import Interviewee, InterviewScene
from closedloop_plugin.threats.driven.recorder import DriveLog
from closedloop_plugin.threats.driven.summary import DriverReply
from closedloop_plugin.threats.spec_parsing import kept, short
from closedloop_plugin.threats.transcript import InterviewRecord, Stage, StageAnswer, ThreatTranscript
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import code_label
from lmms_eval_ad2.storage.image_files import ImageOutsideError, locate, open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

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


QUESTION = "not asked: a driver without words; its drive is observed"


class ObservedInterviewee:
    """A driver without language. `spec`: the value of --agent; `agent`: an instance, for its description.

    The answers only state its speed at each moment. They enter the prompt of a model fuser beside the drive's summary:
    their wording is part of the measurement.
    """

    source: Literal["said", "observed"] = "observed"

    def __init__(self, spec: str, agent: Agent) -> None:
        self.spec, self.agent = spec, agent

    def describe(self) -> dict[str, Any]:
        return {**self.agent.describe(), "spec": self.spec, "kind": "driver without words, observed"}

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        """See Interviewee.answer."""
        return [
            [
                StageAnswer(stage="perception", question=QUESTION, text="It does not answer in words."),
                StageAnswer(stage="prediction", question=QUESTION, text="It does not answer in words."),
                StageAnswer(
                    stage="planning",
                    question=QUESTION,
                    text=f"At this moment it drives at {scene.moment.speed:.1f} m/s.",
                ),
            ]
            for scene in scenes
        ]


BATCH = 32  # maximum number of moments per call of the target; those of one route are in one call


def interview(
    *,
    logs: Mapping[str, DriveLog],
    interviewee: Interviewee,
    folder: Path,
    keep: Callable[[ThreatTranscript], None],
    quiet: bool = False,
) -> dict[str, str]:
    """Interview the target about its drives; return {route id: reason} of routes without a moment.

    `logs`: by route. `folder`: of the suite, to which the names of the frames are relative. `keep` is called once per
    transcript, also if its answers failed. Raises Ad2Error for errors that the user must fix; transcripts kept until
    then remain.
    """
    asked = {route: log for route, log in logs.items() if log.moments}
    with tqdm(total=len(asked), desc="interviews", unit="route", disable=quiet) as bar:
        for batch in _batches(asked):
            scenes = [
                InterviewScene(
                    route, number, moment, log.summary is None or log.summary.moved, images_of(folder, moment.frames)
                )
                for route, log in batch
                for number, moment in enumerate(log.moments)
            ]
            answers = iter(interviewee.answer(scenes))
            for route, log in batch:
                moments = [m.model_copy(update={"answers": list(next(answers))}) for m in log.moments]
                record = InterviewRecord(
                    agent=dict(interviewee.describe()), source=interviewee.source, moments=moments, drive=log.summary
                )
                keep(ThreatTranscript(route=route, site=log.site, interview=record, version=code_label()))
                bar.update()
    return {route: "the drive has no moment to ask about" for route in logs if route not in asked}


def images_of(folder: Path, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Images of a suite's folder, (H, W, 3) uint8 RGB; files that are missing or outside of the folder are skipped."""
    return tuple(image for name in names if (image := _image(folder, name)) is not None)


def _image(folder: Path, name: str) -> np.ndarray | None:
    try:
        with open_image(locate(folder, name)) as image:
            return np.asarray(shown_rgb(image))
    except (FileNotFoundError, ImageOutsideError):
        return None
    except OSError as exc:
        raise Ad2Error(f"{folder / name}: not a readable image ({exc})") from exc


def _batches(logs: Mapping[str, DriveLog]) -> Iterator[list[tuple[str, DriveLog]]]:
    """Parts of the routes with at most BATCH moments each, or one route."""
    part: list[tuple[str, DriveLog]] = []
    for route, log in logs.items():
        if part and sum(len(one.moments) for _, one in part) + len(log.moments) > BATCH:
            yield part
            part = []
        part.append((route, log))
    if part:
        yield part


def never_moved(transcripts: Mapping[str, ThreatTranscript]) -> list[str]:
    """Routes on which the target never moved."""
    return [k for k, t in transcripts.items() if t.interview.drive is not None and not t.interview.drive.moved]
