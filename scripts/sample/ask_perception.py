"""AD2-Bench's perception dimensions, basic and advanced: questions about one picture, answered from its scene."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.records import BilingualText, VisualPrompt
from scripts.sample.ask import Asker, others
from scripts.sample.scene import VEHICLES, VRU, WALKERS, Thing
from scripts.sample.words import COLORS, HAZARDS, KINDS, STATES, conditions, listing, name, place, side

BASE, ADVANCED = "perception_base", "perception_advanced"
Turns = dict[str, tuple[int, ...]]
# The turns (numbers of scenes) at which option E, or F, is correct, by sub-task.
NONE_FITS_AT: Turns = {"category": (0, 3), "attribute": (10,), "motion": (7, 13)}
ABSENT_AT: Turns = {"existence_left_right": (2, 13), "attribute": (6,), "position": (9, 15)}
LEFT_AT = (1, 12, 19)  # the turns at which a left/right question is about an object on the left
# What is counted in each scene: three scenes for each number from 0 to 6.
COUNTED = {
    "sand_convoy": "bicycle", "snow_motorway": "people", "night_walker": "cone",
    "rain_cyclist": "bicycle", "night_junction": "car", "dawn_street": "people",
    "rain_crossing": "people", "fog_crossing": "car", "overcast_school": "people",
    "snow_parked": "car", "night_family": "people", "dawn_motorway": "vehicle",
    "fog_works": "cone", "sand_works": "cone", "snow_school": "people",
    "overcast_works": "cone", "fog_crowd": "people", "night_jam": "car",
    "night_works": "cone", "rain_jam": "car", "overcast_market": "people",
}  # fmt: skip
COUNT_KINDS = {
    "car": ("car",), "people": WALKERS, "cone": ("traffic_cone",), "bicycle": ("cyclist",), "vehicle": VEHICLES,
}  # fmt: skip
COUNT_WORDS = {
    "car": BilingualText("cars", "辆轿车"),
    "people": BilingualText("people on foot", "个步行的人"),
    "cone": BilingualText("traffic cones", "个交通锥"),
    "bicycle": BilingualText("bicycles", "辆自行车"),
    "vehicle": BilingualText("motor vehicles", "辆机动车"),
}
SIDES = {
    "left": BilingualText("To the left of the ego lane", "自车道左侧"),
    "ahead": BilingualText("In the ego lane", "自车道内"),
    "right": BilingualText("To the right of the ego lane", "自车道右侧"),
    "both": BilingualText("On both sides of the ego lane", "自车道两侧都有"),
}
ALIKE = (("pedestrian", "child"), ("car", "van", "truck", "bus"))  # kinds that are no wrong options for one another
AT_EDGE = (1.2, 2.3)  # metres from the middle of the ego lane: neither clearly inside nor clearly beside it


def ask_base(a: Asker, turn: int) -> None:
    """Basic perception: a number in each scene, and two more questions that change from scene to scene."""
    _counting(a)
    asks = [_existence, _left_right, _where, _category, _location, _detection, _reference]
    for k in (0, 3):
        asks[(turn + k) % len(asks)](a, turn)


def _absent(a: Asker) -> BilingualText:
    """A kind of object that is not in the scene."""
    return KINDS[next(k for k in ("bus", "cyclist", "dog", "truck") if not a.scene.of(k))]


def _existence(a: Asker, turn: int) -> None:
    there = a.only(*VRU, "bus", "truck", "traffic_light")
    kind, answer = (KINDS[there.kind], "yes") if there is not None else (_absent(a), "no")
    article = "an" if kind.en[0] in "aeiou" else "a"
    q = BilingualText(f"Is there {article} {kind.en} in the image?", f"图像中有{kind.zh}吗？")
    a.add(BASE, "existence", "yesno", q, BilingualText(answer, answer))


def _beside_or_ahead(a: Asker) -> list[Thing]:
    """Objects with a name of their own that are clearly inside or beside the ego lane."""
    things = a.asked(*VRU, *VEHICLES, "barrier", "speed_sign", "stop_sign", "direction_sign")
    names, (low, high) = [name(t).en for t in a.scene.things], AT_EDGE
    return [t for t in things if names.count(name(t).en) == 1 and not low < abs(t.x) < high]


def _left_right(a: Asker, turn: int) -> None:
    """A question with the answers left and right (section A.5)."""
    wanted = "left" if turn in LEFT_AT else "right"
    t = next(t for t in _beside_or_ahead(a) if side(t) == wanted)
    n = name(t)
    q = BilingualText(f"Is the {n.en} to the left or to the right of the ego lane?", f"{n.zh}在自车道的左侧还是右侧？")
    a.add(BASE, "existence_left_right", "yesno", q, BilingualText(side(t), side(t)), thing=t.key)


def _where(a: Asker, turn: int) -> None:
    things = _beside_or_ahead(a)
    absent = not things or turn in ABSENT_AT["existence_left_right"]
    kind = _absent(a) if absent else name(things[0])
    q = BilingualText(f"Where is the {kind.en}, seen from the ego car?", f"从自车看，{kind.zh}在哪里？")
    if absent:
        a.choose(BASE, "existence_left_right", q, "F", list(SIDES.values()))
    else:
        a.choose(BASE, "existence_left_right", q, SIDES[side(things[0])], others(side(things[0]), SIDES, ""))


def _category(a: Asker, turn: int) -> None:
    t = a.asked(*VEHICLES, *VRU, "traffic_cone", "barrier")[-1]
    without = next((alike for alike in ALIKE if t.kind in alike), ())
    q = BilingualText("Which kind of object is in the box?", "框中的目标属于哪一类？")
    wrong = others(t.kind, KINDS, a.scene.id, 4, without)
    a.choose(BASE, "category", q, "E" if turn in NONE_FITS_AT["category"] else KINDS[t.kind], wrong, a.boxed(t))


def _counting(a: Asker) -> None:
    what = COUNTED[a.scene.id]
    things, w = a.scene.of(*COUNT_KINDS[what]), COUNT_WORDS[what]
    assert all(a.clear(t, 0.5) for t in things), (a.scene.id, what)
    q = BilingualText(f"How many {w.en} can be seen in the image?", f"图像中能看到多少{w.zh}？")
    number = str(len(things))
    a.add(BASE, "counting", "count", q, BilingualText(number, number), things=[t.key for t in things])


def _location(a: Asker, turn: int) -> None:
    t = a.asked(*VRU, *VEHICLES)[0]
    x, y = a.centre(t)
    n = name(t)
    where = place(t, a.scene) if len(a.scene.of(t.kind)) > 1 else BilingualText()
    q = BilingualText(
        f"Where is the {n.en}{' ' + where.en if where else ''}? Point at its centre.",
        f"{where.zh + '的' if where else ''}{n.zh}在哪里？请指出其中心。",
    )
    point = f"<{x:.0f},{y:.0f}>"
    a.add(BASE, "location", "point", q, BilingualText(point, point), thing=t.key)


def _detection(a: Asker, turn: int) -> None:
    t = a.only(*VEHICLES, *VRU, "barrier") or a.asked(*VEHICLES)[0]
    n = name(t)
    _box(a, "detection", t, BilingualText(f"Detect the {n.en}.", f"请检测{n.zh}。"))


def _reference(a: Asker, turn: int) -> None:
    t = a.asked(*VEHICLES)[0] if a.asked(*VEHICLES) else a.asked()[0]
    d = BilingualText(f"the {name(t).en} {place(t, a.scene).en}", f"{place(t, a.scene).zh}的{name(t).zh}")
    q = BilingualText("Find the object that is described and give its box.", "请找到所描述的目标并给出其矩形框。")
    _box(a, "reference_detection", t, q, VisualPrompt("text", (), d))


def _box(a: Asker, subtask: str, t: Thing, q: BilingualText, mark: VisualPrompt | None = None) -> None:
    box = "[" + ", ".join(f"{v:.0f}" for v in a.box(t)) + "]"
    a.add(BASE, subtask, "box", q, BilingualText(box, box), mark=mark, thing=t.key)


# --- advanced perception ---


def ask_advanced(a: Asker, turn: int) -> None:
    """Advanced perception: OCR if there is text, and two more questions."""
    _ocr(a)
    asks = [_attribute, _motion, _caption, _position, _lane_line, _others]
    asks[turn % 6](a, turn)
    asks[(turn + 2) % 6](a, turn)


def _ocr(a: Asker) -> None:
    for t in a.scene.of("speed_sign", "stop_sign", "direction_sign"):
        if a.clear(t, 0.9):
            n = KINDS[t.kind]
            words = t.text.replace("/", " ")
            a.add(
                ADVANCED,
                "ocr",
                "ocr",
                BilingualText(f"What does the {n.en} say?", f"{n.zh}上写着什么？"),
                BilingualText(words, words),
                mark=a.boxed(t),
                thing=t.key,
            )
            return


def _attribute(a: Asker, turn: int) -> None:
    light = next(iter(a.asked("traffic_light")), None)
    if turn in ABSENT_AT["attribute"]:
        kind = _absent(a)
        q = BilingualText(f"Which colour is the {kind.en}?", f"{kind.zh}是什么颜色？")
        free = BilingualText(f"There is no {kind.en} in the image.", f"图像中没有{kind.zh}。")
        a.choose(ADVANCED, "attribute", q, "F", others("", COLORS, a.scene.id, 4), free=free)
    elif light:
        lamps = {k: STATES[k] for k in ("red", "yellow", "green")} | {"off": BilingualText("off", "未亮")}
        q = BilingualText("Which signal does the traffic light show?", "交通信号灯显示什么信号？")
        now = lamps[light.state]
        free = BilingualText(f"The traffic light shows {now.en}.", f"交通信号灯显示{now.zh}。")
        a.choose(ADVANCED, "attribute", q, now, others(light.state, lamps, a.scene.id), free=free)
    else:
        t = a.asked(*VEHICLES)[0]
        kind, color = KINDS[t.kind], COLORS[t.color]
        q = BilingualText(f"Which colour is the marked {kind.en}?", f"标出的{kind.zh}是什么颜色？")
        free = BilingualText(f"The marked {kind.en} is {color.en}.", f"标出的{kind.zh}是{color.zh}。")
        right: Any = "E" if turn in NONE_FITS_AT["attribute"] else color
        a.choose(ADVANCED, "attribute", q, right, others(t.color, COLORS, a.scene.id, 4), a.dotted(t), free)


def _motion(a: Asker, turn: int) -> None:
    t = a.asked(*VEHICLES)[0]
    moves = {
        "braking": BilingualText("Braking in front of the ego car", "在自车前方制动"),
        "parked": BilingualText("Parked at the roadside", "停放在路边"),
        "oncoming": BilingualText("Coming towards the ego car", "迎面驶来"),
        "moving": BilingualText("Driving the same way as the ego car", "与自车同向行驶"),
        "turning": BilingualText("Turning off to the left", "正在左转"),
    }
    now = "oncoming" if t.heading == 180 else t.state
    n, move = name(t), moves[now]
    q = BilingualText("What is the vehicle in the box doing?", "框中的车辆正在做什么？")
    free = BilingualText(f"The {n.en} is {move.en[0].lower()}{move.en[1:]}.", f"{n.zh}{move.zh}。")
    right: Any = "E" if turn in NONE_FITS_AT["motion"] else move
    a.choose(ADVANCED, "motion", q, right, others(now, moves, a.scene.id, 4), a.boxed(t), free)


def _caption(a: Asker, turn: int) -> None:
    q = BilingualText(
        "Describe the scene in detail: weather, road, vehicles, people and signs.",
        "请详细描述该场景：天气、道路、车辆、行人和标志。",
    )
    a.add(ADVANCED, "dense_caption", "vqa", q, _all(a))


def _all(a: Asker) -> BilingualText:
    c, h = conditions(a.scene), HAZARDS[a.scene.weather]
    things = listing(a.asked(), a.scene)
    road = {
        "city": BilingualText("a city street", "城市街道"),
        "suburb": BilingualText("a road through open country", "郊外道路"),
        "highway": BilingualText("a motorway", "高速公路"),
    }[a.scene.setting]
    return BilingualText(
        f"The ego car is on {road.en} in {c.en}: {h.en}. There are: {things.en}.",
        f"自车行驶在{road.zh}上，天气为{c.zh}：{h.zh}。场景中：{things.zh}。",
    )


def _position(a: Asker, turn: int) -> None:
    if turn in ABSENT_AT["position"]:
        kind = _absent(a)
        q = BilingualText(f"Where is the {kind.en}?", f"{kind.zh}在哪里？")
        a.choose(ADVANCED, "position", q, "F", list(SIDES.values()))
        return
    t = next((t for t in a.asked(*VRU, *VEHICLES) if side(t) != "ahead"), a.asked()[0])
    q = BilingualText("Where is the marked road user?", "标出的交通参与者在哪里？")
    a.choose(ADVANCED, "position", q, SIDES[side(t)], others(side(t), SIDES, ""), a.dotted(t))


def _lane_line(a: Asker, turn: int) -> None:
    lines = {
        "yellow_dashed": BilingualText("A dashed yellow line", "黄色虚线"),
        "white_dashed": BilingualText("A dashed white line", "白色虚线"),
        "white_solid": BilingualText("A solid white line", "白色实线"),
        "double": BilingualText("A solid double yellow line", "双黄实线"),
    }
    here = "white_dashed" if a.scene.setting == "highway" else "yellow_dashed"
    q = BilingualText("Which line bounds the ego lane on its left?", "自车道左侧是什么标线？")
    a.choose(ADVANCED, "lane_line", q, lines[here], others(here, lines, ""))


def _others(a: Asker, turn: int) -> None:
    q = BilingualText("What are the weather and the state of the road like?", "天气和路面状况如何？")
    c, h = conditions(a.scene), HAZARDS[a.scene.weather]
    a.add(ADVANCED, "others", "vqa", q, BilingualText(f"It is {c.en}: {h.en}.", f"天气为{c.zh}：{h.zh}。"))
