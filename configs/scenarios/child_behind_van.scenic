"""A child runs out from behind a parked van, in fog: after Bench2Drive's type DynamicObjectCrossing.

    ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent expert --out out/child
    ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent steer-only --out out/child_blind

parking_cut_in.scenic explains the language; this one shows what the library brings along.
"""

param route = "demo:101"
param ahead = Range(30, 45)         # m: from the route's trigger point to the child
param due = Range(1.4, 2.0)         # s: so far away is the ego when the child starts
param pace = Range(1.6, 2.4)        # m/s: of the child
param behind = Range(0.8, 1.6)      # m: between the van's nose and the child
param fog_density = Range(10, 40)   # %: parameters named as CARLA's weather replace the route's weather

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)

where = stage.trigger_s + globalParameters.ahead
due, pace = globalParameters.due, globalParameters.pace
van = where - globalParameters.behind - 2.7           # its middle: half its length further back

# Random numbers are drawn when the scene is made, after this text has been read. Ours and Scenic's functions take them
# as they are, and so does arithmetic; an `if` on one does not work outside behaviours.
new Wheeled at place(van, -(width / 2 + 1.1)), facing turned(van, 0), with kind "van"

across = rail_across(where, "right", off=1.2)         # square over the road, from 1.2 m outside its right edge
new Walker at start_of(across), facing facing_of(across), with kind "child", with rail across, \
    with behavior StepOut(where, due, "time", pace)

# A scene that breaks a requirement is drawn again: here, a child that would be across before the ego comes. (A
# `require` cannot read globalParameters itself; it takes names like these two.)
require pace * due < 4.0
