"""Places, rails and moments for custom scenarios and for generated threats; includes library.scenic.

Units: metres along the ego's path (s) and to its left (d), m/s, seconds. All arguments may be random (`Range(...)`,
`globalParameters.x`): rails and places are computed when the scene is sampled.
"""

model scenic.domains.driving.model

from closedloop_plugin.maps.plan import PARKING, SHOULDER, SIDEWALK
from closedloop_plugin.scenarios.known_words import LANES, SIDES, WHEN, finite, known_word
from closedloop_plugin.scenarios.library import *
from closedloop_plugin.scenarios.looks import body_size

# -- where -------------------------------------------------------------------------------------------------------------

def behind_junction():
    """s of the exit of the junction that the ego's path crosses."""
    return geometry.last_junction(road)[1]

def lanes(which):
    """Number of further lanes: "left" or "right" of the ego's lane, or "oncoming", beyond those on the left."""
    known_word("lanes", which, LANES)
    return int((road.facts.get("lanes") or {}).get(which, 0))

def roadside(side):
    """d of an actor at the edge of the road, outside the last lane of the ego's direction. side: +1 left, -1 right."""
    return side * ((lanes("left" if side > 0 else "right") + 0.5) * width + 1.6)

def oncoming_lane():
    """d of the nearest lane of the opposite direction."""
    return stage.lane(lanes("left") + 1)

def azimuth_ahead(s):
    """CARLA's sun_azimuth_angle, in degrees clockwise, of a sun that an ego at s has straight ahead."""
    return -math.degrees(route.pose(s)[2])

def parking_bay(side, towards):
    """d of the centre of a car in the parking lane, "left" or "right", close to its "road" or its "kerb" edge."""
    known_word("side", side, SIDES)
    known_word("edge", towards, ("road", "kerb"))
    shift = (PARKING - body_size("car")[1] / 2) / 4  # as CARLA's scenarios place it
    middle = width / 2 + PARKING / 2
    return (1 if side == "left" else -1) * (middle - shift if towards == "road" else middle + shift)

@distributionFunction
def short_of(where, way):
    """The place `way` metres before `where`, at least 15 m from the start of the ego's path."""
    return max(where - way, 15.0)

@distributionFunction
def at_least(s, least):
    """The larger of s and `least`, the first place with enough room before it for the scenario's actors."""
    return max(s, least)

@distributionFunction
def further(where, way):
    """The place `way` metres beyond `where`, or the last one at which the map has a road."""
    return min(where + way, max(where, route.length + (60.0 if road.source == "corridor" else 0.0)))

@distributionFunction
def rail_at(s, d=0.0, direction=1, speed=0.0, accel=2.5, brake=6.0, sideways=1.2):
    """A Rail on the ego's path; direction -1: against it."""
    stage.spot(finite("s of a rail", s))  # raises an error without a route
    return Rail(route, s, d, speed, direction, accel, brake, sideways=sideways)

@distributionFunction
def start_of(rail):
    """Position of an actor on the rail."""
    return Vector(*rail.pose()[:2])

@distributionFunction
def facing_of(rail):
    """Scenic heading of an actor on the rail."""
    return scenic_heading(rail.pose()[2])

# -- when --------------------------------------------------------------------------------------------------------------

def until_due(where, due, kind):
    """Seconds until the ego, at its present speed, is `due` seconds ("time") or metres ("distance") before `where`."""
    if known_word("way to measure when the ego is due", kind, WHEN) == "time":
        return seconds_to(where) - due
    return (where - due - stage.ego_s - 2.4) / max(stage.ego_speed, 2.5)

def is_due(where, due, kind):
    """Whether the ego has started, has passed the trigger point, and is due (until_due is 0 or less)."""
    return stage.reached_trigger and stage.ego_s > 2.0 and until_due(where, due, kind) <= 0.0

def is_near(where, due, kind):
    """Whether the ego is due, or has stopped less than 15 m before `where`."""
    return is_due(where, due, kind) or (stage.ego_speed < 0.5 and stage.time_s > 3 and where - stage.ego_s < 15)

def acts(actor):
    """Record that the actor endangers the ego from now on: the event "act", once for all actors, and the actor's own
    (`acts_as`) where a program has several."""
    stage.event("trigger")
    stage.event("act")
    stage.event(actor.acts_as)

monitor RedThenGreen(seconds):
    """The ego's light is red until the ego has waited for `seconds`, then green; all other lights are the opposite."""
    stage.hold_signals(route="red", cross="green")
    stood = 0.0
    while stood < seconds:
        stood = stood + (stage.timestep if stage.ego_speed < 0.3 and stage.time_s > 3 else 0.0)
        wait
    stage.hold_signals(route="green", cross="red")
    wait
