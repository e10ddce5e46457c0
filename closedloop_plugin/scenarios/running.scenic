"""A car crosses the junction that the ego has a right to: OppositeVehicleRunningRedLight (through its red light) and
OppositeVehicleTakingPriority. It comes from `direction`, straight over, and arrives where the ways meet when the ego
does. Where that way does not touch the ego's (a right turn, a car from the right), another arm is taken."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

source, line, meet = geometry.conflict(road, str(stage.params.get("direction", "left")))
before = 42.0

behavior RunOver(pace):
    mine = self.rail
    do Begin()
    mine.now = pace
    came = stage.time_s
    while meet[1] - mine.s > 1.5 * (mine.now or pace) and stage.time_s < came + 8:
        eta = (meet[0] - 1.0 - stage.ego_s) / max(stage.ego_speed, 1.5)
        mine.speed = min(max((meet[1] - mine.s) / max(eta, 0.5), 3.0), 13.0)
        do Ride() for 1 steps
    stage.event("act")
    mine.speed = max(mine.speed, 7.0)
    do Ride() until mine.s > line.length
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(line, meet[1] - before, accel=4.0, brake=5.0)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior RunOver(Range(7, 9))

if option("signals"):
    stage.hold_signals(route="green", cross="red")
