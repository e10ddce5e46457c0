"""English description of a ThreatSpec for programs, prompts, tables and the gallery, from its enums and numbers only.

The wording is part of generated programs and prompts.
"""

from __future__ import annotations

from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    AdversarySide,
    ContradictorySign,
    EgoLight,
    Occluder,
    ParameterRange,
    RoadKind,
    ThreatActor,
    ThreatPerception,
    ThreatSpec,
)

ACTS = {
    AdversaryBehaviour.CUT_IN: "moves into the ego's lane from the {side}",
    AdversaryBehaviour.BRAKE_HARD: "drives ahead of the ego and brakes to a standstill",
    AdversaryBehaviour.SLOW_AHEAD: "goes slowly ahead of the ego in its lane",
    AdversaryBehaviour.CROSS: "crosses the road from the {side}",
    AdversaryBehaviour.RUN_LIGHT: "crosses the junction from {from_side} and gives way to nobody",
    AdversaryBehaviour.TURN_ACROSS: "comes from the far arm and turns across the ego's way",
    AdversaryBehaviour.ONCOMING: "comes towards the ego in the ego's own lane",
    AdversaryBehaviour.OPEN_DOOR: "is parked at the edge and opens its door into the lane",
    AdversaryBehaviour.BLOCK: "stands in the ego's lane",
    AdversaryBehaviour.TAILGATE: "follows the ego much too closely while a car ahead slows down",
    AdversaryBehaviour.HIDDEN_STOP: "stands in the lane, and the {occluder} that hides it swerves away late",
    AdversaryBehaviour.EMERGENCY_PASS: "comes from behind with its siren on and wants to pass",
}
# Where several act: another actor is the reason to brake, and oncoming vehicles stay in their lane.
TOGETHER = {
    AdversaryBehaviour.ONCOMING: "comes towards the ego in the oncoming lane",
    AdversaryBehaviour.TAILGATE: "follows the ego much too closely",
}
SIGNS = {
    ContradictorySign.STOP: "a stop sign",
    ContradictorySign.NO_ENTRY: "a no entry sign",
    ContradictorySign.SPEED_90: "a speed sign of 90",
}
# Conditions of the cameras' pictures.
SIGHT = {
    "worn_markings": "worn lane markings",
    "sun_glare": "glare of the sun ahead",
    "lens_drops": "drops on the lens",
    "hidden_signs": "leaves before the signs",
    "contradictory_sign": "a sign that contradicts the road",
}
NO_ARTICLE = {"cones": "Cones", "debris": "Debris"}
NAMES = {"police": "police car", "firetruck": "fire truck"}
LIES = {"cones": ("stands", "stand"), "debris": ("stands", "lies")}


def sentence(spec: ThreatSpec) -> str:
    """One or two sentences in plain ASCII without quotes or backslashes."""
    parts = [clause(actor, alone=not spec.further) for actor in spec.actors]
    text = ", and ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])])
    sky = _sky(spec)
    return text + "." + (f" {sky}." if sky else "")


def clause(actor: ThreatActor, alone: bool) -> str:
    """What one actor does, without a full stop. `alone`: no other one acts in the scenario."""
    name = actor.adversary.value
    begin = NO_ARTICLE.get(name) or f"{'An' if name[0] in 'aeiou' else 'A'} {NAMES.get(name, name)}"
    side = actor.place.side.value
    acts = ACTS if alone else {**ACTS, **TOGETHER}
    act = acts[actor.behaviour].format(
        side=side,
        from_side="the far arm" if actor.place.side is AdversarySide.OPPOSITE else f"the {side}",
        occluder=actor.occluder.value,
    )
    if name in LIES:
        act = act.replace(*LIES[name], 1)
    text = f"{begin} {act}{_where(actor)}"
    if actor.occluder is not Occluder.NONE and actor.behaviour is not AdversaryBehaviour.HIDDEN_STOP:
        text += f", hidden by {_cover(actor.occluder)}"
    return text


def _where(actor: ThreatActor) -> str:
    """The distance of the meeting place; none for adversaries that act within the junction."""
    if actor.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS):
        return ""
    behind = actor.road is RoadKind.JUNCTION
    return f", {_span(actor.place.ahead_m)} m {'after the junction' if behind else 'on'}"


def _cover(cover: Occluder) -> str:
    if cover is Occluder.PARKED_CARS:
        return "parked cars"
    return f"{'an' if cover.value[0] in 'aeiou' else 'a'} {cover.value}"


def _span(values: ParameterRange) -> str:
    return f"{values.low:g}" if values.low == values.high else f"{values.low:g} to {values.high:g}"


def _sky(spec: ThreatSpec) -> str:
    c, parts = spec.conditions, []
    if c.sun_altitude_angle is not None:
        angle = c.sun_altitude_angle.middle
        parts += ["night"] if angle < -3 else ["low sun"] if angle < 12 else []
    if c.precipitation is not None and c.precipitation.middle > 20:
        parts.append("heavy rain" if c.precipitation.middle > 60 else "rain")
    if c.fog_density is not None and c.fog_density.middle > 15:
        parts.append("thick fog" if c.fog_density.middle > 45 else "fog")
    if spec.ego_light is not EgoLight.CYCLE:
        parts.append(f"the ego's light {'stays green' if spec.ego_light is EgoLight.GREEN else 'is red first'}")
    parts += _sight(spec.perception)
    return ", ".join(parts).capitalize()


def _sight(perception: ThreatPerception) -> list[str]:
    """Conditions of the cameras' pictures."""
    parts = [SIGHT[name] for name in perception.numbers]
    if perception.contradictory_sign is not ContradictorySign.NONE:
        parts.append(f"{SIGNS[perception.contradictory_sign]} that contradicts the road")
    return parts
