"""One spec of each behaviour of the vocabulary, on routes of the demo suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.threats.suite_folder import site_on

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import AdversaryBehaviour, ThreatSpec

TWO_WAY, JUNCTION = "103", "106"  # one lane each way; a junction
# behaviour -> adversary, side, lane, further fields
SPECS: dict[AdversaryBehaviour, tuple[str, str, str, dict[str, Any]]] = {
    AdversaryBehaviour.CUT_IN: ("van", "right", "roadside", {"speed_mps": [3, 4.5]}),
    AdversaryBehaviour.BRAKE_HARD: ("police", "ahead", "own", {"stays_s": [3, 6]}),
    AdversaryBehaviour.SLOW_AHEAD: ("bicycle", "ahead", "own", {"speed_mps": [1.5, 3], "stays_s": [6, 9]}),
    AdversaryBehaviour.CROSS: ("child", "right", "pavement", {"speed_mps": [1.5, 3], "occluder": "van"}),
    AdversaryBehaviour.RUN_LIGHT: ("car", "left", "crossing_road", {"speed_mps": [6, 9], "road": "junction"}),
    AdversaryBehaviour.TURN_ACROSS: ("truck", "opposite", "crossing_road", {"speed_mps": [6, 9], "road": "junction"}),
    AdversaryBehaviour.ONCOMING: ("car", "opposite", "oncoming", {"speed_mps": [6, 10]}),
    AdversaryBehaviour.OPEN_DOOR: ("car", "right", "roadside", {"stays_s": [3, 6]}),
    AdversaryBehaviour.BLOCK: ("cones", "ahead", "own", {"stays_s": [2, 4], "occluder": "container"}),
    AdversaryBehaviour.TAILGATE: ("motorcycle", "behind", "own", {}),
    AdversaryBehaviour.HIDDEN_STOP: (
        "debris", "ahead", "own", {"speed_mps": [6, 10], "stays_s": [5, 9], "occluder": "truck"},
    ),
    AdversaryBehaviour.EMERGENCY_PASS: (
        "ambulance", "behind", "own", {"speed_mps": [12, 16], "conditions": {"fog_density": [20, 60]}},
    ),
}  # fmt: skip


def one_of_each(maps: Path) -> dict[str, tuple[ThreatSite, ThreatSpec]]:
    """Behaviour -> its site and spec. `maps`: folder for the corridor maps."""
    sites = {route: site_on(route, maps) for route in (TWO_WAY, JUNCTION)}
    found = {}
    for behaviour, (adversary, side, lane, more) in SPECS.items():
        route = JUNCTION if more.get("road") == "junction" else TWO_WAY
        ahead = [8.0, 15.0] if route == JUNCTION or behaviour.value == "emergency_pass" else [34.0, 40.0]
        fields = {
            "behaviour": behaviour, "adversary": adversary, "place": {"side": side, "lane": lane, "ahead_m": ahead},
            "trigger": {"value": [1.8, 3.0]}, "road": "open", "weakness": "planning", "description": "x", **more,
        }  # fmt: skip
        found[behaviour.value] = sites[route], ThreatSpec.model_validate(fields)
    return found
