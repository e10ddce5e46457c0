"""Oncoming cars drive over the centre line: InvadingTurn.

Their centres are `offset` metres inside the ego's lane; the first car starts `distance` metres beyond the trigger
point. The ego has to keep to the right edge. If it has stopped, the cars return to their own lane.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

over = width / 2 - stage.number("offset", 0.5)
start = stage.trigger_s + stage.number("distance", 50)

behavior Invade(pace):
    mine = self.rail
    do Begin()
    stage.event("act")
    mine.now = pace
    mine.speed = pace
    while mine.s > stage.ego_s - 8 and not (stage.ego_speed < 1.5 and mine.s - stage.ego_s < 30):
        do Ride() for 1 steps
    mine.gap = 4.0
    mine.d_wanted = width
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

for gap in (0.0, 11.0, 23.0):
    rail = Rail(route, start + gap, over, direction=-1, sideways=2.5)
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Invade(Range(5.5, 6.0))
