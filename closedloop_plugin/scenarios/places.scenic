"""Places, rails and moments for scenarios of one's own and for generated threats, with all of library.scenic.

All arguments may be random (`Range(...)`, `globalParameters.x`): rails and places are made when the scene is drawn.
Metres along the ego's way (`s`) and to its left (`d`), m/s, seconds.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.library import *

# -- where -------------------------------------------------------------------------------------------------------------

def behind_junction():
    """The exit of the junction that the ego's way crosses."""
    return geometry.last_junction(road)[1]

def lanes(which):
    """How many more lanes the road has: "left" and "right" of the ego's lane, "oncoming" beyond the left ones."""
    return int((road.facts.get("lanes") or {}).get(which, 0))

def roadside(side):
    """d of who stands at the edge of the road, +1 left, -1 right, clear of the last lane of the ego's direction."""
    return side * ((lanes("left" if side > 0 else "right") + 0.5) * width + 1.6)

def oncoming_lane():
    """d of the nearest lane of the other direction."""
    return stage.lane(lanes("left") + 1)

@distributionFunction
def short_of(where, way):
    """So many metres before a place, but clear of where the ego starts."""
    return max(where - way, 15.0)

@distributionFunction
def at_least(s, least):
    """A place, or the first one where there is room for what drives before it."""
    return max(s, least)

@distributionFunction
def further(where, way):
    """So many metres behind a place, but not where the map has no road any more."""
    return min(where + way, max(where, route.length + (60.0 if road.source == "corridor" else 0.0)))

@distributionFunction
def rail_at(s, d=0.0, direction=1, speed=0.0, accel=2.5, brake=6.0, sideways=1.2):
    """A Rail on the ego's way; direction -1: against it."""
    return Rail(route, s, d, speed, direction, accel, brake, sideways=sideways)

@distributionFunction
def start_of(rail):
    """Where its actor stands."""
    return Vector(*rail.pose()[:2])

@distributionFunction
def facing_of(rail):
    """Scenic heading of its actor."""
    return scenic_heading(rail.pose()[2])

# -- when --------------------------------------------------------------------------------------------------------------

def until_due(where, due, kind):
    """Seconds until the ego, keeping its speed, is `due` seconds ("time") or metres ("distance") before `where`."""
    if kind == "time":
        return seconds_to(where) - due
    return (where - due - stage.ego_s - 2.4) / max(stage.ego_speed, 2.5)

def is_due(where, due, kind):
    """The ego is under way, and that moment has come."""
    return stage.reached_trigger and stage.ego_s > 2.0 and until_due(where, due, kind) <= 0.0

def is_near(where, due, kind):
    """It is due, or the ego has stopped before it."""
    return is_due(where, due, kind) or (stage.ego_speed < 0.5 and stage.time_s > 3 and where - stage.ego_s < 15)

monitor RedThenGreen(seconds):
    """The ego's light is red until the ego has stood before it for so long, then green; the others' the other way."""
    stage.hold_signals(route="red", cross="green")
    stood = 0.0
    while stood < seconds:
        stood = stood + (stage.timestep if stage.ego_speed < 0.3 and stage.time_s > 3 else 0.0)
        wait
    stage.hold_signals(route="green", cross="red")
    wait
