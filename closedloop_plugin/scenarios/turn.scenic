"""A turn at a junction with its lights or signs, without other road users: T_Junction and the four Vanilla turns.

A red light turns green 5 s after the scenario has begun, and stays so. A green one turns red after 5 s, and returns to
its cycle after another 5 s.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

light = option("light")

monitor Lights():
    if light:
        stage.hold_signals(route=light, cross="red")
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    stage.event("act")
    began = stage.time_s
    while stage.time_s < began + 5.0:
        wait
    if light:
        stage.hold_signals(route="red" if light == "green" else "green")
    while stage.time_s < began + 10.0:
        wait
    if light == "green":
        stage.free_signals()
    wait

ego = new Car at place(0), facing stage.heading(0)

require monitor Lights()
