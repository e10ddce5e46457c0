"""AD2-Bench's perception dimensions, basic and advanced: questions about one picture, answered from its scene."""

from __future__ import annotations

from lmms_eval_ad2.records import BilingualText, VisualPrompt
from scripts.sample.ask import Asker, others
from scripts.sample.scene import VEHICLES, VRU, WALKERS, Thing
from scripts.sample.words import COLORS, HAZARDS, KINDS, STATES, conditions, listing, name, place, side

BASE, ADVANCED = "perception_base", "perception_advanced"
COUNTED = {"car": ("car",), "people": WALKERS, "cone": ("traffic_cone",)}
COUNT_WORDS = {
    "car": BilingualText("cars", "轿车"),
    "people": BilingualText("people on foot", "步行的人"),
    "cone": BilingualText("traffic cones", "交通锥"),
}
SIDES = {
    "left": BilingualText("To the left of the ego lane", "自车道左侧"),
    "ahead": BilingualText("In the ego lane", "自车道内"),
    "right": BilingualText("To the right of the ego lane", "自车道右侧"),
    "both": BilingualText("On both sides of the ego lane", "自车道两侧都有"),
}


def ask_base(a: Asker, turn: int) -> None:
    """Basic perception. `turn` varies the questions from scene to scene."""
    asks = [_existence, _left_right, _category, _counting, _location, _detection, _reference]
    for k in (0, 2, 4)[: 2 + turn % 2]:
        asks[(turn + k) % 7](a)


def _existence(a: Asker) -> None:
    there = a.only(*VRU, "bus", "truck", "traffic_light")
    if there is not None and len(a.scene.id) % 2:
        kind, answer = KINDS[there.kind], "yes"
    else:
        kind, answer = KINDS[next(k for k in ("bus", "cyclist", "dog", "truck") if not a.scene.of(k))], "no"
    article = "an" if kind.en[0] in "aeiou" else "a"
    q = BilingualText(f"Is there {article} {kind.en} in the image?", f"图像中有{kind.zh}吗？")
    a.add(BASE, "existence", "yesno", q, BilingualText(answer, answer))


def _left_right(a: Asker) -> None:
    t = a.only(*VRU, *VEHICLES, "barrier", "speed_sign", "stop_sign")
    if t is None or a.scene.crossing is not None:  # ask about something that is not there
        kind = KINDS["dog"]
    else:
        kind = KINDS[t.kind]
    q = BilingualText(f"Where is the {kind.en}, seen from the ego car?", f"从自车看，{kind.zh}在哪里？")
    if t is None or kind is KINDS["dog"]:
        a.choose(BASE, "existence_left_right", q, "F", list(SIDES.values()))
    else:
        a.choose(BASE, "existence_left_right", q, SIDES[side(t)], others(side(t), SIDES, ""))


def _category(a: Asker) -> None:
    t = a.asked(*VEHICLES, *VRU, "traffic_cone", "barrier")[-1]
    without = ("child",) if t.kind == "pedestrian" else ("pedestrian",) if t.kind == "child" else ()
    q = BilingualText("Which kind of object is in the box?", "框中的目标属于哪一类？")
    none_fits = a.scene.setting == "highway"
    wrong = others(t.kind, KINDS, a.scene.id, 4, without)
    a.choose(BASE, "category", q, "E" if none_fits else KINDS[t.kind], wrong, a.boxed(t))


def _counting(a: Asker) -> None:
    for what, kinds in COUNTED.items():
        things = a.scene.of(*kinds)
        if things and all(a.clear(t, 0.5) for t in things):
            w = COUNT_WORDS[what]
            q = BilingualText(f"How many {w.en} can be seen in the image?", f"图像中能看到多少{w.zh}？")
            a.add(
                BASE,
                "counting",
                "count",
                q,
                BilingualText(str(len(things)), str(len(things))),
                things=[t.key for t in things],
            )
            return
    q = BilingualText("How many bicycles can be seen in the image?", "图像中能看到多少辆自行车？")
    keys = [t.key for t in a.scene.of("cyclist")]
    a.add(BASE, "counting", "count", q, BilingualText(str(len(keys)), str(len(keys))), things=keys)


def _location(a: Asker) -> None:
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


