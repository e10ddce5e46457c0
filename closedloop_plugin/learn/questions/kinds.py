"""The table of all kinds of questions, and the record of a question about a frame."""

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
RELATION = "relation"
LETTERS = "ABCD"
RAIN, FOG = 30.0, 25.0  # percent, from which on the scene of a record is called so
SURROUNDING = "surrounding objects"
Wrong = tuple[BilingualText, str]  # text and kind of a wrong option


@dataclass(frozen=True, slots=True)
class WorldQuestionKind:
    """One kind of question. {words} in the texts are replaced.

    name: unique within a frame. en, zh: the question. group: of the questions that are balanced with each other.
    """

    name: str
    task: str
    subtask: str
    form: Form
    group: str
    en: str
    zh: str


# Tasks and sub-tasks: AD2-Bench sections 3.1 and 3.2; those of multiple choice: AutoDrive-QA.
_ROWS: Mapping[str, tuple[str, str, str, Form, str, str, str]] = {
    "existence": ("existence-{en}", "existence", "existence", "yesno", "{en}", "Is there {a}?", "有{zh}吗？"),
    "side": ("side-{en}", "existence", "existence_left_right", "yesno", "side|{en}",
             "Is the {en} on the left or the right?", "{zh}在左边还是右边？"),
    "count": ("count-{en}", "counting", "counting", "count", "{en}", "How many {plural} are there?",
              "有几{counter}{zh}？"),
    "location": ("location-{en}", "location", "location", "point", "all", "Where is the {en}?", "{zh}在哪里？"),
    "detection": ("detection-{en}", "detection", "detection", "box", "detection", "Where is the {en}?",
                  "{zh}在哪里？"),
    "nearest": ("reference_detection-{en}", "detection", "reference_detection", "box", "reference_detection",
                "Where is the nearest {en}?", "最近的{zh}在哪里？"),
    "beside": ("side-{names}", RELATION, "spatial", "yesno", "side|{en}|{other_en}",
               "Is the {en} on the left or the right of the {other_en}?", "{zh}在{other_zh}的左边还是右边？"),
    "nearer": ("nearer-{names}", RELATION, "distance", "yesno", "nearer|{en}|{other_en}",
               "Is the {en} nearer than the {other_en}?", "{zh}比{other_zh}更近吗？"),
    "cot": ("cot", "cot", "cot", "chain", "cot", "{about_en} What should the car do?",
            "{about_zh}我们的车应该怎么做？"),
    "ahead": ("ahead", "perception", SURROUNDING, "mc", "ahead", "What is ahead in our lane?",
              "我们的车道前方是什么？"),
    "light": ("light", "perception", "traffic elements", "mc", "light", "What colour is our traffic light?",
              "我们的红绿灯是什么颜色？"),
    "weather": ("weather", "perception", "visual description", "mc", "weather",
                "What is the weather or light like?", "天气或光线如何？"),
    "distance": ("distance-{en}", "perception", "important objects", "mc", "distance|{en}",
                 "How far away is the {en}?", "{zh}有多远？"),
    "lane": ("lane-{en}", "perception", SURROUNDING, "mc", "lane-{en}", "Where is the {en}?", "{zh}在哪个位置？"),
    "motion": ("motion-{en}", "prediction", "motion prediction", "mc", "motion-{en}",
               "What will the {en} do next?", "{zh}接下来会怎样？"),
    "pace": ("pace", "prediction", "motion prediction", "mc", "pace", "How will the vehicle ahead drive?",
             "前车接下来会怎样行驶？"),
    "pace-plan": ("pace-plan", "planning", "goal action", "mc", "pace|{speed_class}",
                  "{about_en} What should we do?", "{about_zh}我们应该怎么做？"),
    "direction-plan": ("direction-plan", "planning", "planning and reasoning", "mc", "direction|{command}",
                       "{about_en} Where should we steer?", "{about_zh}我们应该往哪里开？"),
}  # fmt: skip
KINDS = {kind: WorldQuestionKind(*row) for kind, row in _ROWS.items()}
TASKS = tuple(dict.fromkeys(kind.task for kind in KINDS.values()))


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

    @cached_property
    def situation(self) -> dict[str, str]:
        """Speed, speed limit and navigation command: what a picture does not show, but a driver knows."""
        speed, limit = round(self.frame.speed), round(self.frame.speed_limit)
        return {
            "about_en": f"We drive {speed} m/s, limit {limit} m/s, command: {self.frame.command}.",
            "about_zh": f"车速{speed}米/秒，限速{limit}米/秒，指令：{COMMANDS[self.frame.command]}。",
        }

    def ask(
        self, kind: str, words: Mapping[str, str], answer: BilingualText, value: str, truth: Mapping[str, Any], *,
        options: Sequence[AnswerOption] = (), letter: str = "", steps: Sequence[ReasoningStep] = (),
    ) -> WorldQuestion:  # fmt: skip
        """A question of KINDS; words: for its texts; truth: the numbers behind the answer."""
        frame, of = self.frame, KINDS[kind]
        record = Record(
            id=f"{frame.id}#{of.name.format(**words)}", benchmark=BENCHMARK, task=of.task, subtask=of.subtask,
            form=of.form, images=(frame.image,), question=BilingualText(of.en.format(**words), of.zh.format(**words)),
            answer=answer, letter=letter, options=tuple(options), steps=tuple(steps), image_size=frame.size,
            cluster=frame.episode, scene=scene_of(frame),
            meta={"route": frame.route, "frame": frame.id, "scenario": frame.scenario, "truth": dict(truth)},
        )  # fmt: skip
        return WorldQuestion(record, f"{of.task}|{of.group.format(**words)}", value)

    def choose(
        self, kind: str, words: Mapping[str, str], right: BilingualText, value: str, truth: Mapping[str, Any],
        wrong: Sequence[Wrong],
    ) -> WorldQuestion:  # fmt: skip
        """A question with four options in random order: the right one and three of `wrong`."""
        draw = self.draw(f"{KINDS[kind].name.format(**words)}|options")
        texts = [(right, "correct"), *draw.sample(list(wrong), len(LETTERS) - 1)]
        draw.shuffle(texts)
        options = [AnswerOption(letter, told, error) for letter, (told, error) in zip(LETTERS, texts, strict=True)]
        letter = next(option.letter for option in options if option.kind == "correct")
        return self.ask(kind, words, right, value, truth, options=options, letter=letter)

    def choose_of(
        self, kind: str, words: Mapping[str, str], texts: Mapping[str, BilingualText], value: str,
        truth: Mapping[str, Any], error: str,
    ) -> WorldQuestion:  # fmt: skip
        """A question whose options are the texts of a table, all wrong ones with the same kind of error."""
        wrong = [(told, error) for other, told in texts.items() if other != value]
        return self.choose(kind, words, texts[value], value, truth, wrong)


def scene_of(frame: SeenFrame) -> dict[str, str]:
    """Weather and period, by which scores are broken down."""
    rain, fog = frame.weather.get("precipitation", 0.0), frame.weather.get("fog_density", 0.0)
    weather = "rain" if rain >= RAIN else "fog" if fog >= FOG else "clear"
    return {"weather": weather, "period": "night" if frame.night >= DARK else "day"}
