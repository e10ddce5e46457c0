"""Classes of actors, behaviours and places that the 44 programs share. Uses the generic driving model.

Actors move on Rails (worlds/bridge/rail.py); the worlds move them. Each class gives its CARLA blueprint, which other
models ignore.
"""

model scenic.domains.driving.model

import math

from scenic.core.distributions import distributionFunction
from scenic.core.vectors import Vector

from closedloop_plugin.core.frames import scenic_heading
from closedloop_plugin.core.path import RoutePath as Path
from closedloop_plugin.scenarios import flows, geometry
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.looks import blueprint_of as _blueprint_of, cover_size
from closedloop_plugin.worlds.bridge.rail import Rail

stage = globalParameters.stage
road = stage.road
route = stage.road.path
width = stage.road.lane_width

blueprint_of = distributionFunction(_blueprint_of)  # a kind may be random: with kind Uniform("car", "van")

PropBase = globals().get("Prop", DrivingObject)

# -- actors ------------------------------------------------------------------------------------------------------------

class Wheeled(Car):
    """A vehicle of any `kind`."""
    kind: "car"
    role: stage.role
    part: stage
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    acts_as: "act"
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

class Walker(Pedestrian):
    """A pedestrian, child or animal, by its `kind`."""
    kind: "pedestrian"
    role: stage.role
    part: stage
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    acts_as: "act"
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

class Thing(PropBase):
    """An object: cone, barrier, debris, or one that hides a pedestrian."""
    kind: "blocker"
    role: stage.role
    part: stage
    lamps: set()
    doors: set()
    rail: None
    fixed: False
    gone: False
    acts_as: "act"
    blueprint: blueprint_of(self.kind)
    allowCollisions: True
    regionContainedIn: everywhere

def option(name):
    """Value that the catalogue gives for this scenario type. Raises ValueError for a type outside the catalogue."""
    if stage.kind not in CATALOGUE:
        raise ValueError("a program of the catalogue plays by its route's scenario type: drive the route itself")
    return CATALOGUE[stage.kind].options[name]

# -- where -------------------------------------------------------------------------------------------------------------

def heading_on(rail):
    """Scenic heading of an actor on a rail."""
    return scenic_heading(rail.pose()[2])

def place_on(rail):
    """(x, y) of an actor on a rail."""
    return rail.pose()[:2]

@distributionFunction
def place(s, d=0.0):
    """The point at s, d (see stage.spot). Arguments may be random."""
    return Vector(*stage.spot(s, d))

@distributionFunction
def turned(s, degrees):
    """Scenic heading of the route at s, turned (see stage.heading). Arguments may be random."""
    return stage.heading(s, degrees)

def seconds_to(s):
    """Seconds until the ego's front is at s if it keeps its speed; slower than 2.5 m/s counts as 2.5 m/s."""
    return (s - stage.ego_s - 2.4) / max(stage.ego_speed, 2.5)

def to_ego(s, d=0.0):
    """Metres from the ego's centre to the point s, d, in a straight line."""
    return math.dist(stage.spot(s, d), stage.spot(stage.ego_s, stage.ego_d))

def arrives(s, seconds, metres):
    """Whether the ego's centre is less than `metres`, or at its present speed less than `seconds`, from the lane's
    centre at s: the condition with which CARLA's scenarios start their actors."""
    gap = to_ego(s)
    return gap < metres or gap < seconds * stage.ego_speed

# -- behaviours --------------------------------------------------------------------------------------------------------

behavior Ride():
    """Follow the actor's rail."""
    while True:
        wait

behavior InFlow(traffic):
    """A car of a flows.ActorFlow: in the scene while it is on the line."""
    mine = self.rail
    while True:
        self.gone = not traffic.shows(mine)
        wait

behavior Begin():
    """Ride until the ego reaches the route's trigger point, and record the event "trigger"."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")

monitor Conduct(convoy, acts=True):
    """Drive a whole flow from the trigger point on. acts: also record the event "act": it is the scenario's action."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    if acts:
        stage.event("act")
    while True:
        convoy.step(stage)
        wait

monitor LendOncomingLane(last, first=None, near=50.0, seconds=5.0):
    """TwoWays: the ego may use the oncoming lane until it is beyond s = `last` and back in its own lane. first: not
    before `seconds` after it has come within `near` metres of s = `first`."""
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    if first is not None:
        while to_ego(first) >= near:
            wait
        came = stage.time_s
        while stage.time_s < came + seconds:
            wait
    stage.oncoming_allowed = True
    while stage.ego_s < last or abs(stage.ego_d) > 0.8:
        wait
    stage.oncoming_allowed = False
    stage.event("end")
    wait
