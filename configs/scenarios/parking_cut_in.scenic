"""A parked car pulls out just ahead of the ego: Bench2Drive's type ParkingCutIn, written from scratch.

    ad2 drive run --scenario configs/scenarios/parking_cut_in.scenic --agent expert --out out/cut_in
"""

# The route: path, map and weather of route 106 of suite demo. This line is read as text: write a plain string, alone on
# its line.
param route = "demo:106"

# Free parameters. Each episode samples its own values with its seed, a search looks for the worst values, --set due=2.2
# fixes one.
# Other distributions: DiscreteRange(1, 3), Uniform("car", "van"), TruncatedNormal(30, 5, 20, 40).
param ahead = Range(24, 36)   # m: from the route's trigger point to the parked car
param due = Range(2.2, 3.0)   # s: until the ego arrives, if it keeps its speed, when the car pulls out
param pace = Range(3.0, 4.5)  # m/s: speed of the car while it does so
param crawl = Range(3, 5)     # s: until it drives on at 9 m/s

model scenic.domains.driving.model                    # Scenic's generic driving model: roads, cars, pedestrians
from closedloop_plugin.scenarios.actions import *     # our library, listed in docs/threats.md

# A place is (s, d): s metres along the ego's path, d metres to its LEFT (negative: to its right).
where = stage.trigger_s + globalParameters.ahead      # globalParameters.NAME is the value of `param NAME`
kerb = -(width / 2 + 1.2)                             # `width`: of the ego's lane; its centre is d = 0

# A behaviour is the program of one actor. It runs together with the simulation: each `wait`, and each step of a `do`,
# takes one tick (0.05 s); all other lines take no time.
behavior PullOut(due, pace, crawl):
    mine = self.rail                                  # a rail moves its actor: set its speed and lateral offset
    do Begin()                                        # until the ego reaches the trigger point (event "trigger")
    while seconds_to(where - 2) > due:                # time of the ego's front to 2 m before the parked car
        wait
    stage.event("act")                                # recorded: it is dangerous from now on. Always required
    self.lamps.add("left")                            # indicator
    mine.d_wanted = 0.0                               # move to the lane's centre ...
    mine.speed = pace                                 # ... while accelerating to this speed
    begun = stage.time_s
    do Ride() until stage.time_s > begun + crawl      # Ride: follow the rail
    self.lamps.clear()
    mine.gap = 3.0                                    # from now on it keeps 3 m to any actor ahead
    mine.speed = 9.0
    do Ride()

# The agent under test drives the ego. This line is the same in every program on a route.
ego = new Car at place(0), facing stage.heading(0)

rail = rail_at(where, kerb, accel=2.2, sideways=1.8)  # starts at (where, kerb); accel: m/s2; sideways: m/s at most
new Wheeled at start_of(rail), facing facing_of(rail), with kind "car", with rail rail, \
    with behavior PullOut(globalParameters.due, globalParameters.pace, globalParameters.crawl)

# Two more parked cars, which never move.
for gap in (-13.0, -6.8):
    new Wheeled at place(where + gap, kerb), facing turned(where + gap, 0)