def _detection(a: Asker) -> None:
    t = a.only(*VEHICLES, *VRU, "barrier") or a.asked(*VEHICLES)[0]
    n = name(t)
    _box(a, "detection", t, BilingualText(f"Detect the {n.en}.", f"请检测{n.zh}。"))


def _reference(a: Asker) -> None:
    t = a.asked(*VEHICLES)[0] if a.asked(*VEHICLES) else a.asked()[0]
    d = BilingualText(f"the {name(t).en} {place(t, a.scene).en}", f"{place(t, a.scene).zh}的{name(t).zh}")
    q = BilingualText("Find the object that is described and give its box.", "请找到所描述的目标并给出其矩形框。")
    _box(a, "reference_detection", t, q, VisualPrompt("text", (), d.en))


def _box(a: Asker, subtask: str, t: Thing, q: BilingualText, mark: VisualPrompt | None = None) -> None:
    box = "[" + ", ".join(f"{v:.0f}" for v in a.box(t)) + "]"
    a.add(BASE, subtask, "box", q, BilingualText(box, box), mark=mark, thing=t.key)


# --- advanced perception ---


def ask_advanced(a: Asker, turn: int) -> None:
    """Advanced perception: OCR if there is text, and two more questions."""
    _ocr(a)
    asks = [_attribute, _motion, _caption, _position, _lane_line, _others]
    asks[turn % 6](a)
    asks[(turn + 2) % 6](a)


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


def _attribute(a: Asker) -> None:
    light = next(iter(a.asked("traffic_light")), None)
    if light:
        lamps = {k: STATES[k] for k in ("red", "yellow", "green")} | {"off": BilingualText("off", "未亮")}
        q = BilingualText("Which signal does the traffic light show?", "交通信号灯显示什么信号？")
        a.choose(ADVANCED, "attribute", q, lamps[light.state], others(light.state, lamps, a.scene.id))
        return
    t = a.asked(*VEHICLES)[0]
    q = BilingualText(f"Which colour is the marked {KINDS[t.kind].en}?", f"标出的{KINDS[t.kind].zh}是什么颜色？")
    a.choose(ADVANCED, "attribute", q, COLORS[t.color], others(t.color, COLORS, a.scene.id), a.dotted(t))


def _motion(a: Asker) -> None:
    t = a.asked(*VEHICLES)[0]
    moves = {
        "braking": BilingualText("Braking in front of the ego car", "在自车前方制动"),
        "parked": BilingualText("Parked at the roadside", "停放在路边"),
        "oncoming": BilingualText("Coming towards the ego car", "迎面驶来"),
        "moving": BilingualText("Driving the same way as the ego car", "与自车同向行驶"),
        "turning": BilingualText("Turning off to the left", "正在左转"),
    }
    now = "oncoming" if t.heading == 180 else t.state
    q = BilingualText("What is the vehicle in the box doing?", "框中的车辆正在做什么？")
    a.choose(ADVANCED, "motion", q, moves[now], others(now, moves, a.scene.id), a.boxed(t))


def _caption(a: Asker) -> None:
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


def _position(a: Asker) -> None:
    t = next((t for t in a.asked(*VRU, *VEHICLES) if side(t) != "ahead"), a.asked()[0])
    q = BilingualText("Where is the marked road user?", "标出的交通参与者在哪里？")
    a.choose(ADVANCED, "position", q, SIDES[side(t)], others(side(t), SIDES, ""), a.dotted(t))


def _lane_line(a: Asker) -> None:
    lines = {
        "yellow_dashed": BilingualText("A dashed yellow line", "黄色虚线"),
        "white_dashed": BilingualText("A dashed white line", "白色虚线"),
        "white_solid": BilingualText("A solid white line", "白色实线"),
        "double": BilingualText("A solid double yellow line", "双黄实线"),
    }
    here = "white_dashed" if a.scene.setting == "highway" else "yellow_dashed"
    q = BilingualText("Which line bounds the ego lane on its left?", "自车道左侧是什么标线？")
    a.choose(ADVANCED, "lane_line", q, lines[here], others(here, lines, ""))


def _others(a: Asker) -> None:
    q = BilingualText("What are the weather and the state of the road like?", "天气和路面状况如何？")
    c, h = conditions(a.scene), HAZARDS[a.scene.weather]
    a.add(ADVANCED, "others", "vqa", q, BilingualText(f"It is {c.en}: {h.en}.", f"天气为{c.zh}：{h.zh}。"))
