"""Scenic world model of the embedded simulator: the generic driving domain, plus what our physics and camera know.

A program that uses the generic driving model (`model scenic.domains.driving.model`) compiles under this model and
under CARLA's; the classes below carry the names that CARLA's model has. What an object may carry beside Scenic's own
properties, all plain attributes that a behaviour may change at any tick:

    kind    str, a value of closedloop_plugin.core.state.ActorKind: what it looks like, how heavy it is, how it drives.
            `new Car with kind "police"`. Its size defaults to the kind's (give `with width`, `with length` otherwise).
    lamps   set of: brake, left, right, hazard, siren, headlights, reverse. `self.lamps.add("hazard")`.
            Brake lamps come on by themselves.
    doors   set of: left, right. An open door is 0.9 m wide and hard: `self.doors.add("left")`.
    role    "scenario" (default) or "background" (counts for Efficiency).
    rail    closedloop_plugin.worlds.bridge.rail.Rail: the world moves the actor along it exactly and ignores its
            pedals. `new Car at stage.spot(40, 3.5), with rail Rail(stage.road.path, 40, 3.5, speed=8)`, or set it in a
            behaviour; `self.rail.speed = 0` brakes, `self.rail.d_wanted = 0` changes lane, `self.rail = None` frees.
            After a collision with something of weight the rail is ignored: the driver brakes, a walker lies.
    fixed   True: cannot be moved by a collision (a wall, a container).
    gone    True: taken off the stage (invisible, untouchable). Scenic cannot delete an object; this can.

Also: setPose(x, y, heading, speed) puts an actor somewhere at once. Cars obey throttle, brake, steer and reverse as
under every driving model; pedestrians and animals obey SetWalkingDirectionAction and SetWalkingSpeedAction. An object
without a behaviour stands still until something hits it. `with velocity` sets the speed at the start.

Params: map, map_options, timestep, stage (bridge.stage.Stage; None outside a world of ours).
"""

param render = False
param timestep = 0.05
param stage = None

from scenic.simulators.newtonian.driving_model import *

from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.embedded.simulation import EmbeddedSimulator
from closedloop_plugin.worlds.bodies.vehicle import size_of as _size_of
from scenic.core.distributions import distributionFunction

size_of = distributionFunction(_size_of)  # a kind may be random: with kind Uniform("car", "van")

simulator EmbeddedSimulator(network)

class Staged(DrivingObject):
    kind: "car"
    lamps: set()
    doors: set()
    role: "scenario"
    rail: None
    fixed: False
    gone: False
    pose: None
    width: size_of(self.kind)[1]
    length: size_of(self.kind)[0]
    height: size_of(self.kind)[2]

    def setPose(self, x, y, heading, speed=0.0):
        self.pose = (x, y, heading, speed)

class Vehicle(Staged, Vehicle, Steers):
    pass

class Car(Vehicle):
    @property
    def isCar(self):
        return True

class NPCCar(Car):
    pass

class Bicycle(Vehicle):
    kind: "bicycle"

class Motorcycle(Vehicle):
    kind: "motorcycle"

class Truck(Vehicle):
    kind: "truck"

class Van(Vehicle):
    kind: "van"

class Bus(Vehicle):
    kind: "bus"

class Pedestrian(Staged, Pedestrian):
    kind: "pedestrian"

class Prop(Staged, NewtonianActor):
    kind: "blocker"
    regionContainedIn: road
    position: new Point on road
    parentOrientation: Range(0, 360) deg

class Trash(Prop):
    kind: "debris"

class Cone(Prop):
    kind: "cone"

class Debris(Prop):
    kind: "debris"

class VendingMachine(Prop):
    fixed: True

class Chair(Prop):
    kind: "debris"

class BusStop(Prop):
    fixed: True

class Advertisement(Prop):
    fixed: True

class Garbage(Prop):
    kind: "debris"

class Container(Prop):
    fixed: True

class Table(Prop):
    kind: "debris"

class Barrier(Prop):
    kind: "barrier"

class PlantPot(Prop):
    kind: "debris"

class Mailbox(Prop):
    kind: "debris"

class Box(Prop):
    kind: "debris"

class Case(Prop):
    kind: "debris"

class Bench(Prop):
    kind: "debris"

class Barrel(Prop):
    kind: "debris"

class ATM(Prop):
    fixed: True

class Kiosk(Prop):
    fixed: True

class IronPlate(Prop):
    kind: "debris"

class TrafficWarning(Prop):
    kind: "warning sign"
