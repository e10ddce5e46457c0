"""AD2-Bench's relation and reasoning dimensions: questions about one picture, answered from its scene."""

from __future__ import annotations

from lmms_eval_ad2.records import BilingualText, VisualPrompt
from scripts.sample.ask import Asker
from scripts.sample.scene import VEHICLES, VRU, WALKERS, Thing
from scripts.sample.words import ADVICE, EFFECTS, HAZARDS, STATES, conditions, name, place, side

RELATION, REASONING = "relation", "reasoning"


# --- relations ---


def ask_relation(a: Asker, turn: int) -> None:
    """Social, causal and occlusion relations if the scene has them; spatial ones for every second scene."""
    if turn % 2:
        _spatial(a)
    _social(a)
    _causal(a)
    _occlusion(a)


def _spatial(a: Asker) -> None:
    things = a.asked(*VEHICLES, *VRU)
    if len(things) < 2:
        return
    near, far = things[0], things[-1]
    ahead = round(abs(far.z) - abs(near.z))
    way = (
        BilingualText("left", "左侧")
        if far.x < near.x - 0.5
        else BilingualText("right", "右侧")
        if far.x > near.x + 0.5
        else BilingualText()
    )
    en = f"The {name(far).en} (2) is about {ahead} m farther away than the {name(near).en} (1)"
    zh = f"{name(far).zh}（2）比{name(near).zh}（1）远约{ahead}米"
    q = BilingualText("Where is target 2 in relation to target 1?", "目标2相对于目标1在什么位置？")
    a.add(
        RELATION,
        "spatial",
        "vqa",
        q,
        BilingualText(en + (f", to its {way.en}." if way else "."), zh + (f"，位于其{way.zh}。" if way else "。")),
        mark=a.dotted(near, far),
    )


def _social(a: Asker) -> None:
    pair = a.asked("worker") if len(a.asked("worker")) > 1 else [*a.asked("pedestrian"), *a.asked("child")]
    if len(pair) < 2:
        return
    q = BilingualText("How do the two marked people belong together?", "标出的两个人之间是什么关系？")
    if pair[0].kind == "worker":
        answer = BilingualText(
            "They are colleagues: both wear yellow safety vests and work behind the barrier.",
            "他们是同事：都穿着黄色安全背心，在护栏后施工。",
        )
    else:
        answer = BilingualText(
            "An adult and a child, probably a parent with their child, cross the road side by side.",
            "一名成人和一名儿童，很可能是家长带着孩子，并排横穿道路。",
        )
    a.add(RELATION, "social", "vqa", q, answer, mark=a.boxed(*pair[:2]))


def _causal(a: Asker) -> None:
    lead = a.scene.get("lead")
    light, walkers = a.scene.light, [t for t in a.asked(*WALKERS) if t.state == "crossing"]
    if lead and lead.state == "braking" and a.clear(lead):
        why = (
            BilingualText("the traffic light is red and people are crossing", "前方为红灯且有人正在过街")
            if light == "red"
            else BilingualText("the traffic light has turned yellow", "信号灯已变为黄灯")
            if light == "yellow"
            else BilingualText("road works narrow the road and visibility is poor", "施工使道路变窄且能见度差")
        )
        q = BilingualText(
            "Why is the vehicle ahead braking, and what follows for the ego car?",
            "前车为什么制动？这对自车意味着什么？",
        )
        a.add(
            RELATION,
            "causal",
            "vqa",
            q,
            BilingualText(
                f"The {name(lead).en} brakes because {why.en}; the ego car must brake too and keep its distance.",
                f"{name(lead).zh}因为{why.zh}而制动；自车也必须制动并保持车距。",
            ),
            mark=a.boxed(lead),
        )
    elif walkers:
        n = name(walkers[0])
        q = BilingualText("How does the marked person change what the ego car may do?", "标出的人如何影响自车的行为？")
        a.add(
            RELATION,
            "causal",
            "vqa",
            q,
            BilingualText(
                f"The {n.en} is crossing the road, so the ego car must slow down and stop to give way.",
                f"{n.zh}正在横穿道路，因此自车必须减速停车让行。",
            ),
            mark=a.dotted(walkers[0]),
        )


def _occlusion(a: Asker) -> None:
    hidden = [
        t
        for t in a.scene.things
        if t.kind in (*VEHICLES, *VRU) and (s := a.seen(t)) and 0.25 < s.visible < 0.9 and s.pixels > 120
    ]
    if not hidden:
        return
    t = hidden[0]
    front = _hider(a, t)
    q = BilingualText("Is the marked target hidden by something, and by what?", "标出的目标是否被遮挡？被什么遮挡？")
    a.add(
        RELATION,
        "occlusion",
        "vqa",
        q,
        BilingualText(
            f"Yes, the {name(t).en} is partly hidden by the {name(front).en} in front of it.",
            f"是的，{name(t).zh}被其前方的{name(front).zh}部分遮挡。",
        ),
        mark=a.dotted(t),
    )


def _hider(a: Asker, t: Thing) -> Thing:
    """The nearer object whose box overlaps most with that of `t`."""
    x1, y1, x2, y2 = a.box(t)

    def overlap(o: Thing) -> float:
        s = a.seen(o)
        if s is None or o.z >= t.z:
            return 0.0
        wide = min(x2 + 40, s.box[2]) - max(x1 - 40, s.box[0])
        high = min(y2, s.box[3]) - max(y1, s.box[1])
        return max(0.0, wide) * max(0.0, high)

    return max(a.scene.things, key=overlap)


# --- reasoning and decision ---


def ask_reasoning(a: Asker, turn: int) -> None:
    """Weather or night; alternately the whole scene and a region, or occlusion and another's point of view."""
    _weather(a)
    if turn % 2:
        _holistic(a)
        _region(a)
    else:
        _occlusion_reasoning(a)
        _cross_role(a)


def _weather(a: Asker) -> None:
    w, h, d = conditions(a.scene), HAZARDS[a.scene.weather], ADVICE[a.scene.weather]
    answer = BilingualText(
        f"It is {w.en}: {h.en}. The driver should {d.en}.", f"当前为{w.zh}：{h.zh}。驾驶员应{d.zh}。"
    )
    if a.scene.weather == "night":
        q = BilingualText(
            "Which risks come from the darkness and the lights here, and how should the driver respond?",
            "这里的黑暗和灯光带来哪些风险？驾驶员应如何应对？",
        )
        a.add(REASONING, "night", "vqa", q, answer)
    else:
        q = BilingualText(
            "How does the weather affect driving here, and how should the driver respond?",
            "这里的天气如何影响驾驶？驾驶员应如何应对？",
        )
        a.add(REASONING, "weather", "vqa", q, answer)


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
