"""Scenic world model of the CARLA world: Scenic's own model, and the attributes that our programs and worlds use.

A program that uses the generic driving model (`model scenic.domains.driving.model`) compiles with this model and with
the embedded one. The attributes besides Scenic's own properties (kind, lamps, doors, role, rail, fixed, gone) are
described in worlds/embedded/model.scenic. As there, the world moves actors that have a rail.

Differences from Scenic's model: the weather is the route's unless the program sets one, a Car is the Lincoln of CARLA's
leaderboard, blueprints follow `kind`, and the functions for traffic lights work.
"""

param render = 0
param timestep = 0.05
param stage = None
param weather = None

from scenic.simulators.carla.model import *

from closedloop_plugin.scenarios.looks import blueprint_of as _blueprint_of
from scenic.core.distributions import distributionFunction
import scenic.simulators.carla.utils.utils as _utils

blueprint_of = distributionFunction(_blueprint_of)  # a kind may be random: with kind Uniform("car", "van")

class Staged(CarlaActor):
    kind: "car"
    lamps: set()
    doors: set()
    role: "scenario"
    rail: None
    fixed: False
    gone: False

    # The hand brake of a standing vehicle stays on until its behaviour drives it: roads of towns have slopes.
    @property
    def control(self):
        if self._control is None:
            self._control = self.carlaActor.get_control()
            if hasattr(self._control, "hand_brake"):
                self._control.hand_brake = getattr(self, "_held", False)
        return self._control

    def setHandbrake(self, handbrake):
        self._held = handbrake
        self.control.hand_brake = handbrake

class Car(Staged, Car):
    blueprint: "vehicle.lincoln.mkz_2020" if self.kind == "car" else blueprint_of(self.kind)

class NPCCar(Staged, NPCCar):
    pass

class Bicycle(Staged, Bicycle):
    kind: "bicycle"

class Motorcycle(Staged, Motorcycle):
    kind: "motorcycle"

class Truck(Staged, Truck):
    kind: "truck"

class Van(Staged, Van):
    kind: "van"

class Bus(Staged, Bus):
    kind: "bus"

class Pedestrian(Staged, Pedestrian):
    kind: "pedestrian"

class Prop(Staged, Prop):
    kind: "blocker"
    fixed: True

# These functions of Scenic 3.1.1 fail, because they use a name that its model does not define (`utils`).

def setTrafficLightStatus(signal, color):
    _set(_light_of(signal), color)

def setClosestTrafficLightStatus(vehicle, color, distance=100):
    _set(vehicle._getClosestTrafficLight(distance), color)

def getTrafficLightStatus(signal):
    light = _light_of(signal)
    return "None" if light is None else _utils.carlaToScenicTrafficLightStatus(light.get_state())

def setAllIntersectionTrafficLightsStatus(intersection, color):
    for signal in intersection.signals:
        if signal.isTrafficLight:
            setTrafficLightStatus(signal, color)

def getClosestTrafficLightStatus(vehicle, distance=100):
    light = vehicle._getClosestTrafficLight(distance)
    return "None" if light is None else _utils.carlaToScenicTrafficLightStatus(light.get_state())

def _set(light, color):
    state = _utils.scenicToCarlaTrafficLightStatus(color)
    if state is None:
        raise RuntimeError("a traffic light is red, yellow, green, off or unknown")
    if light is not None:
        simulation().hold_light(light, state)

def _light_of(signal):
    if not signal.isTrafficLight:
        raise RuntimeError("the signal is no traffic light")
    return simulation().world.get_traffic_light_from_opendrive_id(str(signal.openDriveID))
