"""CODA-LM's three tasks: the whole scene, each object in its red rectangle, and advice."""

from __future__ import annotations

from lmms_eval_ad2.records import BilingualText
from scripts.sample.ask import Asker
from scripts.sample.ask_reasoning import decision, key_thing
from scripts.sample.scene import Thing
from scripts.sample.words import EFFECTS, HAZARDS, conditions, describe, name

# kind of thing -> (category_name, class) of the release
CATEGORIES: dict[str, tuple[str, str]] = {
    "car": ("car", "vehicle"),
    "van": ("car", "vehicle"),
    "truck": ("truck", "vehicle"),
    "bus": ("bus", "vehicle"),
    "pedestrian": ("pedestrian", "vru"),
    "child": ("pedestrian", "vru"),
    "worker": ("pedestrian", "vru"),
    "cyclist": ("cyclist", "vru"),
    "traffic_cone": ("traffic_cone", "traffic_cone"),
    "barrier": ("barrier", "barrier"),
    "traffic_light": ("traffic_light", "traffic_light"),
    "speed_sign": ("traffic_sign", "traffic_sign"),
    "stop_sign": ("traffic_sign", "traffic_sign"),
    "direction_sign": ("traffic_sign", "traffic_sign"),
    "warning_sign": ("warning_sign", "traffic_sign"),
    "dog": ("dog", "miscellaneous"),
    "carton": ("carton", "miscellaneous"),
}
GENERAL = BilingualText("What in this scene matters for driving, and why?")
REGION = BilingualText("What is the object, and how does it affect the ego car?")
SUGGESTION = BilingualText("How should the ego car drive here?")


def ask_coda(a: Asker) -> None:
    """General perception, a suggestion, and a region question for each visible kind of object, three at most."""
    a.add("general", "general", "vqa", GENERAL, _general(a))
    a.add("suggestion", "suggestion", "vqa", SUGGESTION, _suggestion(a))
    kinds: set[str] = set()
    for t in sorted(a.asked(), key=lambda t: CATEGORIES[t.kind][1] == "vehicle"):  # the unusual first
        if t.kind not in kinds and len(kinds) < 3:
            kinds.add(t.kind)
            category, cls = CATEGORIES[t.kind]
            a.add(
                "region",
                "region",
                "vqa",
                REGION,
                _region(a, t),
                mark=a.boxed(t),
                category_name=category,
                category=cls,
                object_key=str(len(kinds)),
            )


def _region(a: Asker, t: Thing) -> BilingualText:
    d, e = describe(t, a.scene), EFFECTS[t.kind]
    return BilingualText(f"This is {d.en}. {e.en[0].upper() + e.en[1:]}.", f"{d.zh}。{e.zh}。")


def _general(a: Asker) -> BilingualText:
    c, h = conditions(a.scene), HAZARDS[a.scene.weather]
    en, zh = [f"The scene is set in {c.en}: {h.en}."], [f"场景为{c.zh}：{h.zh}。"]
    for t in a.asked():
        d, e = describe(t, a.scene), EFFECTS[t.kind]
        en.append(f"There is {d.en}; {e.en}.")
        zh.append(f"{d.zh}；{e.zh}。")
    return BilingualText(" ".join(en), "".join(zh))


def _suggestion(a: Asker) -> BilingualText:
    text, t = decision(a), key_thing(a)
    if t is None:
        return text
    n = name(t)
    return BilingualText(
        f"{text.en} Keep an eye on the {n.en} until it is passed.", f"{text.zh}在通过之前持续留意{n.zh}。"
    )
