"""Traffic ahead of the ego in its lane, as CARLA's background activity conducts it.

Two cars start AHEAD_M apart ahead of the ego's start. They drive at the speed limit while they are close to the ego,
more slowly the farther they are, and wait for it: full speed up to NEAR_M + 1.7 s of the ego's speed, none from 15 m
beyond that.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.library import *

AHEAD_M = 15.0  # between two cars, and from the ego's start to the first
CARS_AHEAD = 2
NEAR_M = CARS_AHEAD * AHEAD_M
EGO_S = 1.7  # s of the ego's speed that are added to NEAR_M
LEADING_M = 10.0  # kept to the car ahead

def speed_ahead(s):
    """Speed in m/s of a car ahead of the ego at s."""
    far = NEAR_M + AHEAD_M + EGO_S * stage.ego_speed
    share = (far - (s - stage.ego_s)) / AHEAD_M
    return road.speed_limit * min(max(share, 0.0), 1.0)

behavior DriveAhead():
    """Drive ahead of the ego along its path; be removed 30 m beyond its end."""
    mine = self.rail
    mine.gap = LEADING_M
    mine.lights = True
    while mine.s < route.length + 30:
        mine.speed = speed_ahead(mine.s)
        do Ride() for 1 steps
    self.gone = True
