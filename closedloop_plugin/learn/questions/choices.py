"""Multiple choice about what is seen, what happens next, and what the car should do, with the kinds of error of the
wrong options (AutoDrive-QA); and chains of all three (AD2-Bench section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set

from closedloop_plugin.core.state import STATIC, VEHICLES, ActorKind, RouteCommand
from closedloop_plugin.learn.questions.kinds import LETTERS, FrameQuestions, WorldQuestion, Wrong
from closedloop_plugin.learn.questions.outcomes import (
    BRAKE,
    GO,
    KEEP,
    MOTIONS,
    PACE_TEXTS,
    PACES,
    STEERING,
    STOP,
    action_text,
    changes_of_distance,
    direction_of,
    evidence_of,
    motion_of,
    pace_class,
    pace_of,
)
from closedloop_plugin.learn.questions.seen_frame import DARK, SeenActor
from closedloop_plugin.learn.questions.words import (
    ANIMAL,
    BIKE,
    CARS,
    EXACT,
    OBSTACLE,
    PERSON,
    VEHICLE,
    ThingWord,
    text,
)
from lmms_eval_ad2.core.records import BilingualText, ReasoningStep

MISREAD, MISCALCULATED, AMBIGUOUS = "misinterpreted_sensor_inputs", "computational_oversights", "question_ambiguity"
INCONSISTENT, MISCONCEPTION = "logical_inconsistencies", "driving_domain_misconceptions"
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
UNNAMED = frozenset({ActorKind.DEBRIS, ActorKind.BLOCKER})  # obstacles without a word of their own
OPPOSITE = ({"left", "right"}, {"ahead", "closer"}, {"slower", "faster"}, {"stops", "faster"})
STANDING = ("stays", "stops")
ALSO_TRUE = {"stops": {"slower"}, "stays": {"same"}}  # what stops slows down, what stays keeps its speed of 0
OUR_WAY = math.radians(45)  # largest angle between the directions of the car and of the vehicle ahead
RULES = ("red_light", "stop_sign", "yield", "speed_limit")  # reasons that are traffic rules
PACE_ORDER = (STOP, BRAKE, KEEP, GO)
SLOW = 0.6  # share of the speed limit
STEPS = (
    (text("see", "观察"), text("What matters most?", "什么最重要？")),
    (text("predict", "预测"), text("What happens next?", "接下来会发生什么？")),
    (text("act", "行动"), text("What should the car do?", "我们的车应该怎么做？")),
)


def perception(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    yield from _ahead(asker)
    yield from _light(asker)
    yield from _weather(asker)
    for word, actor in asker.singles:
        yield from _distance(asker, word, actor)
        yield from _lane(asker, word, actor)


def _ahead(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """What the nearest actor in our lane is. What is elsewhere in the picture answers another question."""
    frame = asker.frame
    first = next(iter(frame.lane_ahead), None)
    if not frame.in_lane or (first is not None and not _is_clear(first)):
        return
    elsewhere = {a.word.en for a in frame.actors if a.appears and a.lane != "own"}
    value = "nothing" if first is None else first.word.en
    there = {a.kind for a in frame.lane_ahead if a.appears}  # others behind the first are ahead, too
    names = [w for w in (*EXACT, PERSON, ANIMAL) if w.en != value and there.isdisjoint(w.kinds | w.confused_with)]
    if first is not None and first.word is OBSTACLE:
        names = [word for word in names if word.kinds.isdisjoint(OBSTACLE.kinds)]
    wrong: list[Wrong] = [(word.sentence, AMBIGUOUS if word.en in elsewhere else MISREAD) for word in names]
    if first is not None:
        wrong.append((NOTHING, MISREAD))
    right = NOTHING if first is None else first.word.sentence
    yield asker.choose("ahead", {}, right, value, {"actor": first.id if first else None}, wrong)


def _is_clear(first: SeenActor) -> bool:
    """Whether the picture shows what it is, not only its group, and that it is ahead."""
    is_named = first.word not in (VEHICLE, BIKE) and (first.word is not OBSTACLE or first.kind in UNNAMED)
    return first.shown and first.is_ahead and AHEAD_M[0] < first.forward < AHEAD_M[1] and is_named


def _light(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The colour of the light of our lane; the lights of other lanes may have others."""
    signals = [sign for sign in asker.frame.signs if sign.control == "signal" and sign.on_route and sign.appears]
    if len(signals) == 1 and signals[0].shown and signals[0].lit and signals[0].state is not None:
        yield asker.choose_of("light", {}, LIGHTS, signals[0].state.value, {"signal": signals[0].id}, MISREAD)


