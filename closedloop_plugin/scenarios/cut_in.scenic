"""A standing car moves into the ego's lane ahead of it: ParkingCutIn and StaticCutIn.

ParkingCutIn: out of the parking lane, 35 m beyond the trigger point, behind a parked car that hides it. StaticCutIn:
out of a queue in the next lane, which begins `distance` metres beyond the trigger point. Both on the side `direction`.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

direction = stage.params.get("direction", "right")
side = -1 if direction == "right" else 1
parking = option("place") == "parking"
if parking:
    start = stage.trigger_s + 35.0
    beside = parking_bay(direction, "kerb")
    others = (-7.0, -17.5, 10.5)  # the first one hides the car
else:
    start = stage.trigger_s + stage.number("distance", 100) + 22.0  # two cars of the queue stand before it
    beside = stage.lane(side)
    others = (-22.0, -11.0, 11.0, 22.0, 33.0)

behavior LeaveBay():
    """At 20 km/h for 30 m; then it is removed."""
    mine = self.rail
    do Begin()
    while not arrives(start, 2.35, 10.0):
        wait
    stage.event("act")
    mine.d_wanted = 0.0
    mine.speed = 20 / 3.6
    do Ride() until mine.s > start + 30.0
    self.gone = True

behavior LeaveQueue():
    """At the ego's speed until it is in the lane, then at 60 km/h for 70 m; then it is removed."""
    mine = self.rail
    do Begin()
    while not arrives(start, 2.7, 15.0):
        wait
    stage.event("act")
    mine.d_wanted = 0.0
    mine.speed = stage.ego_speed
    do Ride() until abs(mine.d) < 0.1
    mine.speed = 60 / 3.6
    do Ride() until mine.s > start + 70.0
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

# 3 m/s2: three quarters of a car's full acceleration, the pedal limit of CARLA's driver.
rail = Rail(route, start, beside, accel=3.0, sideways=1.8)
if parking:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior LeaveBay()
else:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior LeaveQueue()

for gap in others:
    new Wheeled at place(start + gap, beside), facing stage.heading(start + gap)
