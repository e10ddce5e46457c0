"""Noise is added to the ego's steering and throttle on three patches of the road: ControlLoss.

Stones beside the lane mark the patches; the ego does not have to pass any obstacle.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

patches = [stage.trigger_s + d for d in (16.0, 38.0, 60.0)]
reach = 7.0

monitor Slip(steer, throttle):
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    while True:
        if any(abs(stage.ego_s - p) < reach for p in patches):
            stage.event("act")
            stage.noise = (steer, throttle)
        else:
            stage.noise = (0.0, 0.0)
        wait

ego = new Car at place(0), facing stage.heading(0)

for patch in patches:
    for shift in (-4.0, 0.0, 4.0):
        for d in (-width / 2 - 0.9, width / 2 + 0.9):
            new Thing at place(patch + shift, d), facing turned(patch, Range(0, 90)), with kind "debris", \
                with length 0.4, with width 0.4, with height 0.15

require monitor Slip(stage.rng.uniform(0.08, 0.14), stage.rng.uniform(0.15, 0.3))
