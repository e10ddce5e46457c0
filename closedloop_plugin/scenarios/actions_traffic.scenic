"""What vehicles do that drive with, before, behind or against the ego.

`where, due, kind`: each acts when the ego is `due` seconds ("time") or metres ("distance") before `where`, metres along
its way; see is_due. Afterwards all of them leave the road free.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *

EGO_FRONT = 2.4  # m before its centre
USUAL = 0.75  # share of the speed limit

# -- pieces ------------------------------------------------------------------------------------------------------------

def begins():
    """Into the record, once: the ego has come to where the scenario begins."""
    if stage.reached_trigger:
        stage.event("trigger")

def acts():
    """Into the record, once: now its actor endangers the ego."""
    stage.event("trigger")
    stage.event("act")

def ego_is_clear(actor):
    """The ego is not beside the actor, nor about to pass it: there is room to move over."""
    lead = actor.rail.s - stage.ego_s
    return lead < -actor.length / 2 - 8.0 or lead > actor.length / 2 + 12.0 + stage.ego_speed

behavior DriveOn():
    """As a usual driver along the ego's way: slow in bends, behind others, at red lights; at its end off the stage."""
    mine = self.rail
    bends = flows.Pace(route, USUAL * road.speed_limit, 2.5)
    mine.d_wanted = 0.0
    mine.stop_s = None
    mine.gap = 3.0
    mine.lights = True
    while mine.s < route.length + 30:
        mine.speed = bends.speed(mine.s)
        do Ride() for 1 steps
    self.gone = True

behavior Approach(where, due, kind, top):
    """Ride so that one's rear is at `where` as the ego is due, at most at `top` m/s."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        left = where + self.length / 2 - mine.s
        mine.speed = min(max(left / max(until_due(where, due, kind), 0.3), 0.0), top) if stage.ego_speed > 0.5 else 0.0
        do Ride() for 1 steps

behavior Lead(where, due, kind, free, headway, top):
    """Drive ahead of the ego, `free` metres and `headway` seconds before it, until the ego is due. It waits for an ego
    that falls back, but does not stop for one that keeps more distance."""
    mine = self.rail
    bends = flows.Pace(route, top, 2.5)
    mine.lights = True
    while not is_due(where, due, kind):
        begins()
        lack = EGO_FRONT + free + self.length / 2 + headway * stage.ego_speed - (mine.s - stage.ego_s)
        least = 5.5 if stage.ego_speed > 1 else 0.0
        mine.speed = min(max(stage.ego_speed + 0.8 * lack, least), bends.speed(mine.s))
        do Ride() for 1 steps

# -- ahead of the ego --------------------------------------------------------------------------------------------------

behavior BrakeHard(where, due, kind, rest):
    """Drive ahead of the ego, brake to a standstill as it is due, and go on `rest` seconds after that. The closer the
    ego is due, the closer it is led."""
    mine = self.rail
    if kind == "time":
        do Lead(where, due, kind, 2.5, min(due, 1.5), 0.8 * road.speed_limit)
    else:
        do Lead(where, due, kind, min(due, 20.0), 0.0, 0.8 * road.speed_limit)
    acts()
    mine.brake = 7.5
    mine.speed = 0.0
    do Ride() until mine.now < 0.05
    stood = stage.time_s
    do Ride() until stage.time_s > stood + rest
    do DriveOn()

behavior SlowDown(where, due, kind, pace, lasts=6.0):
    """Drive ahead of the ego at an ordinary distance, slow gently to `pace` as it is due, as if looking for a house
    number, and go on after `lasts` seconds: nothing to brake hard for."""
    mine = self.rail
    do Lead(where, due, kind, 3.0, 1.4, USUAL * road.speed_limit)
    mine.brake = 2.2
    mine.speed = pace
    slowed = stage.time_s
    do Ride() until stage.time_s > slowed + lasts
    do DriveOn()

behavior SlowAhead(where, due, kind, pace, stays):
    """Be at `where` as the ego is due, at `pace`; speed up after `stays` seconds. A bicycle leaves the road instead."""
    mine = self.rail
    do Approach(where, due, kind, pace) until is_near(where, due, kind)  # else both would stand there for ever
    acts()
    mine.speed = pace
    begun = stage.time_s
    do Ride() until stage.time_s > begun + stays
    if self.kind == "bicycle":
        mine.d_wanted = roadside(-1)
        mine.speed = max(pace, 3.0)
        mine.stop_s = mine.s + 30.0
        do Ride()
    else:
        do DriveOn()

behavior SwerveAway(where, due, kind, pace):
    """Drive ahead of the ego, at most at `pace`, towards what stands at `where`, and go round it on the right as the
    ego is due, or when it must."""
    mine = self.rail
    aside = stage.lane(-1) if lanes("right") else -(self.width / 2 + 1.65)
    bends = flows.Pace(route, pace, 2.5)
    mine.sideways = 3.0
    while not is_due(where, due, kind):
        begins()
        late = where - self.length / 2 - mine.s < 12.0 + 0.35 * (mine.now or 0.0)
        if late and stage.ego_s > 2.0:  # who waited for the trigger here would keep the ego from it
            break
        lack = EGO_FRONT + 6.0 + self.length / 2 + 0.6 * stage.ego_speed - (mine.s - stage.ego_s)
        least = 4.0 if stage.ego_speed > 1 else 0.0
        mine.speed = 0.0 if late else min(max(stage.ego_speed + 0.8 * lack, least), bends.speed(mine.s))
        do Ride() for 1 steps
    acts()
    mine.speed = max(mine.now or 0.0, 4.0)
    self.lamps.add("right")
    mine.d_wanted = aside
    do Ride() until mine.s > where + 14.0 + self.length / 2 and ego_is_clear(self)
    self.lamps.clear()
    do DriveOn()

behavior StandHidden(where, stays):
    """Stand until `stays` seconds after the ego, had it kept its speed, would have been here. Then drive on, or, if one
    has no engine, be taken away."""
    while not stage.happened("act"):
        wait
    free = stage.time_s + min(max(seconds_to(where), 0.0), 6.0) + stays
    while stage.time_s < free or (abs(stage.ego_s - where - self.length / 2) < 12.0 and abs(stage.ego_d) > 0.8):
        wait
    if self.rail is None:
        self.gone = True
    else:
        self.lamps.clear()
        do DriveOn()

# -- from beside, and head-on ------------------------------------------------------------------------------------------

behavior CutIn(where, due, kind, pace, side, crawl=5.0):
    """From the lane or roadside on `side` (+1 left) into the ego's lane at `where`, as the ego is due. It goes at
    `pace` for `crawl` seconds, then on."""
    mine = self.rail
    do Approach(where, due, kind, pace + 2.0)
    acts()
    self.lamps.add("right" if side > 0 else "left")
    mine.d_wanted = 0.0
    mine.speed = pace
    begun = stage.time_s
    do Ride() until stage.time_s > begun + crawl
    self.lamps.clear()
    do DriveOn()

behavior Oncoming(where, due, kind, pace, over=0.0):
    """Against the ego in its own lane, `over` metres to the left of the lane's middle, so that both would be at `where`
    together; out of the oncoming lane as the ego is due, if it drives there. For who brakes it brakes too, and goes
    back to where it belongs."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        left = mine.s - where - pace * seconds_to(where)
        mine.speed = pace if left > 0 and stage.ego_speed > 0.5 else 0.0
        do Ride() for 1 steps
    acts()
    mine.speed = pace
    mine.now = max(mine.now or 0.0, 0.7 * pace)
    mine.d_wanted = over
    top = stage.ego_speed
    while mine.s > stage.ego_s - 8 and not (stage.ego_speed < max(2.0, 0.7 * top) and mine.s - stage.ego_s < 45):
        top = max(top, stage.ego_speed)
        do Ride() for 1 steps
    mine.gap = 3.0
    mine.brake = 7.5
    mine.d_wanted = oncoming_lane()
    do Ride() until mine.s < stage.ego_s or mine.now < 0.1
    if mine.s > stage.ego_s and abs(stage.ego_d - mine.d) < 2.3:
        do BackOff(stage.ego_s + 22.0)
    do Ride() until mine.s < min(stage.ego_s - 60, 0)
    self.gone = True

