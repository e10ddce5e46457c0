"""Texts of the sample's questions and answers, English and Chinese, composed from the objects of a scene."""

from __future__ import annotations

from importlib import resources

import yaml

from lmms_eval_ad2.records import BilingualText
from scripts.sample.scene import EGO_LEFT, EGO_RIGHT, VEHICLES, Scene, Thing


def _tables() -> dict[str, dict[str, BilingualText]]:
    data = yaml.safe_load(resources.files(__package__).joinpath("words.yaml").read_text("utf-8"))
    return {table: {key: BilingualText(*pair) for key, pair in rows.items()} for table, rows in data.items()}


_WORDS = _tables()
KINDS, COLORS, WEATHERS, LEVELS = (_WORDS[t] for t in ("kinds", "colors", "weathers", "levels"))
HAZARDS = _WORDS["hazards"]  # by weather: its effect on driving
ADVICE = _WORDS["advice"]  # by weather: recommended behaviour
EFFECTS = _WORDS["effects"]  # by kind of object: its effect on the ego car
STATES = _WORDS["states"]


def name(t: Thing) -> BilingualText:
    """The object by colour and kind: "red car", "pedestrian in green", "speed limit sign"."""
    kind, color = KINDS[t.kind], COLORS.get(t.color, BilingualText())
    if t.kind in VEHICLES:
        return BilingualText(f"{color.en} {kind.en}", color.zh + kind.zh)
    if t.kind in ("pedestrian", "child", "cyclist"):
        return BilingualText(f"{kind.en} in {color.en}", f"穿{color.zh}上衣的{kind.zh}")
    return kind


def side(t: Thing) -> str:
    """Position of an object relative to the ego lane: left, ahead or right."""
    return "left" if t.x < EGO_LEFT else "right" if t.x > EGO_RIGHT else "ahead"


def place(t: Thing, scene: Scene) -> BilingualText:
    """The position of an object in words."""
    meters = round(abs(t.z))
    if t.kind == "traffic_light":
        where = BilingualText("above and beside the road", "道路上方和路侧")
    elif side(t) == "ahead":
        where = BilingualText("ahead in the ego lane", "自车道前方")
    elif side(t) == "left":
        lane = t.x > scene.road[0] and t.heading == 180
        where = (
            BilingualText("in the oncoming lane on the left", "左侧对向车道")
            if lane
            else BilingualText("on the left", "左侧")
        )
    else:
        where = BilingualText("on the right", "右侧")
    return BilingualText(f"{where.en}, about {meters} m away", f"{where.zh}约{meters}米处")


def state(t: Thing) -> BilingualText:
    """The activity of an object; empty if it has none."""
    return STATES.get(t.state, BilingualText())


def describe(t: Thing, scene: Scene) -> BilingualText:
    """A phrase about one object: kind, position, activity or text."""
    n, p, s = name(t), place(t, scene), state(t)
    en, zh = f"a {n.en} {p.en}" if n.en[0] not in "aeo" else f"an {n.en} {p.en}", f"{p.zh}有{n.zh}"
    if t.kind == "traffic_light":
        en, zh = en + f", showing {s.en}", zh + f"，显示{s.zh}"
    elif s:
        en, zh = en + f", {s.en}", zh + f"，{s.zh}"
    if t.kind in ("speed_sign", "direction_sign", "stop_sign"):
        words = t.text.replace("/", ", ")
        en, zh = en + f", reading {words}", zh + f"，内容为{words}"
    return BilingualText(en, zh)


def listing(things: list[Thing], scene: Scene) -> BilingualText:
    """Several objects in one phrase; "none" if there is none."""
    if not things:
        return BilingualText("none", "没有")
    rows = [describe(t, scene) for t in things]
    return BilingualText("; ".join(r.en for r in rows), "；".join(r.zh for r in rows))


def conditions(scene: Scene) -> BilingualText:
    """Weather and severity: "severe rain"."""
    w, level = WEATHERS[scene.weather], LEVELS[scene.severity]
    if scene.weather in ("rainy", "snowy", "fog"):
        return BilingualText(f"{level.en} {w.en}", level.zh + w.zh)
    return w
