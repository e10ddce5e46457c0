"""An ambulance comes from behind and tries to pass: YieldToEmergencyVehicle.

It starts `distance` metres before the trigger point. An ego that holds it up for six seconds has not given way ("yield
failed"); the ambulance then passes on the left.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

beside = road.facts.get("lanes", {}).get("right", 0)

behavior Hurry(pace, patience):
    mine = self.rail
    do Begin()
    stage.event("act")
    mine.now = 7.0
    mine.speed = pace
    mine.gap = 2.0
    held = 0.0
    while mine.s < route.length + 60:
        behind = stage.ego_s - mine.s
        if held > patience:
            stage.event("yield failed")
            mine.d_wanted = width
        elif stage.ego_d < -0.5 and not beside and 0 < behind < 30:
            mine.d_wanted = 0.55 * width
        elif behind < -8:
            mine.d_wanted = 0.0
        if 0 < behind < 26 and abs(stage.ego_d - mine.d) < 2.3 and (mine.now or 0) < pace - 2:
            held += stage.timestep
        do Ride() for 1 steps
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, stage.trigger_s - stage.number("distance", 30), accel=4.0, brake=7.0, sideways=2.0)
new Wheeled at place_on(rail), facing heading_on(rail), with kind "ambulance", with lamps {"siren"}, with rail rail, \
    with behavior Hurry(Range(12.5, 14), 6.0)
