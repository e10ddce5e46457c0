"""A car stands in the exit of the junction, and drives on some seconds after the ego has come to wait behind it:
BlockedIntersection."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

start = geometry.last_junction(road)[1] + 1.0

behavior Stand(rest):
    mine = self.rail
    do Begin()
    while stage.ego_s < start - 22:
        wait
    stage.event("act")
    came = stage.time_s
    waited = 0.0
    while waited < rest and stage.time_s < came + 30:
        if stage.ego_speed < 0.5:
            waited += stage.timestep
        wait
    self.lamps.clear()
    mine.speed = 8.0
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, start, gap=3.0)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with lamps {"hazard"}, \
    with behavior Stand(Range(3, 5))
stage.hold_signals(route="green", cross="red")
