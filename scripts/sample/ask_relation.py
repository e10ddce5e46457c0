"""AD2-Bench's relation dimension: questions about one picture in both forms, answered from its scene."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.records import BilingualText
from scripts.sample.ask import Asker
from scripts.sample.scene import VEHICLES, VRU, WALKERS, Thing
from scripts.sample.words import name

RELATION = "relation"
# The turns (numbers of scenes) at which option E, or F, is correct, by sub-task.
NONE_FITS_AT: dict[str, tuple[int, ...]] = {"social": (10,), "causal": (5,), "occlusion": (5, 12)}
ABSENT_AT = (3, 8, 19)  # of causal: nobody crosses the road there

PLACES = {
    "far left": BilingualText("Farther away than target 1, to its left", "比目标1更远，位于其左侧"),
    "far right": BilingualText("Farther away than target 1, to its right", "比目标1更远，位于其右侧"),
    "near left": BilingualText("Nearer than target 1, to its left", "比目标1更近，位于其左侧"),
    "near right": BilingualText("Nearer than target 1, to its right", "比目标1更近，位于其右侧"),
}
TIES = {
    "colleagues": BilingualText("Colleagues at work", "正在工作的同事"),
    "family": BilingualText("A parent with a child", "家长与孩子"),
    "police": BilingualText("A police officer and a driver", "交警与司机"),
    "strangers": BilingualText("Strangers on opposite sides of the road", "道路两侧互不相识的人"),
    "cyclists": BilingualText("Cyclists who ride together", "结伴骑行的人"),
}
CAUSES = {
    "red": BilingualText("The traffic light is red", "前方为红灯"),
    "yellow": BilingualText("The traffic light has turned yellow", "信号灯已变为黄灯"),
    "works": BilingualText("Road works narrow the road", "施工使道路变窄"),
    "traffic": BilingualText("All lanes ahead are full of cars", "前方各车道都是车"),
    "animal": BilingualText("An animal runs across the road", "有动物横穿道路"),
    "stop": BilingualText("A stop sign is at the junction", "路口有停车让行标志"),
}
CONSEQUENCES = {
    "stop": BilingualText("It must slow down and stop to give way", "必须减速停车让行"),
    "overtake": BilingualText("It may overtake at once", "可以立即超车"),
    "faster": BilingualText("It should drive faster to pass first", "应加速抢先通过"),
    "none": BilingualText("It may drive on at the same speed, since the road stays free", "道路畅通，可以保持车速"),
    "reverse": BilingualText("It must drive backwards", "必须倒车"),
}


def ask_relation(a: Asker, turn: int) -> None:
    """Social, causal and occlusion relations if the scene has them; spatial ones for every second scene."""
    if turn % 2:
        _spatial(a, turn)
    _social(a, turn)
    _causal(a, turn)
    _occlusion(a, turn)


def _wrong(table: dict[str, BilingualText], right: str) -> list[BilingualText]:
    """The other entries of a table, in its order."""
    return [text for key, text in table.items() if key != right]


def _named(*things: Thing) -> BilingualText:
    """The targets in words, as an alternative to their marks; several are numbered as the marks are."""
    if len(things) == 1:
        return BilingualText(f"the {name(things[0]).en}", name(things[0]).zh)
    texts = [(i, name(t)) for i, t in enumerate(things, 1)]
    en, zh = ", ".join(f"the {n.en} (target {i})" for i, n in texts), "、".join(f"{n.zh}（目标{i}）" for i, n in texts)
    return BilingualText(en, zh)


def _pair(a: Asker) -> tuple[Thing, Thing, str] | None:
    """A near and a far object, and the side of the far one: "left", "right", or "" straight behind the near one.

    The side is the same on the road (metres) and in the image (pixels), with a margin.
    """
    things = a.asked(*VEHICLES, *VRU)
    for far in reversed(things):
        for near in things:
            across, pixels = far.x - near.x, a.centre(far)[0] - a.centre(near)[0]
            if far.z - near.z < 4:
                continue
            if abs(across) < 0.5 and abs(pixels) < 25:
                return near, far, ""
            if abs(across) > 0.8 and abs(pixels) > 25 and across * pixels > 0:
                return near, far, "left" if across < 0 else "right"
    return None


def _spatial(a: Asker, turn: int) -> None:
    """Where target 2 is, seen from target 1: alternately the farther and the nearer one of two."""
    found = _pair(a)
    if found is None:
        return
    (near, far, way), nearer = found, turn % 4 == 1
    one, two = (far, near) if nearer else (near, far)
    way = {"left": "right", "right": "left"}.get(way, way) if nearer else way
    ahead = round(far.z - near.z)
    than = "nearer" if nearer else "farther away"
    en = f"The {name(two).en} (2) is about {ahead} m {than} than the {name(one).en} (1)"
    zh = f"{name(two).zh}（2）比{name(one).zh}（1）{'近' if nearer else '远'}约{ahead}米"
    sides = {"left": "，位于其左侧。", "right": "，位于其右侧。", "": "，两者在同一方向。"}
    free = BilingualText(en + (f", to its {way}." if way else ", in the same direction."), zh + sides[way])
    q = BilingualText("Where is target 2 in relation to target 1?", "目标2相对于目标1在什么位置？")
    place = f"{'near' if nearer else 'far'} {way}"
    right: Any = PLACES[place] if way else "E"
    a.choose(RELATION, "spatial", q, right, _wrong(PLACES, place), a.dotted(one, two, text=_named(one, two)), free)


def _couple(a: Asker) -> list[Thing]:
    """Two road workers, or a child and the adult beside it; an empty list if the scene has neither."""
    workers, children = a.asked("worker"), a.asked("child")
    if len(workers) > 1:
        return workers[:2]
    near = [t for t in a.asked("pedestrian") if children and abs(t.x - children[0].x) < 1.2 and t.z == children[0].z]
    return [near[0], children[0]] if near else []


def _social(a: Asker, turn: int) -> None:
    pair = _couple(a)
    if not pair:
        return
    q = BilingualText("How do the two marked people belong together?", "标出的两个人之间是什么关系？")
    if pair[0].kind == "worker":
        tie, free = (
            "colleagues",
            BilingualText(
                "They are colleagues: both wear yellow safety vests and work beside the road.",
                "他们是同事：都穿着黄色安全背心，在路边施工。",
            ),
        )
    else:
        tie, free = (
            "family",
            BilingualText(
                "An adult and a child, probably a parent with their child, cross the road side by side.",
                "一名成人和一名儿童，很可能是家长带着孩子，并排横穿道路。",
            ),
        )
    right: Any = "E" if turn in NONE_FITS_AT["social"] else TIES[tie]
    a.choose(RELATION, "social", q, right, _wrong(TIES, tie), a.boxed(*pair, text=_named(*pair)), free)


def _causal(a: Asker, turn: int) -> None:
    lead = a.scene.get("lead")
    walkers = [t for t in a.asked(*WALKERS) if t.state == "crossing"]
    if turn in ABSENT_AT:
        assert not a.scene.of(*VRU, "dog"), a.scene.id
        q = BilingualText(
            "What follows for the ego car from the person who is crossing the road?",
            "正在横穿道路的人对自车意味着什么？",
        )
        free = BilingualText(
            "Nobody is crossing the road, so nothing follows for the ego car.", "没有人横穿道路，因此对自车没有影响。"
        )
        a.choose(RELATION, "causal", q, "F", _wrong(CONSEQUENCES, "none"), free=free)
    elif lead and lead.state == "braking" and a.clear(lead):
        _braking(a, lead, turn)
    elif walkers:
        _crossing(a, walkers[0], turn)


def _braking(a: Asker, lead: Thing, turn: int) -> None:
    """Why the vehicle ahead brakes: the signal, else works, else dense traffic."""
    light = a.scene.light
    cause = light if light in ("red", "yellow") else "works" if a.scene.of("traffic_cone") else "traffic"
    why, n = CAUSES[cause], name(lead)
    q = BilingualText(
        "Why is the vehicle ahead braking, and what follows for the ego car?", "前车为什么制动？这对自车意味着什么？"
    )
    free = BilingualText(
        f"The {n.en} brakes because {why.en[0].lower()}{why.en[1:]}; the ego car must brake too and keep its distance.",
        f"{n.zh}因为{why.zh}而制动；自车也必须制动并保持车距。",
    )
    options = {
        key: BilingualText(f"{text.en}; the ego car must brake too", f"{text.zh}；自车也必须制动")
        for key, text in CAUSES.items()
    }
    right: Any = "E" if turn in NONE_FITS_AT["causal"] else options[cause]
    a.choose(RELATION, "causal", q, right, _wrong(options, cause), a.boxed(lead, text=_named(lead)), free)


def _crossing(a: Asker, person: Thing, turn: int) -> None:
    n = name(person)
    q = BilingualText("How does the marked person change what the ego car may do?", "标出的人如何影响自车的行为？")
    free = BilingualText(
        f"The {n.en} is crossing the road, so the ego car must slow down and stop to give way.",
        f"{n.zh}正在横穿道路，因此自车必须减速停车让行。",
    )
    right: Any = "E" if turn in NONE_FITS_AT["causal"] else CONSEQUENCES["stop"]
    a.choose(RELATION, "causal", q, right, _wrong(CONSEQUENCES, "stop"), a.dotted(person, text=_named(person)), free)


def _occlusion(a: Asker, turn: int) -> None:
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
    free = BilingualText(
        f"Yes, the {name(t).en} is partly hidden by the {name(front).en} in front of it.",
        f"是的，{name(t).zh}被其前方的{name(front).zh}部分遮挡。",
    )
    wrong = [BilingualText("No, all of it can be seen", "没有，完全可见"), *map(_by, _not_hiding(a, t, front)[:3])]
    right: Any = "E" if turn in NONE_FITS_AT["occlusion"] else _by(front)
    a.choose(RELATION, "occlusion", q, right, wrong, a.dotted(t, text=_named(t)), free)


def _by(thing: Thing) -> BilingualText:
    return BilingualText(f"Yes, by the {name(thing).en}", f"是，被{name(thing).zh}遮挡")


def _not_hiding(a: Asker, t: Thing, front: Thing) -> list[Thing]:
    """Objects that do not hide `t`: those of the scene that are elsewhere in the image, then others."""
    x1, _, x2, _ = a.box(t)
    used, found = {name(t).en, name(front).en}, []
    elsewhere = [o for o in a.asked(*VEHICLES, *VRU) if a.box(o)[2] < x1 - 20 or a.box(o)[0] > x2 + 20]
    invented = [Thing("", k, 0, 0, color=c) for k, c in (("truck", "blue"), ("bus", "orange"), ("van", "green"))]
    for o in [*elsewhere, *(o for o in invented if not a.scene.of(o.kind))]:
        if name(o).en not in used:
            used.add(name(o).en)
            found.append(o)
    return found


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
