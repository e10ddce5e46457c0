"""What vehicles do that drive with, before, behind or against the ego."""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *

behavior BrakeHard(where, due, kind, rest, keep=9.7, headway=0.8):
    """Drive ahead of the ego, `keep` metres and `headway` seconds before it, brake to a standstill as it is due, and go
    on after `rest` seconds."""
    mine = self.rail
    while not is_due(where, due, kind):
        if stage.reached_trigger:
            stage.event("trigger")
        lack = keep + headway * stage.ego_speed - (mine.s - stage.ego_s)
        mine.speed = min(max(stage.ego_speed + 0.8 * lack, 5.5 if stage.ego_speed > 1 else 0.0), 14.0)
        do Ride() for 1 steps
    stage.event("trigger")
    stage.event("act")
    mine.brake = 7.5
    mine.speed = 0.0
    braked = stage.time_s
    do Ride() until stage.time_s > braked + rest
    mine.gap = 3.0
    mine.speed = 9.0
    do Ride()
