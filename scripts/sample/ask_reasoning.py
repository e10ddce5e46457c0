"""AD2-Bench's reasoning dimension: questions about one picture, answered from its scene."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.records import BilingualText, VisualPrompt
from scripts.sample.ask import Asker, others
from scripts.sample.scene import VEHICLES, VRU, Thing
from scripts.sample.words import ADVICE, EFFECTS, HAZARDS, STATES, conditions, name, place, side

REASONING = "reasoning"
# Weathers whose effects are easily taken for each other: no wrong options for one another. Those of COMMON fit many.
ALIKE = {"overcast": ("dawn",), "fog": ("sand",), "sand": ("fog",)}
COMMON = ("overcast", "clear")
NONE_FITS_AT = (1, 11)  # the turns (numbers of scenes) at which option E is correct


def ask_reasoning(a: Asker, turn: int) -> None:
    """Weather or night; alternately the whole scene and a region, or occlusion and another's point of view."""
    _weather(a, turn)
    if turn % 2:
        _holistic(a)
        _region(a)
    else:
        _occlusion_reasoning(a)
        _cross_role(a)


def _weather(a: Asker, turn: int) -> None:
    """The effect of the weather, or of the dark, in both forms; the options name effects, the free text also advice."""
    w, h, d = conditions(a.scene), HAZARDS[a.scene.weather], ADVICE[a.scene.weather]
    answer = BilingualText(
        f"It is {w.en}: {h.en}. The driver should {d.en}.", f"当前为{w.zh}：{h.zh}。驾驶员应{d.zh}。"
    )
    night = a.scene.weather == "night"
    q = BilingualText("How does the weather affect driving here?", "这里的天气如何影响驾驶？")
    if night:
        q = BilingualText("Which risks come from the darkness and the lights here?", "这里的黑暗和灯光带来哪些风险？")
    q = BilingualText(f"{q.en[:-1]}, and how should the driver respond?", f"{q.zh}驾驶员应如何应对？")
    effects = {k: BilingualText(e.en[0].upper() + e.en[1:], e.zh) for k, e in HAZARDS.items()}
    wrong = others(a.scene.weather, effects, a.scene.id, 4, (*COMMON, *ALIKE.get(a.scene.weather, ())))
    right: Any = "E" if turn in NONE_FITS_AT else effects[a.scene.weather]
    a.choose(REASONING, "night" if night else "weather", q, right, wrong, free=answer)


def _holistic(a: Asker) -> None:
    q = BilingualText(
        "Taking everything into account, what should the ego car do now?", "综合所有因素，自车现在应该怎么做？"
    )
    a.add(REASONING, "holistic", "vqa", q, decision(a))


def decision(a: Asker) -> BilingualText:
    """Recommended behaviour of the ego car with its reason: the nearest relevant object, then the weather."""
    t, d = key_thing(a), ADVICE[a.scene.weather]
    if a.scene.light in ("red", "yellow"):
        en, zh = (
            f"Stop before the crossing, because the traffic light is {a.scene.light}",
            f"在路口前停车，因为信号灯为{STATES[a.scene.light].zh}",
        )
    elif t is None:
        en, zh = "Drive on", "继续行驶"
    else:
        en, zh = (
            f"Watch the {name(t).en} {place(t, a.scene).en}: {EFFECTS[t.kind].en}",
            f"注意{place(t, a.scene).zh}的{name(t).zh}：{EFFECTS[t.kind].zh}",
        )
    return BilingualText(f"{en}. Besides, {d.en}.", f"{zh}。此外，{d.zh}。")


def key_thing(a: Asker) -> Thing | None:
    """Crossing people first, then objects in the ego lane, then works, then the nearest object."""
    things = a.asked(*VRU, *VEHICLES, "traffic_cone", "barrier", "dog", "carton")
    order = sorted(
        things, key=lambda t: (t.state != "crossing", side(t) != "ahead", t.kind not in ("traffic_cone", "worker"), t.z)
    )
    return order[0] if order else None


def _region(a: Asker) -> None:
    zone = a.asked("traffic_cone", "barrier", "worker")
    q = BilingualText(
        "What is going on in the marked region, and what does it mean for the ego car?",
        "标出的区域内发生了什么？对自车意味着什么？",
    )
    if zone:
        answer = BilingualText(
            "Road works close the right edge of the road: cones lead past a barrier where people work. "
            "The ego car should slow down, keep left of the cones and watch the workers.",
            "右侧路边正在施工：交通锥引导车辆绕过护栏，护栏后有人作业。自车应减速，靠交通锥左侧通过，并留意施工人员。",
        )
    else:
        zone = [t for t in a.asked(*VRU) if t.state == "crossing"]
        answer = BilingualText(
            "People cross the road here. The ego car should stop and let them pass.",
            "有人正在此处横穿道路，自车应停车让行。",
        )
    if zone:
        boxes = [a.box(t) for t in zone]
        box = (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))
        a.add(REASONING, "region", "vqa", q, answer, mark=VisualPrompt("box", (box,)))


def _occlusion_reasoning(a: Asker) -> None:
    t = next(
        (t for t in a.scene.of(*VRU, *VEHICLES) if (s := a.seen(t)) and 0.25 < s.visible < 0.9 and s.pixels > 120), None
    )
    if t is None:
        return
    n, e = name(t), EFFECTS[t.kind]
    q = BilingualText(
        "The marked target is only partly visible. What is it, and which risk comes from it?",
        "标出的目标只有部分可见。它是什么？会带来什么风险？",
    )
    a.add(
        REASONING,
        "occlusion_reasoning",
        "vqa",
        q,
        BilingualText(
            f"It is a {n.en}, partly hidden, so it may be noticed late: {e.en}.",
            f"它是{n.zh}，部分被遮挡，可能较晚才被发现：{e.zh}。",
        ),
        mark=a.dotted(t),
    )


def _cross_role(a: Asker) -> None:
    t = next(iter(a.asked(*VRU) or a.asked(*VEHICLES)), None)
    if t is None:
        return
    n = name(t)
    want = {
        "crossing": BilingualText("get to the other side of the road", "到达道路另一侧"),
        "working": BilingualText("get on with the works", "继续施工"),
        "waiting": BilingualText("wait for a gap and then cross", "等待间隙后过街"),
    }.get(t.state, BilingualText("follow the road without being disturbed", "不受干扰地沿路行驶"))
    q = BilingualText(
        "Put yourself in the place of the marked road user: what is intended, and what should be done "
        "about the ego car?",
        "站在标出的交通参与者的角度：它的意图是什么？面对自车应该怎么做？",
    )
    a.add(
        REASONING,
        "cross_role",
        "vqa",
        q,
        BilingualText(
            f"The {n.en} wants to {want.en}, and should make sure of being seen by the ego car and keep clear "
            "of its way.",
            f"{n.zh}想要{want.zh}；应确认自车已看到自己，并避开自车的行驶路线。",
        ),
        mark=a.dotted(t),
    )
