"""Which road each scenario type needs beside the ego's lane, where the town's own file is absent.

Read off the routes' geometry (flow starts and ends in the ego's frame) and the types' own manoeuvres.
"""

from __future__ import annotations

from closedloop_plugin.maps.base import Layout

AROUND = Layout(left=1)  # an obstacle ahead, room to pass on the left in one's own direction
TWO_WAYS = Layout()  # an obstacle ahead, the only way round is the oncoming lane
SIGNAL = Layout("junction", control="signal")
STOP = Layout("junction", control="stop")
YIELD = Layout("junction", control="yield")
LEAVE = Layout("diverge", oncoming=0)  # the ego crosses or joins a flow in the next lane, and leaves the road
JOIN = Layout("merge", oncoming=0)  # the ego comes from a ramp and joins, or crosses, a flow

LAYOUTS: dict[str, Layout] = {
    "Accident": AROUND,
    "AccidentTwoWays": TWO_WAYS,
    "BlockedIntersection": YIELD,
    "ConstructionObstacle": AROUND,
    "ConstructionObstacleTwoWays": TWO_WAYS,
    "ControlLoss": TWO_WAYS,
    "CrossingBicycleFlow": Layout("junction", control="signal", bicycle=True),
    "DynamicObjectCrossing": TWO_WAYS,
    "EnterActorFlow": YIELD,
    "HardBreakRoute": TWO_WAYS,
    "HazardAtSideLane": AROUND,
    "HazardAtSideLaneTwoWays": TWO_WAYS,
    "HighwayCutIn": Layout(left=1, right=1, oncoming=0),
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
    "ParkingCrossingPedestrian": Layout(parking="right"),
    "ParkingCutIn": Layout(parking="both"),
    "ParkingExit": Layout(parking="right"),
    "PedestrianCrossing": SIGNAL,
    "SequentialLaneChange": Layout(oncoming=0),
    "SignalizedJunctionLeftTurn": SIGNAL,
    "SignalizedJunctionLeftTurnEnterFlow": SIGNAL,
    "SignalizedJunctionRightTurn": SIGNAL,
    "StaticCutIn": Layout(right=1),
    "T_Junction": Layout("junction", arms=3, control="signal"),  # as in Town01, Town02 and Town10HD
    "VanillaNonSignalizedTurn": YIELD,
    "VanillaNonSignalizedTurnEncounterStopsign": STOP,
    "VanillaSignalizedTurnEncounterGreenLight": SIGNAL,
    "VanillaSignalizedTurnEncounterRedLight": SIGNAL,
    "VehicleOpensDoorTwoWays": Layout(parking="right"),
    "VehicleTurningRoute": YIELD,
    "VehicleTurningRoutePedestrian": YIELD,
    "YieldToEmergencyVehicle": Layout(right=1),
}