behavior BackOff(s):
    """Nose to nose with the ego: in reverse to s, from where there is room to get round it."""
    mine = self.rail
    begun = stage.time_s
    do Ride() until stage.time_s > begun + 1.5
    self.lamps.add("reverse")
    while mine.s < s:
        mine.now = 0.0
        mine.s = mine.s + 2.0 * stage.timestep
        do Ride() for 1 steps
    self.lamps.clear()

# -- from behind -------------------------------------------------------------------------------------------------------

behavior Tailgate(where, due, kind, gap, late):
    """Follow the ego `gap` metres behind it with a reaction time of `late` seconds and weak brakes: who brakes hard is
    hit, who brakes gently is not. It acts once it is as close as that and the ego is due, and drops back after 8 s."""
    mine = self.rail
    mine.brake = 4.0
    seen = []
    leaves = math.inf
    while stage.time_s < leaves:
        begins()
        free = stage.ego_s - mine.s - EGO_FRONT - self.length / 2
        if not stage.happened("act") and free < gap + 2.0 and is_due(where, due, kind):
            acts()
            leaves = stage.time_s + 8.0
        seen.append(stage.ego_speed)
        past = seen[max(len(seen) - 1 - round(late / stage.timestep), 0)]
        mine.speed = max(past + (free - gap), 0.0)
        do Ride() for 1 steps
    mine.brake = 6.0
    do DriveOn()

behavior PassWithSiren(where, due, kind, pace, back):
    """An emergency vehicle: follows unnoticed, `back` metres behind it, and as the ego is due turns its siren on
    and wants to pass. Who holds it up too long has not given way ("yield failed"); it then passes by itself."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        mine.speed = min(max(stage.ego_speed + 0.6 * (stage.ego_s - back - mine.s), 0.0), pace)
        do Ride() for 1 steps
    acts()
    self.lamps.add("siren")
    stage.hold_signals(route="green", cross="red")
    mine.speed = pace
    mine.gap = 2.0
    patience = min(max(0.7 * (route.length - 10.0 - stage.ego_s) / max(stage.ego_speed, 6.0), 3.0), 6.0)
    held = 0.0
    while mine.s < route.length + 60:
        gap = stage.ego_s - mine.s
        if held > patience:
            stage.event("yield failed")
            mine.d_wanted = width
        elif stage.ego_d < -0.5 and not lanes("right") and 0 < gap < 30:
            mine.d_wanted = max(0.55 * width, stage.ego_d + self.width / 2 + 1.4)
        elif gap < -8:
            mine.d_wanted = 0.0
        if 0 < gap < 12 + 1.6 * (mine.now or 0) and abs(stage.ego_d - mine.d) < 2.3 and (mine.now or 0) < pace - 2:
            held += stage.timestep
        do Ride() for 1 steps
    self.gone = True
