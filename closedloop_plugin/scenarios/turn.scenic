"""A turn at a junction with its lights or signs, without other road users: T_Junction and the four Vanilla turns."""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

light = option("light")

monitor Lights(rest):
    """A red light turns green when the ego has waited for `rest` seconds in total, and after 20 s if it creeps on."""
    if light:
        stage.hold_signals(route=light, cross="red" if light == "green" else "green")
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    stage.event("act")
    began = stage.time_s
    stood = 0.0
    while light == "red" and stood < rest and stage.time_s < began + 20:
        if stage.ego_speed < 0.3:
            stood += stage.timestep
        wait
    if light:
        stage.hold_signals(route="green", cross="red")
    wait

ego = new Car at place(0), facing stage.heading(0)

require monitor Lights(stage.rng.uniform(3.0, 6.0))
