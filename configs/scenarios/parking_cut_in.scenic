"""A parked car pulls out just before the ego: Bench2Drive's type ParkingCutIn, written from scratch.

    ad2 drive run --scenario configs/scenarios/parking_cut_in.scenic --agent expert --out out/cut_in
"""

# Where it plays: on the way and the map of route 105 of suite demo. This line is read as text: a plain string, alone
# on its line.
param route = "demo:105"

# Free parameters. Each episode draws its own (by its seed), a search looks for the worst, --set due=2.2 fixes one.
# Other distributions: DiscreteRange(1, 3), Uniform("car", "van"), TruncatedNormal(30, 5, 20, 40).
param ahead = Range(24, 36)   # m: from the route's trigger point to the parked car
param due = Range(2.2, 3.0)   # s: so far away is the ego, if it keeps its speed, when the car pulls out
param pace = Range(3.0, 4.5)  # m/s: of the car while it does so
param crawl = Range(3, 5)     # s: until it drives on at 9 m/s

model scenic.domains.driving.model                    # Scenic's generic driving model: roads, cars, pedestrians
from closedloop_plugin.scenarios.actions import *     # our library: docs/threats.md lists all of it

# A place is (s, d): s metres along the ego's way, d metres to its LEFT (so to the right is negative).
where = stage.trigger_s + globalParameters.ahead      # globalParameters.NAME is the value of `param NAME`
kerb = -(width / 2 + 1.2)                             # `width`: of the ego's lane; its middle is d = 0

# A behaviour is a small program of one actor. It runs beside the world: each `wait`, and each step of a `do`, is one
# tick (0.05 s). All lines up to there happen at the same moment.
behavior PullOut(due, pace, crawl):
    mine = self.rail                                  # a rail moves its actor: we only say how fast, and where to
    do Begin()                                        # until the ego passes the trigger point (event "trigger")
    while seconds_to(where - 2) > due:                # the ego's nose, from 2 m before the parked car
        wait
    stage.event("act")                                # into the record: from now on it is dangerous. Never leave it out
    self.lamps.add("left")                            # indicator
    mine.d_wanted = 0.0                               # move over to the lane's middle ...
    mine.speed = pace                                 # ... while it gathers this speed
    begun = stage.time_s
    do Ride() until stage.time_s > begun + crawl      # Ride: follow the rail
    self.lamps.clear()
    mine.gap = 3.0                                    # from here on it keeps 3 m to whoever is ahead
    mine.speed = 9.0
    do Ride()

# Whoever is tested drives the ego. This line is the same in every program on a route.
ego = new Car at place(0), facing stage.heading(0)

rail = rail_at(where, kerb, accel=2.2, sideways=1.8)  # stands at (where, kerb); m/s2; moves over at 1.8 m/s at most
new Wheeled at start_of(rail), facing facing_of(rail), with kind "car", with rail rail, \
    with behavior PullOut(globalParameters.due, globalParameters.pace, globalParameters.crawl)

# Two more parked cars, so that it does not stand alone. They do nothing.
for gap in (-13.0, -6.8):
    new Wheeled at place(where + gap, kerb), facing turned(where + gap, 0)
