"""RECIPES: how the route of each scenario type is drawn: its shape, and the parameters that its program reads.

Ranges contain the values of Bench2Drive's routes (docs/scenarios.md: Parameters of a route file) and are wider. Flows
are slower and have wider gaps than there: an ego that is limited to 5 m/s cannot enter or cross those in time, and a
training route has to be one that the expert can drive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from closedloop_plugin.core.routes import Route
from closedloop_plugin.learn.route_draws import RouteDraws
from closedloop_plugin.learn.route_shapes import (
    LANE,
    LEFT,
    RIGHT,
    STRAIGHT,
    TIGHTEST,
    RouteShape,
    beyond,
    corridor_shape,
    highway_shape,
    junction_shape,
    lane_change_shape,
    ramp_shape,
)
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.maps.curves import seen_from
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.looks import COVERS

Params = dict[str, Any]
Range = tuple[float, float]
Recipe = Callable[[RouteDraws], tuple[RouteShape, Params]]
MODELS = {"vending": "static.prop.vendingmachine"}  # blueprints whose names are not those of COVERS


def _road(draws: RouteDraws, low: float = 105.0, high: float = 150.0, tightest: float = TIGHTEST) -> RouteShape:
    return corridor_shape(draws, draws.between(low, high), draws.between(9, 15), tightest=tightest)


def _obstacle(draws: RouteDraws) -> tuple[RouteShape, Params]:
    distance = draws.between(34, 52, 0)
    params = {"distance": distance, "direction": "right", "speed": draws.between(30, 60, 0)}
    return _road(draws, distance + 70), params


def _obstacle_two_ways(draws: RouteDraws) -> tuple[RouteShape, Params]:
    distance = draws.between(34, 52, 0)
    return _road(draws, distance + 70), {"distance": distance, "frequency": draws.interval((30, 70), (40, 120))}


def _hazard(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _road(draws, 120), {**_cyclists(draws), "speed": draws.between(30, 60, 0)}


def _hazard_two_ways(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """The cyclists ride on beyond the end of the route: if they stop between oncoming cars, the expert often fails."""
    params = _cyclists(draws, ride=(85, 118), pace=(7, 12)) | {"frequency": draws.between(75, 105, 0)}
    return _road(draws, 122, 134, tightest=70.0), params


def _cyclists(draws: RouteDraws, ride: Range = (40, 115), pace: Range = (6, 12)) -> Params:
    return {
        "distance": draws.between(34, 50, 0),
        "bicycle_drive_distance": draws.between(*ride, 0),
        "bicycle_speed": draws.between(*pace, 0),
    }


def _door(draws: RouteDraws) -> tuple[RouteShape, Params]:
    params = {"distance": draws.between(34, 60, 0), "frequency": draws.interval((30, 42), (50, 65))}
    return _road(draws, 120), params


def _step_out(draws: RouteDraws, models: bool) -> tuple[RouteShape, Params]:
    params: Params = {
        "distance": draws.between(30, 52, 0),
        "direction": "left" if models and draws.chance(0.15) else "right",
        "crossing_angle": draws.between(0, 13, 0),
    }
    if models:
        name = draws.either(tuple(COVERS))
        params["blocker_model"] = MODELS.get(name, f"static.prop.{name}")
    return _road(draws), params


def _parking_cut_in(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """The other parked car is straight ahead of the one that pulls out: no tight bend."""
    return _road(draws, tightest=120.0), {"direction": "left" if draws.chance(0.2) else "right"}


def _static_cut_in(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _road(draws), {"distance": draws.between(36, 52, 0), "direction": "right"}


def _plain(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _road(draws), {}


def _invading(draws: RouteDraws) -> tuple[RouteShape, Params]:
    shape = corridor_shape(draws, draws.between(98, 118), draws.between(9, 15), bent=0.15)
    return shape, {"distance": draws.between(46, 62, 0), "offset": draws.between(0.15, 0.34, 2)}


def _emergency(draws: RouteDraws) -> tuple[RouteShape, Params]:
    shape = corridor_shape(draws, draws.between(95, 120), draws.between(9, 15), bent=0.2)
    return shape, {"distance": draws.between(24, 34, 0)}


def _parking_exit(draws: RouteDraws) -> tuple[RouteShape, Params]:
    shape = corridor_shape(draws, draws.between(100, 140), 0.0, bent=0.3)
    return shape, {
        "direction": "right",
        "front_vehicle_distance": draws.between(9, 14, 0),
        "behind_vehicle_distance": draws.between(8, 12, 0),
    }


def _highway_cut_in(draws: RouteDraws) -> tuple[RouteShape, Params]:
    shape = highway_shape(draws)
    other = beyond(shape.trigger, draws.between(20, 28), -draws.between(12, 14.5))
    return shape, {"other_actor_location": other, "end_location": beyond(shape.beyond, draws.between(1, 12))}


def _lane_changes(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return lane_change_shape(draws), {}


# -- junctions ---------------------------------------------------------------------------------------------------------


def _crossing(draws: RouteDraws, *turns: str) -> RouteShape:
    """A junction 19 to 27 m ahead, with the trigger point near the start."""
    return junction_shape(draws, draws.either(turns), draws.between(19, 27), draws.between(1, 10))


def _turn(*turns: str) -> Recipe:
    return lambda draws: (_crossing(draws, *turns), {})


def _vanilla(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """Half of the routes start just before the junction, as Bench2Drive's do, half farther away."""
    lead = draws.between(6.5, 9) if draws.chance(0.5) else draws.between(14, 28)
    return junction_shape(draws, draws.either((LEFT, RIGHT)), lead, lead - draws.between(0, min(6, lead - 3))), {}


