"""The ego's steering and throttle are disturbed on three patches of the road: ControlLoss.

Each patch reaches 2 m around a point of the lane. Its disturbance has a mean, to either side, and noise. Stones beside
the lane mark the patches; the ego does not have to pass any obstacle.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

patches = [stage.trigger_s + d for d in (14.0, 48.0, 74.0)]
REACH_M = 2.0
STEER, THROTTLE = (0.055, 0.015), (0.03, 0.01)  # mean (of either sign) and standard deviation of a pedal's range

def either(mean):
    return float(stage.rng.choice([mean, -mean]))

means = [(either(STEER[0]), either(THROTTLE[0])) for _ in patches]

monitor Slip():
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    while True:
        here = [mean for patch, mean in zip(patches, means) if to_ego(patch) < REACH_M]
        if here:
            stage.event("act")
        stage.bias = here[0] if here else (0.0, 0.0)
        stage.noise = (STEER[1], THROTTLE[1]) if here else (0.0, 0.0)
        wait

ego = new Car at place(0), facing stage.heading(0)

for patch in patches:
    for shift in (-1.5, 0.0, 1.5):
        for d in (-width / 2 - 0.9, width / 2 + 0.9):
            new Thing at place(patch + shift, d), facing turned(patch, Range(0, 90)), with kind "debris", \
                with length 0.4, with width 0.4, with height 0.15

require monitor Slip()
