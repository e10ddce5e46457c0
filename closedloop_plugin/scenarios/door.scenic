"""A parked car opens its door into the lane when the ego approaches: VehicleOpensDoorTwoWays.

The car stands at the right edge, `distance` metres beyond the trigger point. Only the oncoming lane is free, in which
cars come at intervals of `frequency` metres. After some time the door is closed.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

start = stage.trigger_s + stage.number("distance", 50)
edge = -width / 2 - 0.6

ego = new Car at place(0), facing stage.heading(0)

new Wheeled at place(start, edge), facing stage.heading(start), \
    with behavior OpenDoor(start - 1, Range(2.3, 2.7), "time", Range(18, 24))
for gap in (-8.0, 7.5, 15.0):
    new Wheeled at place(start + gap, edge - Range(0.5, 0.8)), facing stage.heading(start + gap)

require monitor LendOncomingLane(start + 15)
traffic = flows.oncoming(stage, stage.interval("frequency", (20, 100)), 7.5, start, start + 22)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic, False)
