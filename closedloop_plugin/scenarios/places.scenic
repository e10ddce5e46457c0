"""Places, rails and moments for scenarios of one's own and for generated threats. Everything of library.scenic is here too.

All arguments may be random (`Range(...)`, `globalParameters.x`): rails and
places are made when the scene is drawn. Metres along the ego's way (`s`) and to its left (`d`), m/s, seconds.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.library import *

# -- where -------------------------------------------------------------------------------------------------------------

def behind_junction():
    """The exit of the junction that the ego's way crosses."""
    return geometry.last_junction(road)[1]

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

def is_due(where, due, kind):
    """The ego is `due` seconds ("time") or metres ("distance") before `where`."""
    if kind == "time":
        return seconds_to(where) <= due
    return where - stage.ego_s - 2.4 <= due

monitor RedThenGreen(seconds):
    """The ego's light is red until the ego has stood before it for so long, then green; the others' the other way."""
    stage.hold_signals(route="red", cross="green")
    stood = 0.0
    while stood < seconds:
        stood = stood + (stage.timestep if stage.ego_speed < 0.3 and stage.time_s > 3 else 0.0)
        wait
    stage.hold_signals(route="green", cross="red")
    wait
