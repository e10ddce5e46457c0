"""An obstacle in the ego's lane: Accident, ConstructionObstacle, ParkedObstacle, and their TwoWays types.

The obstacle is `distance` metres beyond the trigger point, on the side `direction` of the road; a sign at the trigger
point warns of it. One-way types: cars overtake in the next lane at `speed` km/h. TwoWays: only the oncoming
lane is free, in which cars come at intervals of `frequency` metres.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

what = option("what")
two_ways = option("two_ways")
direction = stage.params.get("direction", "right")
side = 1 if direction == "right" else -1  # on which the ego passes: +1 left
start = stage.trigger_s + stage.number("distance", 100 if what == "construction" else 120)
SIGN = "static.prop.warningconstruction" if what == "construction" else "static.prop.warningaccident"
ACCIDENT_GAPS = (10.0, 6.0)  # m from the police car to the first crashed car, and from that to the second

ego = new Car at place(0), facing stage.heading(0)

# 0.3 lane widths outside the middle of the first lane beside the road.
new Thing at place(stage.trigger_s, outside(direction, 0.75 + 0.3 * width)), facing stage.heading(stage.trigger_s), \
    with kind "warning sign", with blueprint SIGN

if what == "accident":
    aside = -side * 0.6 * width / 2
    new Wheeled at place(start, aside), facing stage.heading(start), with kind "police", with lamps {"siren"}
    first, end = start + ACCIDENT_GAPS[0], start + sum(ACCIDENT_GAPS)
    for s in (first, end):
        new Wheeled at place(s, aside), facing stage.heading(s)
elif what == "construction":
    first, end = start, start + 8
    inner = side * 0.85 * width / 2  # edge of the site on which the ego passes
    new Thing at place(start - 5, 0), facing stage.heading(start - 5), with kind "barrier", with fixed True, \
        with length 1.2, with width 2.2, with height 2.4, with blueprint "static.prop.trafficwarning"
    new Thing at place(start + 2, 0), facing stage.heading(start + 2), with kind "debris", \
        with blueprint "static.prop.dirtdebris02"
    for gap in (2, 4, 6, 8):
        new Thing at place(start + gap, inner), facing stage.heading(start + gap), with kind "cone"
    for step in (1, 2, 3):
        new Thing at place(start + 8, inner - side * step), facing stage.heading(start + 8), with kind "cone"
else:
    first = end = start
    new Wheeled at place(start, -side * 0.7 * width / 2), facing stage.heading(start), with lamps {"hazard"}

if two_ways:
    require monitor LendOncomingLane(end + 50, first, 30.0 if what == "construction" else 50.0)
    traffic = flows.oncoming(stage, stage.interval("frequency", (20, 100)), road.speed_limit, start + 5, end + 24)
else:
    pace = min(stage.number("speed", 60) / 3.6, 16.0)
    traffic = flows.passing(stage, pace, side)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic)
