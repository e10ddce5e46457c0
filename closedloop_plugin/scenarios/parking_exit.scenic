"""The ego stands in a parking bay and has to enter the passing traffic: ParkingExit.

The bay is on the side `direction` of the road, between a parked car `front_vehicle_distance` metres ahead and one
`behind_vehicle_distance` metres behind. A car beside the ego drives off at the start; others follow 25 m apart.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

bay = parking_bay(stage.params.get("direction", "right"), "kerb")
SPACING, BESIDE_M = 25.0, 50.0  # m between the cars; way of the car beside the ego until it is removed

behavior PullAway():
    mine = self.rail
    do Begin()
    mine.speed = road.speed_limit
    do Ride() until mine.s > BESIDE_M
    self.gone = True

ego = new Car at place(0, bay), facing stage.heading(0), with regionContainedIn everywhere

for gap in (stage.number("front_vehicle_distance", 20), -stage.number("behind_vehicle_distance", 10)):
    new Wheeled at place(gap, bay), facing stage.heading(gap)

near = Rail(route, 0.0, accel=3.0, gap=3.0)
new Wheeled at place_on(near), facing heading_on(near), with rail near, with behavior PullAway()

traffic = flows.beside(stage, road.speed_limit, SPACING)
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic)
