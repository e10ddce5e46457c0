"""A car stands in the exit of the junction, and drives on some seconds after the ego has stopped behind it:
BlockedIntersection."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

start = geometry.last_junction(road)[1] + 1.0

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, start, gap=3.0)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with lamps {"hazard"}, \
    with behavior Block(start, 19.6, "distance", Range(3, 5))
stage.hold_signals(route="green", cross="red")
