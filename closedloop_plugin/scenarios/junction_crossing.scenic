"""A cyclist or pedestrians cross the ego's path at a junction.

VehicleTurningRoute: a cyclist 11 m behind the exit, from the right. VehicleTurningRoutePedestrian: a pedestrian at the
exit, from the outer side of the turn. PedestrianCrossing: three pedestrians before the junction, from the right. They
start when the ego is a time or a distance away from the place where they cross its lane.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

who = option("who")
entry, leave = geometry.last_junction(road)
WALK = 2.0  # m from the edge of the ego's lane to the middle of the pavement

# Per actor: m beyond the place along the road, m farther outside than the middle of the pavement, speed, delay in s.
if who == "group":
    where, near = entry - 0.5, (3.5, 12.0)
    people = [(a, b, Range(1.3, 2.0), Range(0.0, 1.5)) for a, b in ((0.4, 1.5), (1.0, 2.5), (1.6, 0.5))]
else:
    where, near = (leave + 11.0, (1.8, 6.0)) if who == "bicycle" else (leave + 0.5, (2.2, 6.0))
    people = [(0.0, 0.0, 1.8, 0.0)]
turns_right = math.remainder(route.pose(leave)[2] - route.pose(entry)[2], math.tau) < 0
side = 1 if who == "pedestrian" and turns_right else -1
far = (road.facts.get("lanes") or {}).get("oncoming", 1) if side > 0 else 0

behavior Cross(pace, delay):
    mine = self.rail
    do Begin()
    while not arrives(where, *near):
        wait
    stage.event("act")
    began = stage.time_s
    while stage.time_s < began + delay:
        wait
    mine.speed = pace
    mine.now = pace
    do Ride() until mine.s > mine.path.length - 0.2
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

for along, out, pace, delay in people:
    edge = side * (width * (0.5 + far) + WALK + out)
    rail = Rail(geometry.across(road, where + along, edge, 0.0), 0)
    if who == "bicycle":
        new Wheeled at place_on(rail), facing heading_on(rail), with kind "bicycle", with rail rail, \
            with behavior Cross(pace, delay)
    else:
        new Walker at place_on(rail), facing heading_on(rail), with rail rail, with behavior Cross(pace, delay)

stage.hold_signals(route="green", cross="red")