def _t_junction(draws: RouteDraws) -> tuple[RouteShape, Params]:
    lead = draws.between(20, 32)
    return junction_shape(draws, draws.either((LEFT, RIGHT)), lead, lead), {}


def _running(draws: RouteDraws) -> tuple[RouteShape, Params]:
    turn = draws.either((LEFT, STRAIGHT, RIGHT), (0.45, 0.35, 0.2))
    arms = {LEFT: ("right", "opposite"), STRAIGHT: ("left", "right"), RIGHT: ("left",)}
    return _crossing(draws, turn), {"direction": draws.either(arms[turn])}


def _flow(draws: RouteDraws, speed: Range, low: Range, width: Range) -> Params:
    return {"flow_speed": draws.between(*speed), "source_dist_interval": draws.interval(low, width)}


def _against(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _crossing(draws, LEFT), _flow(draws, (6, 11), (22, 38), (8, 35))


def _left_into(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _crossing(draws, LEFT), _flow(draws, (5, 9), (24, 38), (8, 35))


def _right_into(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _crossing(draws, RIGHT), _flow(draws, (5.5, 9), (28, 40), (12, 35))


def _enter_flow(draws: RouteDraws) -> tuple[RouteShape, Params]:
    turn = draws.either((LEFT, STRAIGHT, RIGHT), (0.4, 0.4, 0.2))
    shape = _crossing(draws, turn)
    source = "left" if turn == RIGHT else "right"
    line = _lines("EnterActorFlow", shape, f"{source}->exit")
    leaves = int(np.argmin([math.dist(place, shape.beyond[:2]) for place in line]))
    start = max(leaves - round(draws.between(34, 48, 0)), 0)
    params = {"start_actor_flow": (*line[start], 0.0), "end_actor_flow": beyond(shape.beyond, draws.between(9, 14))}
    return shape, params | _flow(draws, (6, 12), (28, 44), (8, 35))


def _bicycles(draws: RouteDraws) -> tuple[RouteShape, Params]:
    shape = _crossing(draws, LEFT)
    line = _lines("CrossingBicycleFlow", shape, "bicycle")
    along = [seen_from(shape.before, *place)[0] for place in line]
    ahead, behind = draws.between(34, 42), -draws.between(7, 10)
    start, end = (int(np.argmin(np.abs(np.array(along) - goal))) for goal in (ahead, behind))
    params = {"start_actor_flow": (*line[start], 0.0), "end_actor_flow": (*line[end], 0.0)}
    return shape, params | _flow(draws, (5, 10), (15, 28), (10, 25))


def _lines(name: str, shape: RouteShape, line: str) -> list[tuple[float, float]]:
    """A line of the map that will be built for this shape: points about 1 m apart."""
    points = tuple((float(x), float(y)) for x, y in shape.points)
    facts = plan_for(Route("shape", "Made", points, name, name, shape.trigger), CATALOGUE[name].layout).facts
    found = facts["bicycle"] if line == "bicycle" else facts["flows"][line]
    return [(x, y) for x, y in found]


# -- exits and ramps ---------------------------------------------------------------------------------------------------


def _exit(draws: RouteDraws, angle: Range, side: int, speed: Range) -> tuple[RouteShape, Params]:
    """The ego crosses a flow in the next lane, which stays on the road, and leaves on that side."""
    shape = ramp_shape(draws, (55, 120), angle, side)
    far = seen_from(shape.before, *shape.beyond[:2])[0] + draws.between(8, 14)
    params = {
        "start_actor_flow": beyond(shape.before, -45.0, side * LANE),
        "end_actor_flow": beyond(shape.before, far, side * LANE),
    }
    return shape, params | _flow(draws, speed, (45, 60), (20, 50))


def _highway_exit(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _exit(draws, (13, 40), draws.sign(), (6, 11))


def _interurban_exit(draws: RouteDraws) -> tuple[RouteShape, Params]:
    return _exit(draws, (15, 28), 1, (6, 12))


def _slow_exit(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """The flow takes the exit, and the ego joins it there."""
    side = draws.either((1, -1), (0.3, 0.7))
    shape = ramp_shape(draws, (80, 130), (9, 24), side)
    params = {
        "start_actor_flow": beyond(shape.before, -45.0, side * LANE),
        "end_actor_flow": beyond(shape.beyond, draws.between(9, 12)),
    }
    return shape, params | _flow(draws, (4, 6), (26, 40), (10, 40))


def _slow_ramp(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """The ego comes from a ramp and joins a flow in the lane in which it arrives."""
    shape = ramp_shape(draws, (75, 105), (9, 18), draws.sign())
    back = ramp_length(shape) + draws.between(20, 45)
    params = {
        "start_actor_flow": beyond(shape.beyond, -back, draws.between(-4, 4)),
        "end_actor_flow": beyond(shape.beyond, draws.between(16, 22)),
    }
    return shape, params | _flow(draws, (4, 6), (26, 40), (10, 40))


def _advanced_ramp(draws: RouteDraws) -> tuple[RouteShape, Params]:
    """The ego comes from the left of a road whose flow is in its right lane; or mirrored."""
    side = draws.either((-1, 1), (0.75, 0.25))
    shape = ramp_shape(draws, (65, 105), (18, 45), side)
    back = ramp_length(shape) + draws.between(20, 45)
    params = {
        "direction": "right" if side < 0 else "left",
        "start_actor_flow": beyond(shape.beyond, -back, side * LANE),
        "end_actor_flow": beyond(shape.beyond, draws.between(2, 8), side * LANE),
    }
    return shape, params | _flow(draws, (6, 10), (45, 60), (20, 50))


def ramp_length(shape: RouteShape) -> float:
    """Metres along the road after the gap, from its start back to the end of the road before the gap."""
    return -seen_from(shape.beyond, *shape.before[:2])[0]


_LEFT_RIGHT = _turn(LEFT, RIGHT)
RECIPES: Mapping[str, Recipe] = {
    "Accident": _obstacle,
    "AccidentTwoWays": _obstacle_two_ways,
    "BlockedIntersection": _LEFT_RIGHT,
    "ConstructionObstacle": _obstacle,
    "ConstructionObstacleTwoWays": _obstacle_two_ways,
    "ControlLoss": _plain,
    "CrossingBicycleFlow": _bicycles,
    "DynamicObjectCrossing": lambda draws: _step_out(draws, True),
    "EnterActorFlow": _enter_flow,
    "HardBreakRoute": _plain,
    "HazardAtSideLane": _hazard,
    "HazardAtSideLaneTwoWays": _hazard_two_ways,
    "HighwayCutIn": _highway_cut_in,
    "HighwayExit": _highway_exit,
    "InterurbanActorFlow": _interurban_exit,
    "InterurbanAdvancedActorFlow": _advanced_ramp,
    "InvadingTurn": _invading,
    "MergerIntoSlowTraffic": _slow_exit,
    "MergerIntoSlowTrafficV2": _slow_ramp,
    "NonSignalizedJunctionLeftTurn": _against,
    "NonSignalizedJunctionLeftTurnEnterFlow": _left_into,
    "NonSignalizedJunctionRightTurn": _right_into,
    "OppositeVehicleRunningRedLight": _running,
    "OppositeVehicleTakingPriority": _running,
    "ParkedObstacle": _obstacle,
    "ParkedObstacleTwoWays": _obstacle_two_ways,
    "ParkingCrossingPedestrian": lambda draws: _step_out(draws, False),
    "ParkingCutIn": _parking_cut_in,
    "ParkingExit": _parking_exit,
    "PedestrianCrossing": _turn(STRAIGHT, STRAIGHT, LEFT, RIGHT, RIGHT),
    "SequentialLaneChange": _lane_changes,
    "SignalizedJunctionLeftTurn": _against,
    "SignalizedJunctionLeftTurnEnterFlow": _left_into,
    "SignalizedJunctionRightTurn": _right_into,
    "StaticCutIn": _static_cut_in,
    "T_Junction": _t_junction,
    "VanillaNonSignalizedTurn": _vanilla,
    "VanillaNonSignalizedTurnEncounterStopsign": _vanilla,
    "VanillaSignalizedTurnEncounterGreenLight": _vanilla,
    "VanillaSignalizedTurnEncounterRedLight": _vanilla,
    "VehicleOpensDoorTwoWays": _door,
    "VehicleTurningRoute": _LEFT_RIGHT,
    "VehicleTurningRoutePedestrian": _LEFT_RIGHT,
    "YieldToEmergencyVehicle": _emergency,
}
