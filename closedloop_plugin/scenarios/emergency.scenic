"""An ambulance comes from behind in the ego's lane: YieldToEmergencyVehicle.

It starts `distance` metres before the trigger point and drives 25 m/s faster than the ego, but not past it in its lane.
If it is not ahead of the ego 10 s after it has come within 50 m, or at the end of the route, the ego has not given way
("yield failed").
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

FASTER = 25.0  # m/s
NEAR_M, PATIENCE_S, LEAVES_M = 50.0, 10.0, 50.0
MARGIN_M = 0.3  # between the two when they are side by side

def held_up(ambulance):
    """Whether the ego is ahead in the ambulance's way, within 10 m and 0.15 s of its speed."""
    mine = ambulance.rail
    lead = stage.ego_s - mine.s
    beside = abs(stage.ego_d - mine.d) > (ambulance.width + stage.ego.width) / 2 + MARGIN_M
    return 0.0 < lead < 10.0 + 0.15 * (mine.now or 0.0) and not beside

behavior Hurry():
    mine = self.rail
    do Begin()
    stage.event("act")
    ends = math.inf
    passed = math.inf
    while stage.time_s < ends and mine.s < passed + LEAVES_M and stage.ego_s < route.length - 3.0:
        if stage.ego_s - mine.s < NEAR_M:
            ends = min(ends, stage.time_s + PATIENCE_S)
        if mine.s > stage.ego_s:
            passed = min(passed, mine.s)
        pace = stage.ego_speed + FASTER
        if held_up(self):
            room = stage.ego_s - mine.s - (self.length + stage.ego.length) / 2
            pace = stage.ego_speed if room > 1.0 + 0.2 * stage.ego_speed else 0.0
        mine.now = pace
        mine.speed = pace
        do Ride() for 1 steps
    if mine.s < stage.ego_s:
        stage.event("yield failed")
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, stage.trigger_s - stage.number("distance", 140))
new Wheeled at place_on(rail), facing heading_on(rail), with kind "ambulance", with lamps {"siren"}, with rail rail, \
    with behavior Hurry()
