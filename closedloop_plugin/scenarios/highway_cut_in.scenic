"""A car from the ramp drives beside the ego, cuts in ahead of it and slows down: HighwayCutIn.

It starts at `other_actor_location` and leaves at `end_location`. On a corridor map the ramp is the lane to the right.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

given = stage.params.get("other_actor_location")
at_s, at_d = route.locate(given[0], given[1]) if given else (stage.trigger_s + 22.0, -width)
beside = max(at_d, -width) if road.source == "corridor" else at_d
goal = stage.params.get("end_location")
end = route.locate(goal[0], goal[1])[0] if goal else route.length

behavior FromRamp(ahead, share):
    mine = self.rail
    do Begin()
    self.lamps.add("left")
    while stage.ego_s < stage.trigger_s + 22 or (stage.ego_speed < 4 and stage.ego_s < end - 30):
        keep = 7.0 + ahead - (mine.s - stage.ego_s)
        mine.speed = min(max(stage.ego_speed + 0.6 * keep, 0.0), 16.0)
        do Ride() for 1 steps
    stage.event("act")
    mine.d_wanted = 0.0
    mine.speed = max(share * stage.ego_speed, 2.0)
    cut = stage.time_s
    do Ride() until stage.time_s > cut + 4
    self.lamps.clear()
    mine.speed = 13.0
    mine.gap = 4.0
    do Ride() until mine.s > end + 30
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, at_s, beside, accel=3.5, brake=5.0, sideways=2.2)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, \
    with behavior FromRamp(Range(2.5, 4.5), Range(0.35, 0.5))
