"""WorldQuestion: a Record about a frame, with the class of its answer, between which a set is balanced."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from closedloop_plugin.learn.questions.seen_frame import DARK, SeenActor, SeenFrame
from closedloop_plugin.learn.questions.words import COMMANDS, THINGS, ThingWord
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Form, ReasoningStep, Record

BENCHMARK = "world"
LETTERS = "ABCD"
RAIN, FOG = 30.0, 25.0  # percent, from which on the scene of a record is called so
Wrong = tuple[BilingualText, str]  # text and kind of a wrong option


@dataclass(frozen=True, slots=True)
class WorldQuestion:
    """group: questions that are balanced with each other. value: the class of the answer, "" if it has none."""

    record: Record
    group: str
    value: str

    def order(self, seed: int) -> int:
        """A number of 64 bits that decides which questions are kept; it depends on the record's id and the seed."""
        return int.from_bytes(hashlib.blake2b(f"{seed}|{self.record.id}".encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class FrameQuestions:
    """Makes the questions about one frame. All draws depend on the seed, the frame's id and the question's name."""

    frame: SeenFrame
    seed: int

    def draw(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}|{self.frame.id}|{name}")

    @cached_property
    def singles(self) -> tuple[tuple[ThingWord, SeenActor], ...]:
        """Each actor that is the only one of a word in the picture, once, with a random one of these words."""
        words: dict[str, list[tuple[ThingWord, SeenActor]]] = {}
        for word in THINGS:
            if (actor := self.frame.single(word)) is not None:
                words.setdefault(actor.id, []).append((word, actor))
        return tuple(self.draw(f"word|{id}").choice(found) for id, found in words.items())

    def ask(
        self, name: str, *, task: str, subtask: str, form: Form, question: BilingualText, answer: BilingualText,
        group: str, value: str, truth: Mapping[str, Any], options: Sequence[AnswerOption] = (), letter: str = "",
        steps: Sequence[ReasoningStep] = (),
    ) -> WorldQuestion:  # fmt: skip
        """A question; `name` is unique within the frame, `truth` the numbers behind the answer."""
        frame = self.frame
        record = Record(
            id=f"{frame.id}#{name}", benchmark=BENCHMARK, task=task, subtask=subtask, form=form,
            images=(frame.image,), question=question, answer=answer, letter=letter, options=tuple(options),
            steps=tuple(steps), image_size=frame.size, cluster=frame.episode, scene=scene_of(frame),
            meta={"route": frame.route, "frame": frame.id, "scenario": frame.scenario, "truth": dict(truth)},
        )  # fmt: skip
        return WorldQuestion(record, f"{task}|{group}", value)

    def choose(
        self, name: str, *, task: str, subtask: str, question: BilingualText, right: BilingualText,
        wrong: Sequence[Wrong], group: str, value: str, truth: Mapping[str, Any],
    ) -> WorldQuestion:  # fmt: skip
        """A question with four options in random order: the right one and three of `wrong`."""
        draw = self.draw(f"{name}|options")
        options = [(right, "correct"), *draw.sample(list(wrong), len(LETTERS) - 1)]
        draw.shuffle(options)
        made = [AnswerOption(letter, text, kind) for letter, (text, kind) in zip(LETTERS, options, strict=True)]
        letter = next(option.letter for option in made if option.kind == "correct")
        return self.ask(
            name, task=task, subtask=subtask, form="mc", question=question, answer=right, group=group, value=value,
            truth=truth, options=made, letter=letter,
        )  # fmt: skip


def scene_of(frame: SeenFrame) -> dict[str, str]:
    """Weather and period, by which scores are broken down."""
    rain, fog = frame.weather.get("precipitation", 0.0), frame.weather.get("fog_density", 0.0)
    weather = "rain" if rain >= RAIN else "fog" if fog >= FOG else "clear"
    return {"weather": weather, "period": "night" if frame.night >= DARK else "day"}


def situation(frame: SeenFrame) -> BilingualText:
    """Speed, speed limit and navigation command: what a picture does not show, but a driver knows."""
    speed, limit = round(frame.speed), round(frame.speed_limit)
    return BilingualText(
        en=f"We drive {speed} m/s, limit {limit} m/s, command: {frame.command}.",
        zh=f"车速{speed}米/秒，限速{limit}米/秒，指令：{COMMANDS[frame.command]}。",
    )
