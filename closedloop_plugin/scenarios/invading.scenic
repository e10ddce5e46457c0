"""Oncoming cars drive over the centre line, around cones in their own lane: InvadingTurn.

They enter 30 m beyond `distance` metres from the trigger point, 40 m one after the other, until the ego has passed that
place. Their centres are `offset` metres farther left than half a lane less 0.7 m.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

distance = stage.number("distance", 100)
source = stage.trigger_s + distance + 30.0
APART = 40.0  # m
over = stage.lane(1) - (stage.number("offset", 0.25) + width / 2 - 0.7)
cars = []

behavior Invade(number):
    """Enter when the car before is APART from the source; leave at the trigger point, and enter again."""
    mine = self.rail
    do Begin()
    stage.event("act")
    before = cars[number - 1]
    first = number == 0
    while stage.ego_s < source:
        while not first and (before.gone or source - before.rail.s <= APART):
            wait
        first = False
        mine.s = source
        mine.now = 0.0
        mine.speed = road.speed_limit
        self.gone = False
        while mine.s > stage.trigger_s + 2.0 and stage.ego_s < source:
            mine.gap = flows.HEAD_ON_GAP if flows.claims(mine, stage) < 0 else None  # brakes for an ego in its way
            do Ride() for 1 steps
        self.gone = True

ego = new Car at place(0), facing stage.heading(0)

for number in range(math.ceil((distance + 30.0) / APART) + 1):
    rail = Rail(route, source, over, direction=-1, accel=3.0, brake=7.0)
    cars.append(new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with gone True, \
        with behavior Invade(number))

for number in range(math.ceil(0.5 * distance / 5.0)):
    s = source - 10.0 - 5.0 * (number + 1)
    new Thing at place(s, stage.lane(1) + 0.8 * width / 2), facing stage.heading(s), with kind "cone"
