"""A truck ahead of the ego loses a part of its load: a custom scenario, of none of the 44 types.

    ad2 drive run --scenario configs/scenarios/lost_load.scenic --agent expert --repetitions 5 --out out/load
    ad2 threats search configs/scenarios/lost_load.scenic --agent expert --budget 30 --out out/load_search

parking_cut_in.scenic explains the language. In this example two actors work together.
"""

param route = "demo:106"
param ahead = Range(26, 40)          # m: from the route's trigger point to where the load falls
param keep = Range(5, 9)             # m: distance that the truck keeps to the ego ...
param headway = Range(0.7, 1.1)      # s: ... plus this time headway
param aside = Range(-0.6, 0.6)       # m: from the lane's centre to the load, positive to the left
param lies = Range(3, 6)             # s: time that the ego has to wait until the load is removed
param sun_altitude_angle = Range(2, 20)   # degrees above the horizon

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

where = stage.trigger_s + globalParameters.ahead

# Behaviours may read the state of the ego (stage.ego_s, stage.ego_d, stage.ego_speed) and the time (stage.time_s).
behavior DriveAhead(keep, headway):
    """Drive ahead of the ego, about as fast as it, until the path ends."""
    mine = self.rail
    while True:
        gap = mine.s - 4.0 - (stage.ego_s + 2.4)                  # from the ego's front to the truck's rear
        mine.speed = stage.ego_speed + 0.8 * (keep + headway * stage.ego_speed - gap)
        mine.speed = min(max(mine.speed, 6.0 if stage.ego_speed > 1 else 0.0), 14.0)
        if mine.s > where + 12:
            mine.speed = 12.0                                      # it drives away without its load
        do Ride() for 1 steps

behavior Fall(truck, lies):
    """Absent (`gone`) until the truck has passed; removed when the ego has waited before it for `lies` seconds."""
    do Begin()
    while truck.rail.s - 4.5 < where:
        wait
    self.gone = False
    stage.event("act")
    waited = 0.0
    while waited < lies and stage.ego_s < where + 6:
        if stage.ego_speed < 0.5 and where - stage.ego_s < 25:
            waited = waited + stage.timestep
        wait
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = rail_at(16, accel=3.0)
truck = new Wheeled at start_of(rail), facing facing_of(rail), with kind "truck", with rail rail, \
    with behavior DriveAhead(globalParameters.keep, globalParameters.headway)

new Thing at place(where, globalParameters.aside), facing turned(where, Range(0, 90)), with kind "debris", \
    with gone True, with behavior Fall(truck, globalParameters.lies)
