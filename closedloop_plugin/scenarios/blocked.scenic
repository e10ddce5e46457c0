"""A car stands 5 m behind the exit of the junction. It is removed 10 s after the ego has come within 13 m of it:
BlockedIntersection."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

where = geometry.last_junction(road)[1] + 5.0

behavior Stand():
    do Begin()
    while (distance from self to ego) > 13.0:
        wait
    stage.event("act")
    came = stage.time_s
    while stage.time_s < came + 10.0:
        wait
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

new Wheeled at place(where), facing stage.heading(where), with lamps {"brake"}, with behavior Stand()
stage.hold_signals(route="green", cross="red")
