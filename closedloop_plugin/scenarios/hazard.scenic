"""Cyclists ride slowly in the right half of the ego's lane: HazardAtSideLane and HazardAtSideLaneTwoWays.

They start `distance` metres beyond the trigger point, ride at `bicycle_speed` km/h for `bicycle_drive_distance` metres,
then stand. One-way type: cars at `speed` km/h overtake on the left. TwoWays: oncoming cars at intervals of
`frequency` metres.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

start = stage.trigger_s + stage.number("distance", 100)
ride = stage.number("bicycle_drive_distance", 50)
pace = stage.number("bicycle_speed", 10) / 3.6
APART = 9.0  # m between the two cyclists

behavior Cycle():
    mine = self.rail
    do Begin()
    stage.event("act")
    mine.stop_s = mine.s + ride
    mine.speed = pace
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

for gap in (0.0, APART):
    rail = Rail(route, start + gap, -0.55 * width / 2, accel=1.0, brake=3.0)
    new Wheeled at place_on(rail), facing heading_on(rail), with kind "bicycle", with rail rail, with behavior Cycle()

if option("two_ways"):
    require monitor LendOncomingLane(start + APART + ride + 20, start, 50.0)
    traffic = flows.oncoming(stage, stage.interval("frequency", (100, 100)), road.speed_limit, start + 10)
else:
    traffic = flows.passing(stage, min(stage.number("speed", 60) / 3.6, 16.0), 1)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic)
