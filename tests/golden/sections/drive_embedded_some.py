"""Twelve routes of different types in the embedded world, as drive_embedded220, and more ways to score them."""

from __future__ import annotations

from typing import Any

from closed_loop_runs import routes_file
from embedded_drives import driven_routes, one_of_each, scored_official
from workspace import Workspace

COST = "minutes"
TYPES = (
    "ParkedObstacle", "AccidentTwoWays", "DynamicObjectCrossing", "HardBreakRoute", "ControlLoss", "HighwayExit",
    "MergerIntoSlowTrafficV2", "SignalizedJunctionLeftTurn", "CrossingBicycleFlow", "YieldToEmergencyVehicle",
    "OppositeVehicleTakingPriority", "T_Junction",
)  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    first = one_of_each(routes_file(work))
    found = driven_routes(work, [first[type_] for type_ in TYPES])
    results = work.folder / "steer-only" / "results.json"
    metrics = ("--metric-info", str(work.folder / "steer-only" / "metric_info"))
    found["scored from official files"] = {
        "official": scored_official(work, results, *metrics),
        "corrected comfort": scored_official(work, results, *metrics, "--comfort", "corrected"),
        "traffic signs v0.0.4": scored_official(work, results, *metrics, "--traffic-signs", "v0.0.4"),
        "published, PDM-Lite": scored_official(work, work.data / "bench2drive" / "pdm_lite_results.json"),
    }
    return found
