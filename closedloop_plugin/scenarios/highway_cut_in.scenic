"""A car from the ramp drives beside the ego, 10 m ahead, and cuts in at 80 % of the ego's speed: HighwayCutIn.

It starts at `other_actor_location`. On a corridor map the ramp is the next lane on that side.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

given = stage.params.get("other_actor_location")
at_s, at_d = route.locate(given[0], given[1]) if given else (stage.trigger_s + 22.0, -width)
beside = min(max(at_d, -width), width) if road.source == "corridor" else at_d
goal = stage.params.get("end_location")
end = route.locate(goal[0], goal[1])[0] if goal else route.length
AHEAD, SHARE = 10.0, 0.8
STAYS_S, CHANGE_S, AFTER_S = 0.3, 2.0, 3.0  # beside the ego, for the lane change, in the ego's lane

behavior FromRamp():
    mine = self.rail
    do Begin()
    while stage.ego_s < stage.trigger_s + 22 or (stage.ego_speed < 1 and stage.ego_s < end - 30):
        keep = AHEAD - (mine.s - stage.ego_s)
        mine.speed = min(max(stage.ego_speed + 0.6 * keep, 0.0), 1.2 * road.speed_limit)
        do Ride() for 1 steps
    stage.event("act")
    mine.speed = SHARE * stage.ego_speed
    cut = stage.time_s
    do Ride() until stage.time_s > cut + STAYS_S
    mine.d_wanted = 0.0
    do Ride() until stage.time_s > cut + STAYS_S + CHANGE_S + AFTER_S
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, at_s, beside, accel=3.5, brake=5.0, sideways=abs(beside) / CHANGE_S)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior FromRamp()
