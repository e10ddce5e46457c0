"""CATALOGUE: program, road layout and tested abilities of the 44 scenario types of Bench2Drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.layouts import LAYOUTS

HERE = Path(__file__).parent
OVERTAKING, MERGING, BRAKING = "Overtaking", "Merging", "Emergency_Brake"
GIVING_WAY, SIGNS = "Give_Way", "Traffic_Signs"


@dataclass(frozen=True)
class ScenarioType:
    """One scenario type. `program`: a .scenic file of this folder; `options`: parameters of its archetype's program."""

    name: str
    archetype: str
    program: Path
    layout: RoadLayout
    abilities: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Required route parameters: start and end of a flow that the map does not define."""
        given = self.archetype == "merge" or self.options.get("source") == "given"
        return ("start_actor_flow", "end_actor_flow") if given else ()


def _type(name: str, archetype: str, abilities: tuple[str, ...], summary: str, **options: Any) -> ScenarioType:
    program = HERE / f"{archetype}.scenic"
    return ScenarioType(
        name=name,
        archetype=archetype,
        program=program,
        layout=LAYOUTS[name],
        abilities=abilities,
        options=MappingProxyType(options),
        summary=summary,
    )


_CARS: dict[str, Any] = {"kind": "car", "gaps": (25, 50)}  # of a flow; m between two, if the route gives none
_TYPES = (
    _type("Accident", "obstacle", (OVERTAKING,), "two crashed cars and the police", what="accident", two_ways=False),
    _type(
        "AccidentTwoWays", "obstacle", (OVERTAKING,), "the same, only the oncoming lane is free",
        what="accident", two_ways=True,
    ),
    _type("ConstructionObstacle", "obstacle", (OVERTAKING,), "road works", what="construction", two_ways=False),
    _type(
        "ConstructionObstacleTwoWays", "obstacle", (OVERTAKING,), "road works, only the oncoming lane is free",
        what="construction", two_ways=True,
    ),
    _type("ParkedObstacle", "obstacle", (OVERTAKING,), "a car that broke down", what="parked", two_ways=False),
    _type(
        "ParkedObstacleTwoWays", "obstacle", (OVERTAKING,), "a car that broke down, only the oncoming lane is free",
        what="parked", two_ways=True,
    ),
    _type("HazardAtSideLane", "hazard", (OVERTAKING,), "slow cyclists ahead", two_ways=False),
    _type(
        "HazardAtSideLaneTwoWays", "hazard", (OVERTAKING,), "slow cyclists, only the oncoming lane is free",
        two_ways=True,
    ),
    _type("VehicleOpensDoorTwoWays", "door", (OVERTAKING,), "a parked car's door opens"),
    _type("DynamicObjectCrossing", "step_out", (BRAKING,), "a pedestrian from behind an object", cover="prop"),
    _type("ParkingCrossingPedestrian", "step_out", (BRAKING,), "a pedestrian between parked cars", cover="parked"),
    _type("ParkingCutIn", "cut_in", (BRAKING,), "a parked car pulls out", place="parking"),
    _type("StaticCutIn", "cut_in", (BRAKING,), "a car leaves the queue beside the ego", place="queue"),
    _type("HighwayCutIn", "highway_cut_in", (MERGING,), "a car from the ramp cuts in"),
    _type("HardBreakRoute", "hard_brake", (BRAKING,), "the cars ahead brake hard"),
    _type("ControlLoss", "control_loss", (BRAKING,), "the wheel does not obey on patches of the road"),
    _type(
        "OppositeVehicleRunningRedLight", "running", (BRAKING, SIGNS), "a car runs its red light", signals=True,
    ),
    _type(
        "OppositeVehicleTakingPriority", "running", (BRAKING, SIGNS), "a car takes the right of way", signals=False,
    ),
    _type("VehicleTurningRoute", "junction_crossing", (BRAKING, SIGNS), "a cyclist at the exit", who="bicycle"),
    _type(
        "VehicleTurningRoutePedestrian", "junction_crossing", (BRAKING, SIGNS), "a pedestrian at the exit",
        who="pedestrian",
    ),
    _type("PedestrianCrossing", "junction_crossing", (BRAKING, SIGNS), "people cross before the junction", who="group"),
    _type("BlockedIntersection", "blocked", (BRAKING, SIGNS), "a car stands in the junction's exit"),
    _type(
        "SignalizedJunctionLeftTurn", "junction_flow", (MERGING, SIGNS), "left through oncoming traffic, at lights",
        source="opposite", target="entry", before=4.0, beyond=2.5, end=10.0, populated=False, **_CARS,
    ),
    _type(
        "NonSignalizedJunctionLeftTurn", "junction_flow", (MERGING, SIGNS), "left through oncoming traffic",
        source="opposite", target="entry", before=4.0, beyond=2.5, end=10.0, populated=False, **_CARS,
    ),
    _type(
        "SignalizedJunctionLeftTurnEnterFlow", "junction_flow", (MERGING, SIGNS), "left into a flow, at lights",
        source="opposite", target="left", before=4.0, beyond=2.5, end=10.0, populated=False, **_CARS,
    ),
    _type(
        "NonSignalizedJunctionLeftTurnEnterFlow", "junction_flow", (MERGING, SIGNS), "left into a flow",
        source="opposite", target="left", before=4.0, beyond=2.5, end=10.0, populated=False, **_CARS,
    ),
    _type(
        "SignalizedJunctionRightTurn", "junction_flow", (MERGING, SIGNS), "right into a flow, at lights",
        source="left", target="right", before=5.0, beyond=3.0, end=10.0, populated=True, **_CARS,
    ),
    _type(
        "NonSignalizedJunctionRightTurn", "junction_flow", (MERGING, SIGNS), "right into a flow",
        source="left", target="right", before=5.0, beyond=3.0, end=10.0, populated=True, **_CARS,
    ),
    _type(
        "EnterActorFlow", "junction_flow", (MERGING, SIGNS), "into a fast flow",
        source="given", target="given", kind="car", gaps=(20, 50), end="sink", populated=True,
    ),
    _type(
        "CrossingBicycleFlow", "junction_flow", (MERGING, SIGNS), "through a flow of cyclists",
        source="given", target="given", kind="bicycle", gaps=(20, 50), end=0.0, populated=True,
    ),
    _type(
        "MergerIntoSlowTraffic", "merge", (MERGING,), "into slow traffic at an exit", end="sink", populated=True,
    ),
    _type(
        "MergerIntoSlowTrafficV2", "merge", (MERGING,), "from a ramp into slow traffic", end="sink", populated=True,
    ),
    _type(
        "HighwayExit", "merge", (MERGING,), "through a flow to the exit", end="exit", populated=True,
    ),
    _type(
        "InterurbanActorFlow", "merge", (MERGING,), "through an oncoming flow off the road",
        end="exit", populated=False,
    ),
    _type(
        "InterurbanAdvancedActorFlow", "merge", (MERGING,), "through one flow and into another",
        end="sink", populated=False,
    ),
    _type("SequentialLaneChange", "lane_change", (MERGING,), "several lane changes in traffic"),
    _type("ParkingExit", "parking_exit", (MERGING,), "out of a parking bay into traffic"),
    _type("InvadingTurn", "invading", (GIVING_WAY,), "oncoming cars come over the middle line"),
    _type("YieldToEmergencyVehicle", "emergency", (GIVING_WAY,), "an ambulance from behind"),
    _type("T_Junction", "turn", (SIGNS,), "a turn at a three-armed junction", light=""),
    _type("VanillaNonSignalizedTurn", "turn", (SIGNS,), "a turn without lights", light=""),
    _type("VanillaNonSignalizedTurnEncounterStopsign", "turn", (SIGNS,), "a turn after a stop sign", light=""),
    _type("VanillaSignalizedTurnEncounterGreenLight", "turn", (SIGNS,), "a turn at a green light", light="green"),
    _type("VanillaSignalizedTurnEncounterRedLight", "turn", (SIGNS,), "a turn after a red light", light="red"),
)  # fmt: skip
CATALOGUE: Mapping[str, ScenarioType] = MappingProxyType({t.name: t for t in _TYPES})
