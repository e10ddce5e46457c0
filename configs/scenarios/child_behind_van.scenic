"""A child runs out from behind a parked van, in fog: similar to Bench2Drive's type DynamicObjectCrossing.

    ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent expert --out out/child
    ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent steer-only --out out/child_blind

parking_cut_in.scenic explains the language; this example uses more of the library.
"""

param route = "demo:106"
param ahead = Range(30, 45)         # m: from the route's trigger point to the child
param due = Range(1.4, 2.0)         # s: until the ego arrives, when the child starts
param pace = Range(1.6, 2.4)        # m/s: speed of the child
param behind = Range(0.8, 1.6)      # m: between the van's front and the child
param fog_density = Range(10, 40)   # %: parameters with names of CARLA's weather replace the route's weather

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)

where = stage.trigger_s + globalParameters.ahead
due, pace = globalParameters.due, globalParameters.pace
van = where - globalParameters.behind - 2.7           # its centre: half its length further back

# Random values are sampled when the scene is made, after this program has been executed. The functions of our library
# and of Scenic accept them, and so does arithmetic; an `if` on a random value works in behaviours only.
new Wheeled at place(van, -(width / 2 + 1.1)), facing turned(van, 0), with kind "van"

across = rail_across(where, "right", off=1.2)         # perpendicular to the road, from 1.2 m outside its right edge
new Walker at start_of(across), facing facing_of(across), with kind "child", with rail across, \
    with behavior StepOut(where, due, "time", pace)

# A scene that violates a requirement is sampled again: here, if the child would reach the other side before the ego
# comes. (`require` cannot read globalParameters itself: assign the values to names first, as above.)
require pace * due < 4.0
