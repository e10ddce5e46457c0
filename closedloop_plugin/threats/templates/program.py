"""Generate a readable .scenic program from a ThreatSpec and a ThreatSite. It contains no text of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    ContradictorySign,
    EgoLight,
    ParameterRange,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_text import clause, sentence
from closedloop_plugin.threats.templates import crossing, traffic
from closedloop_plugin.threats.templates.draft import ProgramDraft

TEMPLATES: Mapping[AdversaryBehaviour, Callable[[ProgramDraft], None]] = {**traffic.TEMPLATES, **crossing.TEMPLATES}
RED_S = ParameterRange(low=2.0, high=6.0)
UNITS = {"sun_altitude_angle": "degrees above the horizon"}
PERCEPTION = {
    "worn_markings": "of the road markings are worn off",
    "sun_glare": "strength of the glare of the sun ahead",
    "lens_drops": "of the picture behind drops on the lens",
    "hidden_signs": "of each sign and light behind leaves",
}


def program(spec: ThreatSpec, site: ThreatSite) -> str:
    """The text of the program, determined by spec and site."""
    drafts = [ProgramDraft(spec, site, number) for number in range(1, len(spec.actors) + 1)]
    for draft in drafts:
        TEMPLATES[draft.actor.behaviour](draft)
    whole = drafts[0]
    for draft in drafts[1:]:
        whole.params += draft.params
    red_for = (
        whole.free("red_for", RED_S, "s", "red after the ego has stopped") if spec.ego_light is EgoLight.RED else ""
    )
    _conditions(whole, spec)
    head = [
        f'"""{sentence(spec)}"""',
        "",
        f'param route = "{site.suite}:{site.route}"',
        *whole.params,
        "",
        "model scenic.domains.driving.model",
        "from closedloop_plugin.scenarios.actions import *",
        "",
        "ego = new Car at place(0), facing stage.heading(0)",
    ]
    if spec.perception.sun_glare is not None:
        head.append("param sun_azimuth_angle = azimuth_ahead(stage.trigger_s)")
    if spec.ego_light is EgoLight.GREEN:
        head.append('stage.hold_signals(route="green", cross="red")')
    if spec.ego_light is EgoLight.RED:
        # A requirement can access the sampled value of a variable, but not globalParameters.
        head += [f"red_for = {red_for}", "require monitor RedThenGreen(red_for)"]
    return "\n".join([*head, *_bodies(drafts)]).rstrip() + "\n"


def _bodies(drafts: Sequence[ProgramDraft]) -> list[str]:
    """The lines of all actors; with several, a comment before each."""
    lines: list[str] = []
    for draft in drafts:
        lines += (
            ["", *draft.lines]
            if draft.alone
            else ["", f"# {draft.number}. {clause(draft.actor, alone=False)}.", *draft.lines]
        )
    return lines


def _conditions(draft: ProgramDraft, spec: ThreatSpec) -> None:
    """Declare weather, light and perception as parameters, so that a search can vary them."""
    for name in ThreatConditions.model_fields:
        values = getattr(spec.conditions, name)
        if values is not None:
            draft.free(name, values, UNITS.get(name, "%"), "as CARLA's weather parameter")
    for name, values in spec.perception.numbers.items():
        draft.free(name, values, "%", PERCEPTION[name])
    sign = spec.perception.contradictory_sign
    if sign is not ContradictorySign.NONE:
        draft.params.append(f'param contradictory_sign = "{sign.value}"'.ljust(42) + " # a plate beside the road")
