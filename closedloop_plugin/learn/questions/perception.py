"""Multiple choice about what is seen: AutoDrive-QA's perception, with the kinds of error of its distractors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from closedloop_plugin.core.state import VEHICLES, ActorKind, RouteCommand
from closedloop_plugin.learn.questions.seen_frame import DARK, SeenActor
from closedloop_plugin.learn.questions.words import ANIMAL, BIKE, EXACT, OBSTACLE, PERSON, VEHICLE, text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion, Wrong
from lmms_eval_ad2.core.records import BilingualText

TASK = "perception"
MISREAD, MISCALCULATED, AMBIGUOUS = "misinterpreted_sensor_inputs", "computational_oversights", "question_ambiguity"
AHEAD_M = (2.0, 40.0)
# Where the lane of a vehicle can be seen: along our road, no junction in between, and not too far.
ALIGNED, LANE_M = math.radians(15), 30.0
NOT_BESIDE_M = 5.25  # to the left, one and a half lanes: an oncoming lane beside ours is "the lane on the left", too
ALONG = (RouteCommand.FOLLOW, RouteCommand.CHANGE_LEFT, RouteCommand.CHANGE_RIGHT)
NOTHING = text("Nothing.", "什么都没有。")
LANES: dict[str, BilingualText] = {
    "own": text("In our lane.", "在我们的车道。"),
    "left": text("In the lane on the left.", "在左侧车道。"),
    "right": text("In the lane on the right.", "在右侧车道。"),
    "oncoming": text("In an oncoming lane.", "在对向车道。"),
}
# Upper and lower limits of a distance, m, with a margin of 15 % between two classes.
DISTANCES: dict[str, tuple[float, float, BilingualText]] = {
    "to 8": (0.0, 6.8, text("Less than 8 m.", "不到8米。")),
    "to 16": (9.2, 13.6, text("8 to 16 m.", "8到16米。")),
    "to 30": (18.4, 25.5, text("16 to 30 m.", "16到30米。")),
    "over 30": (34.5, 60.0, text("More than 30 m.", "超过30米。")),
}
LIGHTS: dict[str, BilingualText] = {
    "red": text("Red.", "红色。"), "yellow": text("Yellow.", "黄色。"), "green": text("Green.", "绿色。"),
    "off": text("Off.", "不亮。"),
}  # fmt: skip
WEATHERS: dict[str, BilingualText] = {
    "clear": text("Clear.", "晴天。"), "rain": text("Rain.", "下雨。"), "fog": text("Fog.", "有雾。"),
    "night": text("Night.", "夜晚。"),
}  # fmt: skip


def perception(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    yield from _ahead(asker)
    yield from _light(asker)
    yield from _weather(asker)
    for word, actor in asker.singles:
        yield from _distance(asker, word.en, word.zh, actor)
        yield from _lane(asker, word.en, word.zh, actor)


def _ahead(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """What the nearest actor in our lane is. What is elsewhere in the picture answers another question."""
    frame = asker.frame
    first = next(iter(frame.lane_ahead), None)
    if not frame.in_lane or (first is not None and not _is_clear(first)):
        return
    elsewhere = {a.word.en for a in frame.actors if a.appears and a.lane != "own"}
    right = NOTHING if first is None else text(f"{_capital(first.word.a)}.", f"{first.word.zh}。")
    value = "nothing" if first is None else first.word.en
    there = {a.kind for a in frame.lane_ahead if a.appears}  # others behind the first are ahead, too
    names = [w for w in (*EXACT, PERSON, ANIMAL) if w.en != value and there.isdisjoint(w.kinds | w.confused_with)]
    if first is not None and first.word is OBSTACLE:
        names = [word for word in names if word.kinds.isdisjoint(OBSTACLE.kinds)]
    wrong: list[Wrong] = [
        (text(f"{_capital(word.a)}.", f"{word.zh}。"), AMBIGUOUS if word.en in elsewhere else MISREAD) for word in names
    ]
    if first is not None:
        wrong.append((NOTHING, MISREAD))
    yield asker.choose(
        "ahead", task=TASK, subtask="surrounding objects",
        question=text("What is ahead in our lane?", "我们的车道前方是什么？"), right=right, wrong=wrong, group="ahead",
        value=value, truth={"actor": first.id if first else None},
    )  # fmt: skip


def _is_clear(first: SeenActor) -> bool:
    """Whether the picture shows what it is, and that it is ahead."""
    return first.shown and first.is_ahead and AHEAD_M[0] < first.forward < AHEAD_M[1] and _named_exactly(first)


def _named_exactly(actor: SeenActor) -> bool:
    """Whether the picture shows its kind, and not only its group."""
    return actor.word not in (VEHICLE, BIKE) and (actor.word is not OBSTACLE or actor.kind in UNNAMED)


UNNAMED = frozenset({ActorKind.DEBRIS, ActorKind.BLOCKER})  # obstacles without a word of their own


def _light(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The colour of the light of our lane; the lights of other lanes may have others."""
    signals = [sign for sign in asker.frame.signs if sign.control == "signal" and sign.on_route and sign.appears]
    if len(signals) == 1 and signals[0].shown and signals[0].lit and signals[0].state is not None:
        asked = text("What colour is our traffic light?", "我们的红绿灯是什么颜色？")
        yield _of_table(
            asker, "light", LIGHTS, signals[0].state.value, subtask="traffic elements", question=asked,
            truth={"signal": signals[0].id},
        )  # fmt: skip


