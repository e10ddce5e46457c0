"""LAYOUTS: the RoadLayout of each scenario type, for maps without a town file.

Derived from the geometry of the routes (starts and ends of flows in the ego's frame) and the manoeuvres of the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from closedloop_plugin.maps.base import CORRIDOR, RoadLayout

AROUND = RoadLayout(left=1)  # an obstacle ahead, a lane of the ego's direction to pass on the left
TWO_WAYS = RoadLayout()  # an obstacle ahead, passable only in the oncoming lane
SIGNAL = RoadLayout("junction", control="signal")
STOP = RoadLayout("junction", control="stop")
YIELD = RoadLayout("junction", control="yield")
LEAVE = RoadLayout("diverge", oncoming=0)  # the ego crosses or joins a flow in the next lane, and leaves the road
JOIN = RoadLayout("merge", oncoming=0)  # the ego comes from a ramp and joins or crosses a flow

LAYOUTS: dict[str, RoadLayout] = {
    "Accident": AROUND,
    "AccidentTwoWays": TWO_WAYS,
    "BlockedIntersection": YIELD,
    "ConstructionObstacle": AROUND,
    "ConstructionObstacleTwoWays": TWO_WAYS,
    "ControlLoss": TWO_WAYS,
    "CrossingBicycleFlow": RoadLayout("junction", control="signal", bicycle=True),
    "DynamicObjectCrossing": TWO_WAYS,
    "EnterActorFlow": YIELD,
    "HardBreakRoute": TWO_WAYS,
    "HazardAtSideLane": AROUND,
    "HazardAtSideLaneTwoWays": TWO_WAYS,
    "HighwayCutIn": RoadLayout(left=1, right=1, oncoming=0),
    "HighwayExit": LEAVE,
    "InterurbanActorFlow": LEAVE,
    "InterurbanAdvancedActorFlow": JOIN,
    "InvadingTurn": TWO_WAYS,
    "MergerIntoSlowTraffic": LEAVE,
    "MergerIntoSlowTrafficV2": JOIN,
    "NonSignalizedJunctionLeftTurn": YIELD,
    "NonSignalizedJunctionLeftTurnEnterFlow": YIELD,
    "NonSignalizedJunctionRightTurn": YIELD,
    "OppositeVehicleRunningRedLight": SIGNAL,
    "OppositeVehicleTakingPriority": YIELD,
    "ParkedObstacle": AROUND,
    "ParkedObstacleTwoWays": TWO_WAYS,
    "ParkingCrossingPedestrian": RoadLayout(parking="right"),
    "ParkingCutIn": RoadLayout(parking="both"),
    "ParkingExit": RoadLayout(parking="right"),
    "PedestrianCrossing": SIGNAL,
    "SequentialLaneChange": RoadLayout(oncoming=0),
    "SignalizedJunctionLeftTurn": SIGNAL,
    "SignalizedJunctionLeftTurnEnterFlow": SIGNAL,
    "SignalizedJunctionRightTurn": SIGNAL,
    "StaticCutIn": RoadLayout(right=1),
    "T_Junction": RoadLayout("junction", arms=3, control="signal"),  # as in Town01, Town02 and Town10HD
    "VanillaNonSignalizedTurn": YIELD,
    "VanillaNonSignalizedTurnEncounterStopsign": STOP,
    "VanillaSignalizedTurnEncounterGreenLight": SIGNAL,
    "VanillaSignalizedTurnEncounterRedLight": SIGNAL,
    "VehicleOpensDoorTwoWays": RoadLayout(parking="right"),
    "VehicleTurningRoute": YIELD,
    "VehicleTurningRoutePedestrian": YIELD,
    "YieldToEmergencyVehicle": RoadLayout(right=1),
}

# Types of Fail2Drive without a program here, on the road of the type of their Base route: a pair differs in its actors.
KIN: dict[str, str] = {
    "BadParkingObstacle": "ParkedObstacle",
    "BadParkingObstacleTwoWays": "ParkedObstacleTwoWays",
    "ConstructionObstaclePedestrian": "ConstructionObstacle",
    "CustomObstacleTwoWays": "ParkedObstacleTwoWays",
    "HardBrakeNoLights": "HardBreakRoute",
    "NormalVehicleRunningRedLight": "OppositeVehicleRunningRedLight",
    "NormalVehicleTakingPriority": "OppositeVehicleTakingPriority",
    "PermutedConstructionObstacle": "ConstructionObstacle",
    "PermutedConstructionObstacleTwoWays": "ConstructionObstacleTwoWays",
}


def layout_of(kinds: Sequence[str]) -> RoadLayout:
    """One road for scenarios of these types: the lanes of all, and the junction of the only one that has one.

    Raises ValueError if several have one. Unknown types have the default layout.
    """
    layouts = [LAYOUTS.get(KIN.get(kind, kind), RoadLayout()) for kind in kinds] or [RoadLayout()]
    special = [one for one in layouts if one.topology != CORRIDOR]
    if len(special) > 1:
        raise ValueError(f"{len(special)} of {kinds} need a junction of their own")
    parking = {one.parking for one in layouts} - {""}
    return replace(
        special[0] if special else layouts[0],
        left=max(one.left for one in layouts),
        right=max(one.right for one in layouts),
        oncoming=max(one.oncoming for one in layouts),
        shoulder=any(one.shoulder for one in layouts),
        parking=parking.pop() if len(parking) == 1 else "both" if parking else "",
        bicycle=any(one.bicycle for one in layouts),
    )
