"""Behaviours of vehicles that drive with the ego, ahead of it, behind it or against it.

where, due, kind: the vehicle acts when the ego is `due` seconds ("time") or metres ("distance") before `where`, in
metres along its path; see is_due. Afterwards all of them leave the road free.
"""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *

EGO_FRONT = 2.4  # m, from its centre to its front
USUAL = 0.75  # normal speed, as a share of the speed limit

# -- parts of behaviours -----------------------------------------------------------------------------------------------

def begins():
    """Record the event "trigger", once, if the ego has reached the trigger point."""
    if stage.reached_trigger:
        stage.event("trigger")

def ego_is_clear(actor):
    """Whether the ego is neither beside the actor nor about to pass it, so that there is room to move over."""
    lead = actor.rail.s - stage.ego_s
    return lead < -actor.length / 2 - 8.0 or lead > actor.length / 2 + 12.0 + stage.ego_speed

behavior DriveOn():
    """Drive normally along the ego's path: slower in bends, behind others, at red lights; be removed 30 m beyond it."""
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
    """Ride so that the actor's rear is at `where` when the ego is due, at most at `top` m/s."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        left = where + self.length / 2 - mine.s
        mine.speed = min(max(left / max(until_due(where, due, kind), 0.3), 0.0), top) if stage.ego_speed > 0.5 else 0.0
        do Ride() for 1 steps

behavior Lead(where, due, kind, free, headway, top):
    """Drive ahead of the ego, `free` metres and `headway` seconds before it, until the ego is due. It waits for an ego
    that falls back, but does not stop for one that keeps a larger distance."""
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
    """Drive ahead of the ego, brake to a standstill when it is due, and continue `rest` seconds later. The smaller
    `due`, the smaller the distance to the ego."""
    mine = self.rail
    if kind == "time":
        do Lead(where, due, kind, 2.5, min(due, 1.5), 0.8 * road.speed_limit)
    else:
        do Lead(where, due, kind, min(due, 20.0), 0.0, 0.8 * road.speed_limit)
    acts(self)
    mine.brake = 7.5
    mine.speed = 0.0
    do Ride() until mine.now < 0.05
    stood = stage.time_s
    do Ride() until stage.time_s > stood + rest
    do DriveOn()

behavior SlowDown(where, due, kind, pace, lasts=6.0):
    """Drive ahead of the ego at a normal distance, slow gently to `pace` when it is due, and continue after `lasts`
    seconds: no reason to brake hard."""
    mine = self.rail
    do Lead(where, due, kind, 3.0, 1.4, USUAL * road.speed_limit)
    mine.brake = 2.2
    mine.speed = pace
    slowed = stage.time_s
    do Ride() until stage.time_s > slowed + lasts
    do DriveOn()

behavior SlowAhead(where, due, kind, pace, stays):
    """Be at `where` when the ego is due, at `pace`; after `stays` seconds accelerate (a bicycle: leave the road)."""
    mine = self.rail
    do Approach(where, due, kind, pace) until is_near(where, due, kind)  # otherwise both could wait indefinitely
    acts(self)
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
    """Drive ahead of the ego, at most at `pace`, towards the object at `where`, and pass it on the right when the ego
    is due, or when it must."""
    mine = self.rail
    aside = stage.lane(-1) if lanes("right") else -(self.width / 2 + 1.65)
    bends = flows.Pace(route, pace, 2.5)
    mine.sideways = 3.0
    while not is_due(where, due, kind):
        begins()
        late = where - self.length / 2 - mine.s < 12.0 + 0.35 * (mine.now or 0.0)
        if late and stage.ego_s > 2.0:  # if it waited for the trigger here, the ego could not reach it
            break
        lack = EGO_FRONT + 6.0 + self.length / 2 + 0.6 * stage.ego_speed - (mine.s - stage.ego_s)
        least = 4.0 if stage.ego_speed > 1 else 0.0
        mine.speed = 0.0 if late else min(max(stage.ego_speed + 0.8 * lack, least), bends.speed(mine.s))
        do Ride() for 1 steps
    acts(self)
    mine.speed = max(mine.now or 0.0, 4.0)
    self.lamps.add("right")
    mine.d_wanted = aside
    do Ride() until mine.s > where + 14.0 + self.length / 2 and ego_is_clear(self)
    self.lamps.clear()
    do DriveOn()

behavior StandHidden(where, stays):
    """Stand until `stays` seconds after the time at which the ego, at constant speed, would have arrived. Then drive
    on, or be removed if the actor has no rail."""
    while not stage.happened(self.acts_as):
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
    """Move from the lane or roadside on `side` (+1 left) into the ego's lane at `where` when the ego is due. Drive at
    `pace` for `crawl` seconds, then normally."""
    mine = self.rail
    do Approach(where, due, kind, pace + 2.0)
    acts(self)
    self.lamps.add("right" if side > 0 else "left")
    mine.d_wanted = 0.0
    mine.speed = pace
    begun = stage.time_s
    do Ride() until stage.time_s > begun + crawl
    self.lamps.clear()
    do DriveOn()

behavior Oncoming(where, due, kind, pace, over=0.0):
    """Drive against the ego in the ego's lane, `over` metres to the left of the lane's centre, so that both would meet
    at `where`; if it drives in the oncoming lane, leave it when the ego is due. If the ego brakes, it brakes too, and
    returns to its own lane."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        left = mine.s - where - pace * seconds_to(where)
        mine.speed = pace if left > 0 and stage.ego_speed > 0.5 else 0.0
        do Ride() for 1 steps
    acts(self)
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
    """Face to face with the ego in one lane: reverse to s, so that the ego has room to pass."""
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
    """Follow the ego `gap` metres behind it with a reaction time of `late` seconds and weak brakes: an ego that brakes
    hard is hit, one that brakes gently is not. It acts once it is that close and the ego is due, and drops back after
    8 s."""
    mine = self.rail
    mine.brake = 4.0
    seen = []
    leaves = math.inf
    while stage.time_s < leaves:
        begins()
        free = stage.ego_s - mine.s - EGO_FRONT - self.length / 2
        if not stage.happened(self.acts_as) and free < gap + 2.0 and is_due(where, due, kind):
            acts(self)
            leaves = stage.time_s + 8.0
        seen.append(stage.ego_speed)
        past = seen[max(len(seen) - 1 - round(late / stage.timestep), 0)]
        mine.speed = max(past + (free - gap), 0.0)
        do Ride() for 1 steps
    mine.brake = 6.0
    do DriveOn()

behavior PassWithSiren(where, due, kind, pace, back):
    """An emergency vehicle: follows `back` metres behind the ego without its siren; when the ego is due it turns the
    siren on and tries to pass. An ego that holds it up too long has not given way ("yield failed"); it then passes on
    the left."""
    mine = self.rail
    while not is_due(where, due, kind):
        begins()
        mine.speed = min(max(stage.ego_speed + 0.6 * (stage.ego_s - back - mine.s), 0.0), pace)
        do Ride() for 1 steps
    acts(self)
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
