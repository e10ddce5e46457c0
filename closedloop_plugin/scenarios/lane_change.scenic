"""A route with several lane changes in traffic; no actor endangers the ego: SequentialLaneChange."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.background import *

behavior Lead():
    do DriveAhead() until stage.reached_trigger
    stage.event("trigger")
    stage.event("act")
    do DriveAhead()

ego = new Car at place(0), facing stage.heading(0)

for number in range(CARS_AHEAD):
    rail = Rail(route, AHEAD_M * (number + 1), accel=3.0)
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Lead()
