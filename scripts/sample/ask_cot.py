"""AD2-Bench's chains of thought: environment, key vehicles, vulnerable road users, traffic rules, decision."""

from __future__ import annotations

from collections.abc import Callable

from lmms_eval_ad2.records import BilingualText, ReasoningStep, VisualPrompt
from scripts.sample.ask import Asker
from scripts.sample.ask_reasoning import decision
from scripts.sample.scene import VEHICLES, VRU
from scripts.sample.words import EFFECTS, HAZARDS, STATES, conditions, listing


def ask_cot(a: Asker) -> None:
    """One chain of five steps (appendix A.10) with a reference for each; objects are marked at their step (Fig. 4)."""
    steps = (
        ReasoningStep(
            BilingualText("environment", "环境"),
            BilingualText("What are the weather, the light and the road like?", "天气、光线和道路状况如何？"),
            _environment(a),
        ),
        ReasoningStep(
            BilingualText("key vehicles", "关键车辆"),
            BilingualText("Which vehicles matter for the ego car, and why?", "哪些车辆对自车重要？为什么？"),
            _things(a, VEHICLES, "vehicle", "车辆"),
            mark=_marked(a, VEHICLES, a.boxed),
        ),
        ReasoningStep(
            BilingualText("vulnerable road users", "弱势交通参与者"),
            BilingualText("Which people on foot or on bicycles matter, and why?", "哪些行人或骑行者重要？为什么？"),
            _things(a, VRU, "vulnerable road user", "弱势交通参与者"),
            mark=_marked(a, VRU, a.dotted),
        ),
        ReasoningStep(
            BilingualText("traffic rules", "交通规则"),
            BilingualText(
                "Which lights, signs and markings apply to the ego car?", "哪些信号灯、标志和标线适用于自车？"
            ),
            _rules(a),
        ),
        ReasoningStep(
            BilingualText("decision", "决策"),
            BilingualText("What should the ego car do?", "自车应该怎么做？"),
            decision(a),
        ),
    )
    q = BilingualText("How should the ego car drive on from here?", "自车接下来应如何行驶？")
    a.add("cot", "holistic", "chain", q, decision(a), steps=steps)


def _marked(a: Asker, kinds: tuple[str, ...], mark: Callable[..., VisualPrompt]) -> VisualPrompt | None:
    """The visual prompt of a step: the clearly visible objects of these kinds, at most four; None if there is none."""
    things = a.asked(*kinds)[:4]
    return mark(*things) if things else None


def _environment(a: Asker) -> BilingualText:
    c, h = conditions(a.scene), HAZARDS[a.scene.weather]
    return BilingualText(f"It is {c.en}: {h.en}.", f"当前为{c.zh}：{h.zh}。")


def _things(a: Asker, kinds: tuple[str, ...], en: str, zh: str) -> BilingualText:
    things = a.asked(*kinds)
    if not things:
        return BilingualText(f"No {en} is in sight.", f"视野内没有{zh}。")
    listed, effect = listing(things, a.scene), EFFECTS[things[0].kind]
    return BilingualText(
        f"There are: {listed.en}. The nearest matters most: {effect.en}.",
        f"有：{listed.zh}。最近的最重要：{effect.zh}。",
    )


def _rules(a: Asker) -> BilingualText:
    en, zh = [], []
    if a.scene.light:
        lamp = STATES[a.scene.light]
        en.append(f"the traffic light is {lamp.en}")
        zh.append(f"信号灯为{lamp.zh}")
    for t in a.asked("speed_sign", "stop_sign", "warning_sign"):
        match t.kind:
            case "speed_sign":
                en.append(f"the speed limit is {t.text}")
                zh.append(f"限速{t.text}")
            case "stop_sign":
                en.append("a stop sign asks to stop at the junction")
                zh.append("停车标志要求在路口停车")
            case _:
                what = BilingualText("road works", "施工") if t.text == "works" else BilingualText("danger", "危险")
                en.append(f"a sign warns of {what.en}")
                zh.append(f"警告标志提示{what.zh}")
    if a.scene.crossing is not None:
        en.append("people on the zebra crossing go first")
        zh.append("人行横道上的行人优先")
    line = BilingualText("the dashed line on the left", "左侧虚线")
    en.append(f"{line.en} may be crossed only if the way is free")
    zh.append(f"只有在安全时才可越过{line.zh}")
    return BilingualText((text := "; ".join(en))[0].upper() + text[1:] + ".", "；".join(zh) + "。")
