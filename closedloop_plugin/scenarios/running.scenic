"""An emergency vehicle crosses the junction at 60 km/h although the ego has priority.

OppositeVehicleRunningRedLight: through its red light; OppositeVehicleTakingPriority: at a junction without lights. It
waits 30 m before the junction on the arm `direction` and starts at full speed when the ego is 2.2 s or 12 m from the
point where their lines cross. If its line does not meet the ego's path (if the ego turns right, or the vehicle comes
from the right), another arm is taken.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

source, line, meet = geometry.conflict(road, str(stage.params.get("direction", "right")))
enters, leaves = geometry.mouths(road, line, source, {"left": "right", "right": "left", "opposite": "entry"}[source])
begin, end = max(enters - 30.0, 0.0), leaves + 10.0
kinds = "ambulance", "police", "firetruck"

behavior RunOver():
    mine = self.rail
    do Begin()
    while not arrives(meet[0], 2.2, 12.0):
        wait
    stage.event("act")
    mine.speed = 60 / 3.6
    mine.now = mine.speed
    do Ride() until mine.s > end
    self.gone = True

ego = new Car at place(0), facing stage.heading(0)

rail = Rail(line, begin)
new Wheeled at place_on(rail), facing heading_on(rail), with kind kinds[int(stage.rng.integers(len(kinds)))], \
    with rail rail, with lamps {"siren"}, with behavior RunOver()

if option("signals"):
    stage.hold_signals(route="green", cross="red")
