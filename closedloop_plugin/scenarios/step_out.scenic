"""A pedestrian crosses from behind an object: DynamicObjectCrossing and ParkingCrossingPedestrian.

The object is a `blocker_model` on the pavement, or a parked car, `distance` metres beyond the trigger point, on the
side `direction`. The pedestrian starts just beyond it; its path is `crossing_angle` degrees off the perpendicular,
towards the ego.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

PACE = 2.0  # m/s
direction = stage.params.get("direction", "right")
side = -1 if direction == "right" else 1
start = stage.trigger_s + stage.number("distance", 12)
angle = stage.number("crossing_angle", 0)
later = 0.1 * math.floor(angle / 5)  # s: an oblique way is longer

if option("cover") == "prop":
    model_name = stage.params.get("blocker_model", "static.prop.vendingmachine")
    long, wide, high = cover_size(model_name)
    aside = abs(pavement(direction))
    begin = start + long / 2 + 0.5
    where, reaction = start, 2.1 + later
    way = 2 * math.hypot(begin - start, aside)  # to the other side, as far from the collision point as here
else:
    aside = width
    begin = start + body_size("car")[0] / 2 + 0.5
    where, reaction = begin, 2.15 + later
    way = 8.0
tilt = math.radians(angle)
across = Path([
    route.pose(begin, side * aside)[:2],
    route.pose(begin - way * math.sin(tilt), side * (aside - way * math.cos(tilt)))[:2],
])

behavior Cross():
    mine = self.rail
    do Begin()
    while not arrives(where, reaction, 6.0):
        wait
    stage.event("act")
    begun = stage.time_s
    mine.speed = PACE
    do Ride() until stage.time_s > begun + way / PACE
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(across, 0, accel=20.0)  # walkers reach their speed at once
new Walker at place_on(rail), facing heading_on(rail), with rail rail, with behavior Cross()

if option("cover") == "prop":
    new Thing at place(start, side * aside), facing stage.heading(start), with length long, with width wide, \
        with height high, with fixed True, with blueprint model_name
else:
    new Wheeled at place(start, side * aside), facing stage.heading(start)
    for gap in (-18.0, -11.0, 14.0):
        new Wheeled at place(start + gap, parking_bay(direction, "kerb")), facing stage.heading(start + gap)
