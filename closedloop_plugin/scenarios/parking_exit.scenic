"""The ego stands in a parking bay and has to enter the passing traffic: ParkingExit.

The bay is on the side `direction` of the road, between a parked car `front_vehicle_distance` metres ahead and one
`behind_vehicle_distance` metres behind.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

side = -1 if stage.params.get("direction", "right") == "right" else 1
bay = side * (width / 2 + 1.25)

ego = new Car at place(0, bay), facing stage.heading(0)

for gap in (stage.number("front_vehicle_distance", 20), -stage.number("behind_vehicle_distance", 10)):
    new Wheeled at place(gap, bay), facing stage.heading(gap)

traffic = flows.beside(stage, 7.0, (9.0, 15.0))
for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Ride()
require monitor Conduct(traffic)
