"""A pedestrian crosses from behind an object: DynamicObjectCrossing and ParkingCrossingPedestrian.

The object is a `blocker_model` or a parked car, respectively. The pedestrian starts `distance` metres beyond the
trigger point, on the side `direction`; its path is `crossing_angle` degrees off the perpendicular.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

side = -1 if stage.params.get("direction", "right") == "right" else 1
start = stage.trigger_s + stage.number("distance", 40)
edge = side * (width / 2 + 1.4)
angle = stage.number("crossing_angle", 0)
across = geometry.across(road, start, edge, angle)

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(across, 0)
pace = Range(1.7, 2.4)
new Walker at place_on(rail), facing heading_on(rail), with rail rail, \
    with behavior StepOut(start, abs(edge) / pace + Range(0.1, 0.35), "time", pace)

if option("cover") == "prop":
    long, wide, high = cover_size(stage.params.get("blocker_model", "static.prop.vendingmachine"))
    new Thing at place(start - 1.0 - long / 2, side * (width / 2 + 0.5 + wide / 2)), facing stage.heading(start), \
        with length long, with width wide, with height high, with fixed True, \
        with blueprint stage.params.get("blocker_model", "static.prop.vendingmachine")
else:
    for gap in (-17.5, -10.5, -3.4, 4.2):
        new Wheeled at place(start + gap, side * (width / 2 + 1.2)), facing stage.heading(start + gap), \
            with kind ("van" if gap == -3.4 else "car")
