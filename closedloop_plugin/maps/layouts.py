"""LAYOUTS: the RoadLayout of each scenario type, for maps without a town file.

Derived from the geometry of the routes (starts and ends of flows in the ego's frame) and the manoeuvres of the types.
"""

from __future__ import annotations

from closedloop_plugin.maps.base import RoadLayout

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
