"""read_town: the LaneNetwork of an OpenDRIVE file: lanes as polylines, their connections, and signs.

Files are untrusted: only XML is parsed, and nothing is cached.

OpenDRIVE coordinates: s along the reference line, t to its left (m). The centre line is at t = laneOffset(s); the outer
border of lane i is at the sum of the widths of lanes 1 to i from it, to the left (ids > 0) or right (ids < 0).
laneOffset and width are piecewise cubics a + b ds + c ds^2 + d ds^3, ds from the start of their row.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.maps.opendrive_file import LANES, MOST_LANES, map_bytes, opendrive_root
from closedloop_plugin.maps.towns.reference_line import number, on_one_line, polynomial, sampled

STEP = 0.5  # m between the points of a lane
DRIVABLE = ("driving", "entry", "exit", "offRamp", "onRamp", "connectingRamp", "bidirectional")
CONTROLS = {"1000001": "signal", "206": "stop", "205": "yield", "274": "limit"}

Key = tuple[int, int, int]  # road, section, lane id


@dataclass
class TownLane:
    """A lane in its direction of travel. centre, left, right: (N, 2) in m; height: (N,) of the reference line, m.

    s: metres along the centre, road_m: metres along the road's reference line, both (N,) from 0 at the lane's start.
    """

    key: Key
    kind: str
    centre: np.ndarray
    left: np.ndarray
    right: np.ndarray
    start_s: float  # of its section on the road, m
    road_m: np.ndarray
    height: np.ndarray
    junction: int  # -1: none
    forward: bool  # along the road's reference line
    mark: str  # of its outer border
    permits: np.ndarray  # bool (N, 2): if the markings permit a lane change to the left, to the right
    after: list[Key] = field(default_factory=list)
    before: list[Key] = field(default_factory=list)
    straight: bool = False  # as CARLA defines it: on one line, offset and elevation without curvature

    def __post_init__(self) -> None:
        self.s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(self.centre, axis=0).T))]

    @property
    def length(self) -> float:
        return float(self.s[-1])

    @property
    def width(self) -> float:
        """Width at the end of the lane, m."""
        return float(np.hypot(*(self.left[-1] - self.right[-1])))

    def part(self, a: float, b: float) -> np.ndarray:
        """Its centre from a to b metres, (N, 2)."""
        return self.part3(a, b)[:, :2]

    def part3(self, a: float, b: float) -> np.ndarray:
        """Its centre from a to b metres with heights, (N, 3)."""
        at = np.r_[a, self.s[(self.s > a) & (self.s < b)], b]
        return np.column_stack([np.interp(at, self.s, column) for column in (*self.centre.T, self.height)])

    def permitted(self, s: float, left: bool) -> float | None:
        """First position at or after s at which its markings permit a change to that side, or None."""
        allowed = self.permits[:, 0 if left else 1]
        here = max(int(np.searchsorted(self.s, s, side="right")) - 1, 0)
        if allowed[here]:
            return s
        ahead = np.flatnonzero(allowed[here:])
        return float(self.s[here + ahead[0]]) if len(ahead) else None


@dataclass(frozen=True)
class RoadSign:
    """A <signal> or <signalReference> of one road. `value`: of a speed limit, as in the file; 0 if it has none."""

    id: str
    control: str
    value: float
    s: float
    orientation: str
    lanes: tuple[tuple[int, int], ...]  # (from, to), empty: all

    def holds(self, lane: TownLane) -> bool:
        """If it applies to a lane: by lane ids if given (CARLA's towns invert orientation), else by orientation."""
        if self.lanes:
            return any(min(v) <= lane.key[2] <= max(v) for v in self.lanes)
        return self.orientation not in ("+", "-") or (self.orientation == "+") == lane.forward


@dataclass
class LaneNetwork:
    lanes: dict[Key, TownLane]
    signs: dict[int, list[RoadSign]]  # by road
    lengths: dict[int, float]
    sections: dict[int, int]  # road -> how many

    def drivable(self) -> list[TownLane]:
        return [lane for lane in self.lanes.values() if lane.kind in DRIVABLE]

    def beside(self, lane: TownLane, left: bool) -> TownLane | None:
        """The neighbouring lane of the same direction, or None."""
        road, section, id_ = lane.key
        inward = left  # towards the middle, in right-hand traffic
        other = id_ + (1 if (id_ < 0) == inward else -1)
        found = self.lanes.get((road, section, other))
        return found if found is not None and found.kind in DRIVABLE and other * id_ > 0 else None


def read_town(file: Path) -> LaneNetwork:
    """Read an OpenDRIVE file. Raises MapError if it is malformed, Ad2Error if it cannot be read or is no such file."""
    return parse_town(map_bytes(file), file)


def parse_town(xodr: bytes, file: object) -> LaneNetwork:
    """Like read_town, from the file's content; `file`: named in messages."""
    root = opendrive_root(xodr, file)
    town = LaneNetwork({}, {}, {}, {})
    for road in root.iterfind("road"):
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused
                _read_road(town, road)
        except (ValueError, TypeError, AttributeError) as exc:
            raise MapError(file, LANES, f"road {road.get('id', '?')}: {exc}") from exc
    if not town.drivable():
        raise MapError(file, LANES, "no driving lane in it")
    try:
        _link(town, root)
        town.signs = _signs(root)
    except (ValueError, TypeError) as exc:
        raise MapError(file, LANES, f"its links or signals: {exc}") from exc
    return town


def _read_road(town: LaneNetwork, road: ET.Element) -> None:
    id_, size = int(road.get("id", "")), number(road, "length")
    if size < 0:
        raise ValueError(f"its length is {size:g} m")
    plan, lanes = road.find("planView"), road.find("lanes")
    if plan is None or lanes is None:
        raise ValueError("no planView or no lanes")
    offsets = [_row(o, "s") for o in lanes.iterfind("laneOffset")]
    heights = [_row(e, "s") for e in road.iterfind("elevationProfile/elevation")]
    sections = lanes.findall("laneSection")
    starts = [number(section, "s") for section in sections] + [size]
    if starts != sorted(starts) or starts[0] < 0:
        raise ValueError("its lane sections are not in order, or lie beyond its end")
    town.lengths[id_], town.sections[id_] = size, len(sections)
    level = not np.any([row[3:] for row in offsets + heights])
    for i, section in enumerate(sections):
        a, b = starts[i], max(starts[i + 1], starts[i] + 1e-3)
        s = np.linspace(a, min(b, size) if size > a else b, max(2, int((b - a) / STEP) + 1))
        straight = level and on_one_line(plan, a, starts[i + 1])
        middle, height = polynomial(offsets, s), polynomial(heights, s)
        here = SampledSection(i, a, s - a, poses=sampled(plan, s), middle=middle, height=height, straight=straight)
        for side in ("left", "right"):
            _read_lanes(town, road, here, section=section, side=side)


@dataclass(frozen=True)
class SampledSection:
    """A lane section at N places of its road. start: s of its start, along: m from there.

    middle: t of the centre line, height: z, (N,). poses: of the reference line, (N, 3). straight: see TownLane.
    """

    index: int
    start: float
    along: np.ndarray
    poses: np.ndarray
    middle: np.ndarray
    height: np.ndarray
    straight: bool


def _read_lanes(town: LaneNetwork, road: ET.Element, here: SampledSection, section: ET.Element, side: str) -> None:
    sign = 1 if side == "left" else -1
    normal = np.column_stack([-np.sin(here.poses[:, 2]), np.cos(here.poses[:, 2])])
    inner = here.middle
    inwards = _permits(section.find("center/lane"), here.along)
    for lane in sorted(section.iterfind(f"{side}/lane"), key=lambda e: abs(int(e.get("id", "0")))):
        id_ = int(lane.get("id", ""))
        # t of the outer border; border points are p(s) + t n with the left normal n = (-sin yaw, cos yaw).
        outer = inner + sign * polynomial([_row(w, "sOffset") for w in lane.iterfind("width")], here.along)
        near, far = (here.poses[:, :2] + t[:, None] * normal for t in (inner, outer))
        if not (np.isfinite(near).all() and np.isfinite(far).all()):
            raise ValueError(f"the borders of its lane {id_} are not finite")
        inner = outer
        forward = (id_ < 0) != (road.get("rule") == "LHT")
        order = slice(None) if forward else slice(None, None, -1)
        outwards = _permits(lane, here.along)
        sides = [inwards[:, int(id_ > 0)], outwards[:, int(id_ < 0)]]
        inwards = outwards
        left, right = (near, far) if (id_ < 0) == forward else (far, near)
        mark = lane.find("roadMark")
        key = (int(road.get("id", "")), here.index, id_)
        town.lanes[key] = TownLane(
            key=key,
            kind=lane.get("type", "none"),
            centre=((near + far) / 2)[order],
            left=left[order],
            right=right[order],
            start_s=here.start,
            road_m=here.along if forward else here.along[-1] - here.along[::-1],
            height=here.height[order],
            junction=int(road.get("junction", "-1")),
            forward=forward,
            mark="none" if mark is None else mark.get("type", "none"),
            permits=np.column_stack(sides if (id_ < 0) == forward else sides[::-1])[order],
            straight=here.straight,
        )


def _permits(lane: ET.Element | None, along: np.ndarray) -> np.ndarray:
    """If the outer border may be crossed to larger and to smaller lane ids, bool (N, 2); yes without a marking."""
    permits = np.ones((len(along), 2), dtype=bool)
    marks = (
        [] if lane is None else [(float(m.get("sOffset", "0")), m.get("laneChange")) for m in lane.iterfind("roadMark")]
    )
    for start, change in sorted(marks, key=lambda mark: mark[0]):
        permits[along >= start] = [change not in ("none", "decrease"), change not in ("none", "increase")]
    return permits


def _row(node: ET.Element, start: str) -> tuple[float, float, float, float, float]:
    a, b, c, d = (number(node, name) for name in "abcd")
    return number(node, start), a, b, c, d


def _link(town: LaneNetwork, root: ET.Element) -> None:
    """Set `after` and `before` of every lane: within roads, between roads, through junctions."""
    joints: dict[int, list[ET.Element]] = {}
    for junction in root.iterfind("junction"):
        for c in junction.iterfind("connection"):
            joints.setdefault(int(c.get("incomingRoad", "0")), []).append(c)
    for road in root.iterfind("road"):
        id_ = int(road.get("id", ""))
        links = {tag: road.find(f"link/{tag}") for tag in ("predecessor", "successor")}
        for i, section in enumerate(road.iterfind("lanes/laneSection")):
            for lane in [*section.iterfind("left/lane"), *section.iterfind("right/lane")]:
                here = town.lanes[(id_, i, int(lane.get("id", "")))]
                for there in _next(town, here, lane, links, joints):
                    if there in town.lanes and there not in here.after:
                        here.after.append(there)
                        town.lanes[there].before.append(here.key)


def _next(
    town: LaneNetwork, here: TownLane, lane: ET.Element, links: dict, joints: dict[int, list[ET.Element]]
) -> list[Key]:
    road, section, id_ = here.key
    tag = "successor" if here.forward else "predecessor"
    target = lane.find(f"link/{tag}")
    step = section + (1 if here.forward else -1)
    if 0 <= step < town.sections[road]:
        return [] if target is None else [(road, step, int(target.get("id", "0")))]
    link = links[tag]
    if link is None:
        return []
    if link.get("elementType") == "road":
        if target is None:
            return []
        return _begins(town, int(link.get("elementId", "0")), link.get("contactPoint"), int(target.get("id", "0")))
    found: list[Key] = []
    for c in joints.get(road, []):
        pairs = {int(p.get("from", "0")): int(p.get("to", "0")) for p in c.iterfind("laneLink")} or {id_: id_}
        if id_ in pairs:
            found += _begins(town, int(c.get("connectingRoad", "0")), c.get("contactPoint"), pairs[id_])
    return found


def _begins(town: LaneNetwork, road: int, contact: str | None, lane: int) -> list[Key]:
    """The key of a lane, if its traffic starts at that end of the road."""
    key = (road, 0 if contact == "start" else town.sections.get(road, 1) - 1, lane)
    return [key] if key in town.lanes and town.lanes[key].forward == (contact == "start") else []


def _signs(root: ET.Element) -> dict[int, list[RoadSign]]:
    kinds: dict[str, tuple[str | None, float]] = {}
    for node in root.iter("signal"):
        control = CONTROLS.get(node.get("type", ""))
        try:
            value = float(node.get("value", "0")) if control == "limit" else 0.0
        except ValueError:  # a limit without a number is none
            value = 0.0
        kinds[node.get("id", "")] = control, value if 0.0 < value < 1000.0 else 0.0
    out: dict[int, list[RoadSign]] = {}
    for road in root.iterfind("road"):
        for node in [*road.iterfind("signals/signal"), *road.iterfind("signals/signalReference")]:
            control, value = kinds.get(node.get("id", ""), (None, 0.0))
            if control:
                lanes = [(int(v.get("fromLane", "0")), int(v.get("toLane", "0"))) for v in node.iterfind("validity")]
                place = number(node, "s"), node.get("orientation", "none"), tuple(lanes)
                out.setdefault(int(road.get("id", "")), []).append(RoadSign(node.get("id", ""), control, value, *place))
        # Speed limits of CARLA's towns are objects, such as Speed_30, for all lanes of one side of the road.
        for node in road.iterfind("objects/object"):
            if found := re.fullmatch(r"Speed_([0-9]{1,3})", node.get("name", "")):
                orientation = node.get("orientation", "none")
                valid = {"-": ((-MOST_LANES, -1),), "+": ((1, MOST_LANES),)}.get(orientation, ())
                sign = RoadSign(node.get("id", ""), "limit", float(found[1]), number(node, "s"), orientation, valid)
                out.setdefault(int(road.get("id", "")), []).append(sign)
    return out
