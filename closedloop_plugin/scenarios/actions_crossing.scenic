"""Behaviours of actors that cross the ego's path, stand in it, or open a door into it; and the places they start from.

Each records the event "act" when its actor becomes dangerous: when it steps out, starts, opens its door or appears.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *

# -- where -------------------------------------------------------------------------------------------------------------

def road_edge(side):
    """d of the outer edge of the last lane on that side, "left" or "right"."""
    known_word("side", side, SIDES)
    lanes = road.facts.get("lanes", {})
    if side == "left":
        return width * (0.5 + lanes.get("left", 0) + lanes.get("oncoming", 0))
    return -width * (0.5 + lanes.get("right", 0))

def outside(side, metres):
    """d of a place this many metres outside that edge."""
    return road_edge(side) + (metres if side == "left" else -metres)

def pavement(side):
    """d of the middle of the pavement beside the shoulder on that side."""
    return outside(side, SHOULDER + SIDEWALK / 2)

def parked(side, kind, over=-0.4):
    """d of the centre of an actor parked lengthwise beside the lanes. over: its overlap with the last lane, m."""
    return outside(side, body_size(kind)[1] / 2 - over)

def alongside(kind):
    """d of the centre of an actor just right of the ego's lane: in the next lane, if there is one."""
    return -width / 2 - body_size(kind)[1] / 2 - 0.4

@distributionFunction
def rail_across(s, side, off=1.4, d=None):
    """A Rail perpendicular to the road at s, from `off` metres outside the edge on that side to 1.8 m beyond the other
    edge. d: start of the actor, if not at the beginning of the rail."""
    stage.spot(finite("s of a rail", s))  # raises an error without a route
    begin, end = outside(side, off), outside("left" if side == "right" else "right", 1.8)
    way = Path([route.pose(s, begin)[:2], route.pose(s, end)[:2]])
    return Rail(way, 0.0 if d is None else abs(d - begin), accel=6.0)

def line_over(source):
    """(straight line across the junction from that arm, its conflict with the ego's path); see geometry.conflict."""
    _, line, meet = geometry.conflict(road, source)
    return line, meet

def line_across():
    """(line, its conflict with the ego's path) of a car from the opposite arm that turns left across that path. If
    these do not meet, as when the ego turns left too, the car goes straight on, or turns right."""
    start = geometry.last_junction(road)[0] - 2.0
    for target in ("right", "entry", "left"):
        line = geometry.junction_flow(road, "opposite", target)
        meet = geometry.meeting(route, line, start)
        if meet is not None:
            return line, meet
    line = geometry.junction_flow(road, "opposite", "right")
    return line, geometry.closest(route, line, start)

@distributionFunction
def rail_before(line, meet, pace, due, kind):
    """A Rail on another line, with its actor so far before the point of conflict that it arrives there together with
    the ego if it starts from rest when the ego is due. meet: (s on the ego's path, s on the line) of that point."""
    way = flows.Pace(route, flows.CRUISE * road.speed_limit, flows.EGO_SIDEWAYS)
    seconds = due if kind == "time" else way.seconds(meet[0] - due - 2.4, meet[0] - 2.4)
    accel = 5.0
    lost = min(pace, accel * seconds) / (2 * accel)  # time lost by accelerating, s
    place = flows.Pace(line, pace).before(meet[1], max(seconds - lost, 0.0))
    return Rail(line, min(place, meet[1] - 7.0), accel=accel, brake=7.0)

# -- crossing ----------------------------------------------------------------------------------------------------------

behavior StepOut(where, due, kind, pace, accel=6, lag=0.0):
    """Stand at the edge; when the ego is due before `where`, cross at `pace` after another `lag` seconds."""
    mine = self.rail
    do Begin()
    while not is_due(where, due, kind):
        wait
    acts(self)
    begun = stage.time_s
    while stage.time_s < begun + lag:
        wait
    mine.accel = accel
    mine.speed = pace
    mine.stop_s = mine.path.length - 0.3
    do Ride()

behavior RunJunction(meet, pace, due, kind):
    """Wait on its own arm; when the moving ego is due before the point of conflict, drive there to meet it, and on. It
    does not chase an ego that gives way, and brakes for one that stands in its lane."""
    mine = self.rail
    alone = flows.Convoy([mine], pace, meet, flows.Pace(mine.path, pace))
    alone.begun = True  # it starts at rest
    do Begin()
    while not is_due(meet[0], due, kind) or (stage.ego_speed < 2.0 and meet[0] - stage.ego_s > 8.0):
        wait
    acts(self)
    while mine.s < mine.path.length:
        alone.step(stage)
        do Ride() for 1 steps
    self.gone = True

# -- standing ----------------------------------------------------------------------------------------------------------

behavior OpenDoor(where, due, kind, rest):
    """Parked at the right edge: open the door into the lane when the ego is due, and close it after `rest` seconds."""
    do Begin()
    while not is_due(where, due, kind):
        wait
    acts(self)
    self.doors.add("left")
    opened = stage.time_s
    while stage.time_s < opened + rest:
        wait
    self.doors.clear()

behavior Stay(where, rest):
    """Wait until the ego has stood before `where` for `rest` seconds; at most 30 s, so that a creeping ego ends it."""
    came = stage.time_s
    waited = 0.0
    while waited < rest and stage.time_s < came + 30:
        if stage.ego_speed < 0.5 and where - stage.ego_s < 25:
            waited += stage.timestep
        do Ride() for 1 steps

behavior Block(where, due, kind, rest, run=0.0):
    """Stand in the lane, and drive on after the ego has waited for `rest` seconds. An actor beside the lane moves into
    it when the ego is due, within `run` metres."""
    mine = self.rail
    do Begin()
    while not is_near(where, due, kind):
        wait
    acts(self)
    mine.d_wanted = 0.0
    mine.stop_s = mine.s + run
    mine.speed = 5.0
    do Stay(where, rest)
    self.lamps.clear()
    mine.stop_s = None
    mine.speed = 8.0
    do Ride()

behavior Obstruct(where, due, kind, rest, d=0.0, pace=3.0, walks_on=False):
    """Lie or stand in the lane, `d` from its centre, until the ego has waited for `rest` seconds; then be removed, or
    walk on. A person or animal beside the lane first moves there at `pace` when the ego is due; objects are there from
    the start."""
    mine = self.rail
    if isinstance(self, Thing):  # no object moves by itself
        mine.s = mine.path.locate(*stage.spot(where, d))[0]
    do Begin()
    while not is_near(where, due, kind):
        wait
    acts(self)
    there = mine.path.locate(*stage.spot(where, d))[0] - pace * pace / (2 * mine.brake)
    begun = stage.time_s
    mine.speed = pace if mine.s < there else 0.0
    do Ride() until mine.s >= there or stage.time_s > begun + 8  # it may have been hit before
    mine.speed = 0.0
    do Stay(where, rest)
    if walks_on:
        mine.stop_s = mine.path.length - 0.3
        mine.speed = pace
        do Ride()
    self.gone = True