def _weather(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """Only weather with one clear property: night with rain is neither "Night." nor "Rain."."""
    weather, night = asker.frame.weather, asker.frame.night
    rain, fog = weather.get("precipitation", 0.0), weather.get("fog_density", 0.0)
    present = [name for name, there in (("night", night >= DARK), ("rain", rain >= 40), ("fog", fog >= 40)) if there]
    faint = [night > 0.1, rain > 5, fog > 10]
    if len(present) == sum(faint) <= 1:
        value = present[0] if present else "clear"
        yield asker.choose_of("weather", {}, WEATHERS, value, dict(weather), MISREAD)


def _distance(asker: FrameQuestions, word: ThingWord, actor: SeenActor) -> Iterator[WorldQuestion]:
    value = next((name for name, (low, high, _) in DISTANCES.items() if low <= actor.gap <= high), None)
    if value is not None:
        texts = {name: told for name, (_, _, told) in DISTANCES.items()}
        truth = {"actor": actor.id, "metres": round(actor.gap, 1)}
        yield asker.choose_of("distance", word.forms, texts, value, truth, MISCALCULATED)


def _lane(asker: FrameQuestions, word: ThingWord, actor: SeenActor) -> Iterator[WorldQuestion]:
    turned = abs(math.remainder(actor.yaw, math.pi))
    frame = asker.frame
    on_road = frame.in_lane and frame.command in ALONG and not any(sign.on_route for sign in frame.signs)
    seen = actor.kind in VEHICLES and actor.lane in LANES and turned <= ALIGNED and 0 < actor.forward <= LANE_M
    if on_road and seen and (actor.lane != "oncoming" or actor.left >= NOT_BESIDE_M):
        yield asker.choose_of("lane", word.forms, LANES, actor.lane, {"actor": actor.id}, MISREAD)


def prediction(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The movement of things that can move, and the pace of the vehicle ahead in our lane."""
    for word, actor in asker.singles:
        if actor.kind not in STATIC and (motion := motion_of(actor)) is not None:
            also_true = changes_of_distance(actor)
            yield from _predicted(asker, "motion", word.forms, MOTIONS, motion, actor=actor, also_true=also_true)
    first = next(iter(asker.frame.lane_ahead), None)
    if first is not None and asker.frame.in_lane and _leads(first) and (pace := pace_of(first)) is not None:
        also_true = ALSO_TRUE.get(pace, set())
        yield from _predicted(asker, "pace", {}, PACES, pace, actor=first, also_true=also_true)


def _leads(actor: SeenActor) -> bool:
    """Whether it is shown as the vehicle ahead: not round a corner, and neither crossing nor oncoming."""
    return actor.shown and actor.kind in CARS and actor.is_ahead and abs(actor.yaw) <= OUR_WAY


def _predicted(
    asker: FrameQuestions, kind: str, words: Mapping[str, str], texts: Mapping[str, BilingualText], value: str, *,
    actor: SeenActor, also_true: Set[str],
) -> Iterator[WorldQuestion]:  # fmt: skip
    """also_true: classes that are no wrong options. Not asked if fewer than three wrong ones are left."""
    wrong = [(told, error_kind(value, other)) for other, told in texts.items() if other not in {value, *also_true}]
    if len(wrong) >= len(LETTERS) - 1:
        truth = {"actor": actor.id, "speed": actor.speed, "future": [list(p) for p in actor.future]}
        yield asker.choose(kind, words, texts[value], value, truth, wrong)


def error_kind(right: str, wrong: str) -> str:
    """The error behind a wrong motion: its direction was misread, its speed ignored, or it does not follow."""
    if {right, wrong} in OPPOSITE:
        return MISREAD
    if (right in STANDING) != (wrong in STANDING) or {right, wrong} == {"slower", "same"}:
        return MISCALCULATED
    return INCONSISTENT


def planning(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The pace and the direction, as of the privileged expert; only if the picture shows its reason."""
    frame = asker.frame
    if (evidence := evidence_of(frame)) is None:
        return
    truth = {"action": frame.action, "reason": frame.reason, "actor": evidence.shown or None}
    if (pace := pace_class(frame)) is not None:
        speed = "standing" if frame.speed < 0.5 else "slow" if frame.speed < SLOW * frame.speed_limit else "fast"
        wrong = [(told, pace_error(frame.reason, pace, x)) for x, told in PACE_TEXTS.items() if x != pace]
        words = {**asker.situation, "speed_class": speed}
        yield asker.choose("pace-plan", words, PACE_TEXTS[pace], pace, truth, wrong)
    if (direction := direction_of(frame.action)) is not None:
        wrong = [(told, direction_error(direction, x)) for x, told in STEERING.items() if x != direction]
        words = {**asker.situation, "command": frame.command}
        yield asker.choose("direction-plan", words, STEERING[direction], direction, truth, wrong)


def pace_error(reason: str, right: str, wrong: str) -> str:
    """The error behind a wrong pace.

    Faster than right: a rule is broken, or something was not seen. Slower: something was seen that is not there, or,
    with a reason to slow down, the distance was misjudged.
    """
    if PACE_ORDER.index(wrong) > PACE_ORDER.index(right):
        return MISCONCEPTION if reason in RULES else MISREAD
    return MISREAD if reason == "clear" else MISCALCULATED


def direction_error(right: str, wrong: str) -> str:
    """The error behind a wrong direction: the wrong side was read, else it contradicts the command."""
    mirrored = right.replace("left", "?").replace("right", "left").replace("?", "right")
    return MISREAD if wrong == mirrored != right else INCONSISTENT


def chain(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """At most one chain: only if the picture shows the reason, and each step has a clear answer."""
    frame, evidence = asker.frame, evidence_of(asker.frame)
    action = action_text(frame.action)
    if evidence is None or evidence.next is None or action is None:
        return
    answers = (evidence.seen, evidence.next, action)
    steps = [ReasoningStep(name, asked, told) for (name, asked), told in zip(STEPS, answers, strict=True)]
    truth = {"reason": frame.reason, "actor": evidence.shown or None}
    yield asker.ask("cot", asker.situation, action, evidence.kind, truth, steps=steps)
