"""A parked car opens its door into the lane when the ego approaches: VehicleOpensDoorTwoWays.

The car stands in the parking lane, close to the ego's, `distance` metres beyond the trigger point; its door stays open.
Only the oncoming lane is free, in which cars come at intervals of `frequency` metres.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

direction = stage.params.get("direction", "right")
start = stage.trigger_s + stage.number("distance", 50)

behavior OpenAndLeave():
    do Begin()
    while not arrives(start, 3.0, 10.0):
        wait
    stage.event("act")
    self.doors.add("left" if direction == "right" else "right")

ego = new Car at place(0), facing stage.heading(0)

new Wheeled at place(start, parking_bay(direction, "road")), facing stage.heading(start), with behavior OpenAndLeave()
for gap in (-11.0, 11.0, 18.0):
    new Wheeled at place(start + gap, parking_bay(direction, "kerb")), facing stage.heading(start + gap)

require monitor LendOncomingLane(start + 50, start, 10.0)
traffic = flows.oncoming(stage, stage.interval("frequency", (20, 100)), road.speed_limit, start, start + 22)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic, False)
