"""Generate a readable .scenic program from a ThreatSpec and a ThreatSite. It contains no text of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import AdversaryBehaviour, EgoLight, ParameterRange, ThreatConditions, ThreatSpec
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.templates import crossing, traffic
from closedloop_plugin.threats.templates.draft import ProgramDraft

TEMPLATES: Mapping[AdversaryBehaviour, Callable[[ProgramDraft], None]] = {**traffic.TEMPLATES, **crossing.TEMPLATES}
RED_S = ParameterRange(low=2.0, high=6.0)
UNITS = {"sun_altitude_angle": "degrees above the horizon"}


def program(spec: ThreatSpec, site: ThreatSite) -> str:
    """The text of the program, determined by spec and site."""
    draft = ProgramDraft(spec, site)
    TEMPLATES[spec.behaviour](draft)
    red_for = (
        draft.free("red_for", RED_S, "s", "red after the ego has stopped") if spec.ego_light is EgoLight.RED else ""
    )
    _conditions(draft, spec.conditions)
    head = [
        f'"""{sentence(spec)}"""',
        "",
        f'param route = "{site.suite}:{site.route}"',
        *draft.params,
        "",
        "model scenic.domains.driving.model",
        "from closedloop_plugin.scenarios.actions import *",
        "",
        "ego = new Car at place(0), facing stage.heading(0)",
    ]
    if spec.ego_light is EgoLight.GREEN:
        head.append('stage.hold_signals(route="green", cross="red")')
    if spec.ego_light is EgoLight.RED:
        # A requirement can access the sampled value of a variable, but not globalParameters.
        head += [f"red_for = {red_for}", "require monitor RedThenGreen(red_for)"]
    return "\n".join([*head, "", *draft.lines]).rstrip() + "\n"


def _conditions(draft: ProgramDraft, conditions: ThreatConditions) -> None:
    """Declare weather and light as parameters, so that a search can vary them."""
    for name in ThreatConditions.model_fields:
        values = getattr(conditions, name)
        if values is not None:
            draft.free(name, values, UNITS.get(name, "%"), "as CARLA's weather parameter")