def _weather(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Only weather with one clear property: night with rain is neither "Night." nor "Rain."."""
    weather, night = asker.frame.weather, asker.frame.night
    rain, fog = weather.get("precipitation", 0.0), weather.get("fog_density", 0.0)
    present = [name for name, there in (("night", night >= DARK), ("rain", rain >= 40), ("fog", fog >= 40)) if there]
    faint = [night > 0.1, rain > 5, fog > 10]
    if len(present) == sum(faint) <= 1:
        value = present[0] if present else "clear"
        asked = text("What is the weather or light like?", "天气或光线如何？")
        yield _of_table(
            asker, "weather", WEATHERS, value, subtask="visual description", question=asked, truth=dict(weather)
        )


def _distance(asker: FrameQuestions, en: str, zh: str, actor: SeenActor) -> Iterator[WorldQuestion]:
    value = next((name for name, (low, high, _) in DISTANCES.items() if low <= actor.gap <= high), None)
    if value is not None:
        texts = {name: told for name, (_, _, told) in DISTANCES.items()}
        wrong = [(told, MISCALCULATED) for name, told in texts.items() if name != value]
        yield asker.choose(
            f"distance-{en}", task=TASK, subtask="important objects",
            question=text(f"How far away is the {en}?", f"{zh}有多远？"), right=texts[value], wrong=wrong,
            group=f"distance|{en}", value=value, truth={"actor": actor.id, "metres": round(actor.gap, 1)},
        )  # fmt: skip


def _lane(asker: FrameQuestions, en: str, zh: str, actor: SeenActor) -> Iterator[WorldQuestion]:
    turned = abs(math.remainder(actor.yaw, math.pi))
    frame = asker.frame
    on_road = frame.in_lane and frame.command in ALONG and not any(sign.on_route for sign in frame.signs)
    seen = actor.kind in VEHICLES and actor.lane in LANES and turned <= ALIGNED and 0 < actor.forward <= LANE_M
    if on_road and seen and (actor.lane != "oncoming" or actor.left >= NOT_BESIDE_M):
        asked = text(f"Where is the {en}?", f"{zh}在哪个位置？")
        yield _of_table(
            asker, f"lane-{en}", LANES, actor.lane, subtask="surrounding objects", question=asked,
            truth={"actor": actor.id},
        )  # fmt: skip


def _of_table(
    asker: FrameQuestions, name: str, texts: dict[str, BilingualText], value: str, *, subtask: str,
    question: BilingualText, truth: dict[str, Any],
) -> WorldQuestion:  # fmt: skip
    """A question whose options are the texts of a table."""
    wrong = [(told, MISREAD) for other, told in texts.items() if other != value]
    return asker.choose(
        name, task=TASK, subtask=subtask, question=question, right=texts[value], wrong=wrong, group=name, value=value,
        truth=truth,
    )  # fmt: skip


def _capital(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]
