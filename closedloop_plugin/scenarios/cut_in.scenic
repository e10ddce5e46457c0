"""A standing car moves into the ego's lane just ahead of it: ParkingCutIn and StaticCutIn.

ParkingCutIn: out of the parking lane; StaticCutIn: out of a queue in the next lane. The car stands `distance` metres
beyond the trigger point, on the side `direction`. It first drives slowly, then at 9 m/s.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

side = -1 if stage.params.get("direction", "right") == "right" else 1
parked = option("place") == "parking"
start = stage.trigger_s + stage.number("distance", 35)
beside = side * (width / 2 + 1.2) if parked else stage.lane(side)

behavior CutIn(seconds, pace, crawl):
    mine = self.rail
    do Begin()
    while seconds_to(start - 2) > seconds:
        wait
    stage.event("act")
    self.lamps.add("left" if side < 0 else "right")
    mine.d_wanted = 0.0
    mine.speed = pace
    begun = stage.time_s
    do Ride() until stage.time_s > begun + crawl
    self.lamps.clear()
    mine.gap = 3.0
    mine.speed = 9.0
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, start, beside, accel=2.2, sideways=1.8)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, \
    with behavior CutIn(Range(2.4, 2.8) if parked else Range(2.8, 3.2), Range(3.2, 4.2), Range(4, 5))

for gap in ((-13.0, -6.8, 14.0) if parked else (-20.4, -13.6, -6.8, 15.0, 22.0)):
    new Wheeled at place(start + gap, beside), facing stage.heading(start + gap)
