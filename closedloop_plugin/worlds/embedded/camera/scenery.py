"""Static scenery as numpy arrays: ground, markings, kerbs, buildings, trees, lamps, signs. Map frame, metres."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from closedloop_plugin.core.boxes import corners as box_corners
from closedloop_plugin.core.boxes import oriented_box


@dataclass(frozen=True)
class GroundArea:
    """One piece of ground. Pieces are drawn in order, later ones over earlier ones."""

    surface: str  # asphalt | shoulder | parking | bicycle | junction | sidewalk
    rings: tuple[np.ndarray, ...]  # (n, 2) each: outline, then holes


@dataclass(frozen=True)
class RoadMarking:
    """A painted line."""

    points: np.ndarray  # (n, 2)
    colour: str = "white"  # white | yellow
    style: str = "solid"  # solid | dashed | double
    width: float = 0.15


@dataclass(frozen=True)
class TrafficControlDevice:
    """A traffic signal or sign. `yaw`: direction of the traffic that it controls."""

    kind: str  # signal | stop | yield | no_entry | speed_90
    line: str  # StopLine.id
    x: float  # of the pole's foot
    y: float
    yaw: float
    height: float  # of the middle of the head or plate
    arm: float = 0.0  # m from the pole to the head, to the LEFT of yaw


@dataclass(frozen=True)
class StaticScenery:
    """Everything static that a camera draws. All parts may be empty."""

    areas: tuple[GroundArea, ...] = ()
    markings: tuple[RoadMarking, ...] = ()
    # (n, 4) x0 y0 x1 y1, sidewalk on the left of 0 -> 1
    kerbs: np.ndarray = field(default_factory=partial(np.zeros, (0, 4)))
    # (n, 5) x, y of the middle, yaw of the traffic, width across, depth along
    crosswalks: np.ndarray = field(default_factory=partial(np.zeros, (0, 5)))
    stop_lines: np.ndarray = field(default_factory=partial(np.zeros, (0, 4)))  # (n, 4) x, y, yaw, width
    # (n, 3) x, y, yaw: the word STOP painted on the road
    words: np.ndarray = field(default_factory=partial(np.zeros, (0, 3)))
    # (n, 4) x, y, yaw, width: a yield line of triangles
    teeth: np.ndarray = field(default_factory=partial(np.zeros, (0, 4)))
    # (n, 9) x, y, yaw, length, width, height, r, g, b
    buildings: np.ndarray = field(default_factory=partial(np.zeros, (0, 9)))
    trees: np.ndarray = field(default_factory=partial(np.zeros, (0, 4)))  # (n, 4) x, y, height, crown radius
    lamps: np.ndarray = field(default_factory=partial(np.zeros, (0, 3)))  # (n, 3) x, y, yaw of the arm over the road
    signs: tuple[TrafficControlDevice, ...] = ()
    urban: float = 1.0  # 0 country .. 1 town: colour of the ground beside the road


def corners(x: float, y: float, yaw: float, length: float, width: float) -> np.ndarray:
    """(4, 2) corners of a box, counter-clockwise from the front left."""
    return np.array(box_corners(oriented_box(x, y, yaw, length, width)))[[0, 3, 2, 1]]
