"""A route with several lane changes in traffic; no actor is there to endanger the ego: SequentialLaneChange."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.background import *

behavior Traffic():
    do DriveNear() until stage.reached_trigger
    stage.event("trigger")
    stage.event("act")
    do DriveNear()

ego = new Car at place(0), facing stage.heading(0)

for number in range(-lanes("right"), lanes("left") + 1):
    for rail in traffic_rails(number):
        new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Traffic()
