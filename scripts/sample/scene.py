"""The world model of the sample: objects on a road, from which images and answers are derived.

Frame: metres, x to the right of the ego car, y up, z ahead; the front camera looks along z. Headings in degrees,
clockwise from above: 0 is the direction of the ego car, 180 towards it, 90 to its right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weather = Literal["clear", "overcast", "dawn", "rainy", "snowy", "fog", "night", "sand"]
Severity = Literal["light", "moderate", "severe"]
Setting = Literal["city", "suburb", "highway"]

LANE = 3.5  # metres
EGO_LEFT, EGO_RIGHT = -LANE / 2, LANE / 2

VEHICLES = ("car", "van", "truck", "bus")
WALKERS = ("pedestrian", "child", "worker")
VRU = (*WALKERS, "cyclist")


@dataclass(frozen=True)
class Thing:
    """An object that questions can be about. `state`: moving, braking, parked, crossing, waiting, working ..."""

    key: str
    kind: str
    x: float
    z: float
    heading: float = 0.0
    color: str = ""
    state: str = ""
    text: str = ""


@dataclass(frozen=True)
class Scene:
    """One moment. `right_lanes`: lanes right of the ego lane; `crossing`: z of a zebra crossing; `light`: signal."""

    id: str
    weather: Weather
    severity: Severity
    setting: Setting
    things: tuple[Thing, ...]
    seed: int = 0
    right_lanes: int = 0
    crossing: float | None = None
    light: Literal["red", "yellow", "green"] | None = None

    @property
    def road(self) -> tuple[float, float]:
        """x of the left and the right edge of the carriageway, including a parking strip."""
        left = EGO_LEFT - (2 * LANE if self.setting == "highway" else LANE)
        right = EGO_RIGHT + self.right_lanes * LANE + (2.4 if self.setting == "city" else 0.6)
        return left, right

    def of(self, *kinds: str) -> list[Thing]:
        """The objects of these kinds, nearest first."""
        return sorted((t for t in self.things if t.kind in kinds), key=lambda t: abs(t.z))

    def get(self, key: str) -> Thing | None:
        return next((t for t in self.things if t.key == key), None)
