"""Traffic of the ego's direction, as CARLA's background activity conducts it.

Two cars start 15 m apart ahead of the ego. They drive at the speed limit while they are close to it, more slowly the
farther they are, and wait for it: full speed up to NEAR_M + 1.7 s of the ego's speed, none from 15 m beyond that. In
the lanes beside, two more start behind the ego; they drive up to twice as fast until they are past it.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *

SPACING_M = 15.0  # between two cars, and from the ego's start to the first
CARS = 2  # ahead of the ego, and behind it, in each lane
NEAR_M = CARS * SPACING_M
EGO_S = 1.7  # s of the ego's speed that are added to NEAR_M
FASTEST = 90 / 3.6  # m/s
LEADING_M = 10.0  # kept to the car ahead
BEFORE_M = 60.0  # of a lane before the start of the ego's path

def lane_line(number):
    """Path of the lane `number` lanes to the left of the one in which the ego starts, from BEFORE_M before it on."""
    points = []
    for step in range(int((BEFORE_M + route.length + 60.0) / 2)):
        s = 2.0 * step - BEFORE_M
        moved = 0.0
        for begin, end, way in road.changes:
            u = min(max((s - begin) / (end - begin), 0.0), 1.0)
            moved = moved + way * width * u * u * (3 - 2 * u)
        points.append(route.pose(s, number * width - moved)[:2])
    return Path(points)

def speed_near(lead):
    """Speed in m/s of a car `lead` metres ahead of the ego (negative: behind)."""
    if lead < 0.0:
        return min(road.speed_limit * min(1.0 - lead / SPACING_M, 2.0), FASTEST)
    far = NEAR_M + SPACING_M + EGO_S * stage.ego_speed
    return road.speed_limit * min(max((far - lead) / SPACING_M, 0.0), 1.0)

def traffic_rails(number):
    """Rails of the cars in a lane (see lane_line): ahead, and beside the ego's lane also behind."""
    line = lane_line(number)
    places = [SPACING_M * (n + 1) for n in range(CARS)]
    if number != 0:
        places += [-s for s in places]
    return [Rail(line, BEFORE_M + s, accel=3.0, gap=LEADING_M, lights=True) for s in places]

behavior DriveNear():
    """Drive along the lane near the ego; be removed 30 m beyond the end of the ego's path."""
    mine = self.rail
    mine.brake = 6.0
    while mine.s < BEFORE_M + route.length + 30:
        mine.speed = speed_near(mine.s - BEFORE_M - stage.ego_s)
        do Ride() for 1 steps
    self.gone = True
