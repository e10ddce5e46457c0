"""The car ahead starts with the ego and keeps its distance, then brakes to a standstill, and drives on after some
seconds: HardBreakRoute."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

behavior BrakeHard(headway, way, rest):
    mine = self.rail
    while stage.ego_s < stage.trigger_s + way:
        if stage.reached_trigger:
            stage.event("trigger")
        keep = 9.7 + headway * stage.ego_speed - (mine.s - stage.ego_s)
        mine.speed = min(max(stage.ego_speed + 0.8 * keep, 5.5 if stage.ego_speed > 1 else 0.0), 14.0)
        do Ride() for 1 steps
    stage.event("act")
    mine.brake = 7.5
    mine.speed = 0.0
    braked = stage.time_s
    do Ride() until stage.time_s > braked + rest
    mine.gap = 3.0
    mine.speed = 9.0
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, 13, accel=3.0)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, \
    with behavior BrakeHard(Range(0.7, 0.95), Range(22, 32), Range(5, 7))
