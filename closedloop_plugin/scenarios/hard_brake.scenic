"""All traffic ahead stops when the ego reaches the trigger point, stands for 10 s, and drives on: HardBreakRoute."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.background import *

STANDS_S = 10.0

behavior BrakeHard():
    mine = self.rail
    do DriveNear() until stage.reached_trigger
    stage.event("trigger")
    stage.event("act")
    if mine.s - BEFORE_M > stage.ego_s:
        mine.brake = 7.5
        mine.speed = 0.0
        stopped = stage.time_s
        do Ride() until stage.time_s >= stopped + STANDS_S
    do DriveNear()

ego = new Car at place(0), facing stage.heading(0)

for number in range(-lanes("right"), lanes("left") + 1):
    for rail in traffic_rails(number):
        new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior BrakeHard()
