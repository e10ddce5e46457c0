"""An obstacle in the ego's lane: Accident, ConstructionObstacle, ParkedObstacle, and their TwoWays types.

The obstacle is `distance` metres beyond the trigger point, on the side `direction` of the road. One-way types: the next
lane is free after its traffic, at `speed` km/h, has passed. TwoWays: only the oncoming lane is free, in which cars come
at intervals of `frequency` metres.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

what = option("what")
two_ways = option("two_ways")
side = 1 if stage.params.get("direction", "right") == "right" else -1  # on which the ego passes: +1 left
start = stage.trigger_s + stage.number("distance", 40)

ego = new Car at place(0), facing stage.heading(0)

if what == "accident":
    new Wheeled at place(start, 0.1 * side), facing stage.heading(start), with kind "police", \
        with lamps {"siren", "hazard"}
    end = start
    for gap in (8.5, 15.5):
        end = start + gap
        new Wheeled at place(end, Range(-0.4, 0.4)), facing turned(end, Range(-25, 25)), with lamps {"hazard"}
elif what == "construction":
    end = start + 15
    new Thing at place(start, -0.3 * side), facing stage.heading(start), with kind "warning sign"
    for step in range(5):
        new Thing at place(start + 1.2 * step, side * (-1.4 + 0.6 * step)), facing stage.heading(start), \
            with kind "cone"
    new Thing at place(start + 6, 0), facing stage.heading(start + 6), with kind "barrier", with fixed True
    new Wheeled at place(start + 11, Range(-0.3, 0.2)), facing stage.heading(start + 11), with kind "van", \
        with lamps {"hazard"}
    for step in range(3):
        new Thing at place(start + 8 + 3.5 * step, side * 1.3), facing stage.heading(start), with kind "cone"
else:
    end = start
    new Wheeled at place(start, Range(-0.5, -0.1) * side), facing turned(start, Range(-3, 3)), with lamps {"hazard"}

if two_ways:
    require monitor LendOncomingLane(end + 18)
    traffic = flows.oncoming(stage, stage.interval("frequency", (20, 100)), 7.5, start + 5, end + 24)
else:
    pace = min(stage.number("speed", 60) / 3.6, 16.0)
    traffic = flows.passing(stage, pace, side)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic)
