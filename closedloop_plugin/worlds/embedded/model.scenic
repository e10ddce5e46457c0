"""Scenic world model of the embedded simulator: the generic driving domain, and what its physics and camera support.

A program that uses the generic driving model (`model scenic.domains.driving.model`) compiles with this model and with
CARLA's; the classes below have the names of those in CARLA's model. Besides Scenic's own properties, an object has the
following attributes. Behaviours may change lamps, doors, rail and gone at any tick; the others are read at the start.

    kind    str, a value of closedloop_plugin.core.state.ActorKind: appearance, mass, and dynamics of a vehicle.
            `new Car with kind "police"`. The default size is that of the kind (see `with width`, `with length`).
    lamps   set of: brake, left, right, hazard, siren, headlights, reverse. `self.lamps.add("hazard")`.
            Brake lamps are switched on automatically.
    doors   set of: left, right. An open door is 0.9 m wide, and can be hit: `self.doors.add("left")`.
    role    "scenario" (default) or "background" (counts for Efficiency).
    rail    closedloop_plugin.worlds.bridge.rail.Rail: the world moves the actor along it exactly and ignores its
            pedals. `new Car at stage.spot(40, 3.5), with rail Rail(stage.road.path, 40, 3.5, speed=8)`, or set it in a
            behaviour; `self.rail.speed = 0` brakes, `self.rail.d_wanted = 0` changes lane, `self.rail = None` ends it.
            After a collision, except with a much lighter body, the rail is ignored: a vehicle brakes, a walker falls.
    fixed   True: cannot be moved by a collision (a wall, a container).
    gone    True: removed from the scene (invisible, cannot be hit). Scenic itself cannot delete an object.

setPose(x, y, heading, speed) moves an actor to a pose at the next tick. Vehicles obey throttle, brake, steer and
reverse as under every driving model; pedestrians and animals obey SetWalkingDirectionAction and SetWalkingSpeedAction.
An object without a behaviour stands still until something hits it. `with velocity` sets the initial velocity.

Params: map, map_options, timestep (s), stage (closedloop_plugin.worlds.bridge.stage.ScenarioStage; None outside the
worlds of this project).
"""

param render = False
param timestep = 0.05
param stage = None

from scenic.simulators.newtonian.driving_model import *

from closedloop_plugin.scenarios.known_words import finite as _finite
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.embedded.simulation import EmbeddedSimulator
from closedloop_plugin.worlds.bodies.vehicle import size_of as _size_of
from scenic.core.distributions import distributionFunction

size_of = distributionFunction(_size_of)  # a kind may be random: with kind Uniform("car", "van")

# Names of Scenic's CARLA model besides the classes below.
from closedloop_plugin.worlds.embedded.carla_behaviors import *
import pathlib
import numpy as np
import scenic.simulators.carla.blueprints as blueprints
from scipy import linalg
map_town = pathlib.Path(globalParameters.map).stem
# Parameters of Scenic's CARLA model that a program may read; here they have no effect, but for the weather.
param carla_map = map_town
param address = "127.0.0.1"
param port = 2000
param timeout = 10
param record = ""
param weather = None
param snapToGroundDefault = True

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
    # Of Scenic's CARLA model, without effect here.
    blueprint: None
    rolename: None
    physics: True
    snapToGround: True
    defaultWidth: 1
    defaultLength: 1
    defaultHeight: 1
    width: size_of(self.kind)[1]
    length: size_of(self.kind)[0]
    height: size_of(self.kind)[2]

    def setPose(self, x, y, heading, speed=0.0):
        values = {"x": x, "y": y, "heading": heading, "speed": speed}
        self.pose = tuple(_finite(f"{name} of setPose", value) for name, value in values.items())

CarlaActor = Staged

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

class Gnome(Prop):
    kind: "debris"

class CreasedBox(Prop):
    kind: "debris"

class TrafficWarning(Prop):
    kind: "warning sign"
