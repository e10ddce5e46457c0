"""What the 44 programs share: classes of actors, behaviours, and where things are. Generic driving model.

Actors move on Rails (worlds/bridge/rail.py): the worlds move them along. Classes name their CARLA blueprint, which
other models ignore.
"""

model scenic.domains.driving.model

import math

from scenic.core.distributions import distributionFunction
from scenic.core.vectors import Vector

from closedloop_plugin.core.frames import scenic_heading
from closedloop_plugin.core.path import RoutePath as Path
from closedloop_plugin.scenarios import flows, geometry
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.looks import blueprint_of, cover_size
from closedloop_plugin.worlds.bridge.rail import Rail

stage = globalParameters.stage
road = stage.road
route = stage.road.path
width = stage.road.lane_width

PropBase = globals().get("Prop", DrivingObject)

# -- actors ------------------------------------------------------------------------------------------------------------

class Wheeled(Car):
    """Any vehicle, by its `kind`."""
    kind: "car"
    role: "scenario"
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

class Walker(Pedestrian):
    kind: "pedestrian"
    role: "scenario"
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

class Thing(PropBase):
    """Stands: cones, barriers, what hides a pedestrian."""
    kind: "blocker"
    role: "scenario"
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

def option(name):
    """What the catalogue fixes for this scenario type."""
    if stage.kind not in CATALOGUE:
        raise ValueError("a program of the catalogue plays by its route's scenario type: drive the route itself")
    return CATALOGUE[stage.kind].options[name]

# -- where -------------------------------------------------------------------------------------------------------------

def heading_on(rail):
    """Scenic heading of who stands on a rail."""
    return scenic_heading(rail.pose()[2])

def place_on(rail):
    return rail.pose()[:2]

@distributionFunction
def place(s, d=0.0):
    """stage.spot for random arguments."""
    return Vector(*stage.spot(s, d))

@distributionFunction
def turned(s, degrees):
    """stage.heading for random arguments."""
    return stage.heading(s, degrees)

def seconds_to(s):
    """Until the ego's front is at s, if it keeps its speed (a crawl counts as 2.5 m/s)."""
    return (s - stage.ego_s - 2.4) / max(stage.ego_speed, 2.5)

# -- behaviours --------------------------------------------------------------------------------------------------------

behavior Ride():
    """Follow one's rail."""
    while True:
        wait

behavior Flow():
    """A car of a flow: comes on the stage when the flow begins, leaves it at its line's end."""
    mine = self.rail
    while not stage.reached_trigger:
        wait
    self.gone = False
    do Ride() until mine.s > mine.path.length + 10
    self.gone = True

behavior Begin():
    """Ride until the ego is where the route says that the scenario begins."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")

monitor Conduct(convoy, acts=True):
    """Drive a whole flow; `acts`: it is what the scenario is about."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    if acts:
        stage.event("act")
    while True:
        convoy.step(stage)
        wait

monitor LendOncomingLane(last):
    """TwoWays: the other direction's lane may be used while the obstacle must be passed."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    stage.oncoming_allowed = True
    while stage.ego_s < last or abs(stage.ego_d) > 0.8:
        wait
    stage.oncoming_allowed = False
    stage.event("end")
    wait
