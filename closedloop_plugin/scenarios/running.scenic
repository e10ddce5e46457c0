"""A car crosses the junction although the ego has priority.

OppositeVehicleRunningRedLight: through its red light; OppositeVehicleTakingPriority: at a junction without lights. The
car goes straight on from the arm `direction` and reaches the point of conflict together with the ego. If its line does
not meet the ego's path (if the ego turns right, or the car comes from the right), another arm is taken.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

source, line, meet = geometry.conflict(road, str(stage.params.get("direction", "left")))
alone = flows.single(stage, line, stage.rng.uniform(7.5, 9.0), meet)

behavior RunOver():
    mine = self.rail
    do Begin()
    while mine.s < line.length:
        alone.step(stage)
        if meet[1] - mine.s < 14:
            stage.event("act")
        do Ride() for 1 steps
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

for rail in alone.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with behavior RunOver()

if option("signals"):
    stage.hold_signals(route="green", cross="red")
