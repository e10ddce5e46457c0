"""GNSS and IMU readings, with the noise that the sensors' attributes ask for."""

from __future__ import annotations

import math
import random
import re
from functools import cache
from typing import TYPE_CHECKING

import carla

from fake_carla.sensor_data import SensorData

if TYPE_CHECKING:
    from fake_carla.bodies import Body
    from fake_carla.stage import Stage

EARTH_M = 6378137.0
GRAVITY = 9.81
REFERENCE = (42.0, 2.0)  # latitude and longitude of a map without a geoReference, in the server and in the leaderboard
MIRRORED = (0, 9, 16)  # from this version on, latitude has the wrong sign (carla issue 9389)


class GnssMeasurement(SensorData):
    """Degrees and metres. As in the server, a server of 0.9.16 mirrors the latitude about the map's origin."""

    def __init__(self, stage: Stage, sensor: Body) -> None:
        super().__init__(stage, sensor)
        place = carla.Location(*sensor.last.place)
        noise = _Noise(stage, sensor)
        latitude, longitude = gnss_of(stage.town, stage.version, place)
        self._latitude = latitude + noise.of("noise_lat")
        self._longitude = longitude + noise.of("noise_lon")
        self._altitude = place.z + noise.of("noise_alt")

    latitude = property(lambda self: self._latitude)
    longitude = property(lambda self: self._longitude)
    altitude = property(lambda self: self._altitude)


class IMUMeasurement(SensorData):
    """In the sensor's axes: m/s2 with gravity, rad/s; `compass` in radians clockwise from north, which is -y."""

    def __init__(self, stage: Stage, sensor: Body) -> None:
        super().__init__(stage, sensor)
        noise, yaw = _Noise(stage, sensor), math.radians(sensor.last.turn[1])
        motion = sensor.parent.last if sensor.parent else sensor.last
        ax, ay, az = motion.acceleration
        forward = ax * math.cos(yaw) + ay * math.sin(yaw)
        right = ay * math.cos(yaw) - ax * math.sin(yaw)
        accelerations = (forward, right, az + GRAVITY)
        self._accelerometer = [a + noise.of("noise_accel", i) for a, i in zip(accelerations, "xyz", strict=True)]
        self._gyroscope = [math.radians(w) + noise.of("noise_gyro", i) for w, i in zip(motion.spin, "xyz", strict=True)]
        self._compass = (yaw + math.pi / 2) % math.tau

    accelerometer = property(lambda self: carla.Vector3D(*self._accelerometer))
    gyroscope = property(lambda self: carla.Vector3D(*self._gyroscope))
    compass = property(lambda self: self._compass)


class _Noise:
    """Normal noise by the attributes NAME_bias[_AXIS] and NAME_stddev[_AXIS]; one generator per sensor."""

    def __init__(self, stage: Stage, sensor: Body) -> None:
        self._attributes = sensor.attributes
        self._rng = stage.noise.setdefault(sensor.id, random.Random(int(sensor.attributes["noise_seed"])))

    def of(self, name: str, axis: str = "") -> float:
        suffix = f"_{axis}" if axis else ""
        bias = float(self._attributes.get(f"{name}_bias{suffix}", 0.0))
        return bias + self._rng.gauss(0.0, float(self._attributes[f"{name}_stddev{suffix}"]))


def gnss_of(town: carla.Map, version: str, place: carla.Location) -> tuple[float, float]:
    """(latitude, longitude) in degrees that a server of `version` reports at a place of the map."""
    if tuple(int(part) for part in version.split(".")) >= MIRRORED:
        found = town.transform_to_geolocation(place)  # of the installed client, 0.9.16
        return float(found.latitude), float(found.longitude)
    latitude, longitude = reference_of(town)
    scale = math.cos(math.radians(latitude)) * EARTH_M
    east = scale * math.radians(longitude) + place.x
    north = scale * math.asinh(math.tan(math.radians(latitude))) - place.y
    return math.degrees(math.atan(math.sinh(north / scale))), math.degrees(east / scale)


@cache
def reference_of(town: carla.Map) -> tuple[float, float]:
    """Latitude and longitude of the map's origin, from +lat_0 and +lon_0 of its geoReference."""
    found = [re.search(rf"\+{name}=([-+.\deE]+)", town.to_opendrive()) for name in ("lat_0", "lon_0")]
    latitude, longitude = (float(m[1]) if m else default for m, default in zip(found, REFERENCE, strict=True))
    return latitude, longitude
