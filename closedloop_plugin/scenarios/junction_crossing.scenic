"""A cyclist or pedestrians cross the ego's path at a junction.

VehicleTurningRoute: a cyclist at the exit; VehicleTurningRoutePedestrian: a pedestrian at the exit;
PedestrianCrossing: pedestrians on the crosswalk before the junction.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

who = option("who")
entry, leave = geometry.last_junction(road)
where = entry + 1.0 if who == "group" else leave + 3.0
fast = (3.0, 4.0) if who == "bicycle" else (1.5, 2.1)

ego = new Car at place(0), facing stage.heading(0)

people = ((0.0, 0.0), (0.7, 0.9), (-0.5, 1.7)) if who == "group" else ((0.0, 0.0),)
for shift, lag in people:
    edge = -width / 2 - (3.0 if who == "bicycle" else 2.0)
    rail = Rail(geometry.across(road, where + shift, edge, 0.0), 0)
    pace = Range(*fast)
    due = abs(edge) / pace + Range(0.1, 0.4)
    if who == "bicycle":
        new Wheeled at place_on(rail), facing heading_on(rail), with kind "bicycle", with rail rail, \
            with behavior StepOut(where, due, "time", pace, 5, lag)
    else:
        new Walker at place_on(rail), facing heading_on(rail), with rail rail, \
            with behavior StepOut(where, due, "time", pace, 5, lag)

stage.hold_signals(route="green", cross="red")
