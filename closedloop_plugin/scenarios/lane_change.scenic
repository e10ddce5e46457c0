"""A route with several lane changes, behind a slow car that changes lanes too: SequentialLaneChange."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

behavior Lead(pace):
    mine = self.rail
    do Begin()
    stage.event("act")
    mine.speed = pace
    do Ride()

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(route, stage.trigger_s + 24, gap=3.0)
new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior Lead(Range(5.0, 6.0))
