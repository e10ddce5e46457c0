"""Writing of OpenDRIVE 1.4, restricted to what corridor maps need: lines and arcs, lanes of constant width.

Reference line: s along it, t to its left (m), hdg its yaw. Lane widths and offsets are cubics a + b ds + c ds^2 +
d ds^3, of which only a is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.maps.curves import STRAIGHT, Chain, CurveSegment, length
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_bytes

BEND = math.radians(
    11
)  # change of yaw of one <geometry> at most: Scenic samples 20 points of each, so steps stay under 0.6 degrees
SIGNALS = {"signal": ("1000001", "yes"), "stop": ("206", "no"), "yield": ("205", "no")}


@dataclass(frozen=True)
class OpenDriveLane:
    """One lane. `mark`: of its outer border (the right one of a right lane, the left one of a left lane)."""

    kind: str  # driving | shoulder | parking | biking | sidewalk | none
    width: float
    mark: str = "none"  # OpenDRIVE roadMark type
    before: int | None = None  # linked lane ids in the road before and after
    after: int | None = None


def lanes_within(lanes: Sequence[OpenDriveLane], room: float) -> list[OpenDriveLane]:
    """The first lanes that together are at most `room` metres wide."""
    kept: list[OpenDriveLane] = []
    for lane in lanes:
        room -= lane.width
        if room < 0:
            break
        kept.append(lane)
    return kept


@dataclass(frozen=True)
class OpenDriveLink:
    """Predecessor or successor of a road. `contact` is empty for a junction."""

    kind: str  # road | junction
    id: int
    contact: str = ""


@dataclass(frozen=True)
class OpenDriveSign:
    id: int
    control: str  # signal | stop | yield
    s: float
    t: float
    orientation: str  # "+": applies to right lanes, "-": to left lanes
    lanes: tuple[int, int]  # ids, from and to


@dataclass
class OpenDriveRoad:
    """right: lanes -1, -2, ... from the centre line outwards; left: +1, +2, ...; offset: t of the centre line, m."""

    id: int
    chain: Chain
    right: list[OpenDriveLane]
    left: list[OpenDriveLane] = field(default_factory=list)
    offset: float = 0.0
    middle: tuple[str, str] = ("none", "white")
    junction: int = -1
    before: OpenDriveLink | None = None
    after: OpenDriveLink | None = None
    signs: list[OpenDriveSign] = field(default_factory=list)
    obeys: list[int] = field(default_factory=list)  # ids of signs on other roads that apply to this connecting road


@dataclass(frozen=True)
class OpenDriveConnection:
    incoming: int
    connecting: int
    links: tuple[tuple[int, int], ...]


BOX_ID = 1000  # of the junction, not used by a road: CARLA confuses a junction and a road with the same id


@dataclass
class OpenDriveJunction:
    id: int
    connections: list[OpenDriveConnection] = field(default_factory=list)


def document(name: str, roads: Sequence[OpenDriveRoad], junctions: Sequence[OpenDriveJunction], limit: float) -> bytes:
    """The OpenDRIVE file; `limit` in m/s. Ids start at 1, since Scenic treats 0 as missing."""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<OpenDRIVE>",
        f'<header revMajor="1" revMinor="4" name={quoteattr(name)} version="1" vendor="lmms-eval-ad2">'
        "<geoReference><![CDATA[+proj=tmerc +lat_0=0 +lon_0=0]]></geoReference></header>",
    ]
    for road in roads:
        out += _road(road, limit)
    for junction in junctions:
        out.append(f'<junction id="{junction.id}" name="junction {junction.id}">')
        for i, c in enumerate(junction.connections):
            out.append(
                f'<connection id="{i}" incomingRoad="{c.incoming}" connectingRoad="{c.connecting}" '
                'contactPoint="start">'
            )
            out += [f'<laneLink from="{a}" to="{b}"/>' for a, b in c.links]
            out.append("</connection>")
        out.append("</junction>")
    out.append("</OpenDRIVE>")
    return ("\n".join(out) + "\n").encode()


def _road(road: OpenDriveRoad, limit: float) -> list[str]:
    out = [f'<road name="road {road.id}" length="{_n(length(road.chain))}" id="{road.id}" junction="{road.junction}">']
    out.append("<link>" + _link("predecessor", road.before) + _link("successor", road.after) + "</link>")
    out.append(f'<type s="0" type="town"><speed max="{_n(limit)}" unit="m/s"/></type>')
    out.append("<planView>")
    s = 0.0
    for piece in fine(road.chain):
        shape = "<line/>" if abs(piece.curvature) < STRAIGHT else f'<arc curvature="{piece.curvature:.10g}"/>'
        out.append(
            f'<geometry s="{_n(s)}" x="{_n(piece.x)}" y="{_n(piece.y)}" hdg="{wrap(piece.yaw):.10f}" '
            f'length="{_n(piece.length)}">{shape}</geometry>'
        )
        s += piece.length
    out.append("</planView>")
    out.append('<elevationProfile><elevation s="0" a="0" b="0" c="0" d="0"/></elevationProfile>')
    out.append(f'<lanes><laneOffset s="0" a="{_n(road.offset)}" b="0" c="0" d="0"/><laneSection s="0">')
    if road.left:
        ids = range(len(road.left), 0, -1)
        out += ["<left>", *(_lane(i, road.left[i - 1]) for i in ids), "</left>"]
    out.append(f'<center><lane id="0" type="none" level="false">{_mark(*road.middle)}</lane></center>')
    if road.right:
        out += ["<right>", *(_lane(-1 - i, lane) for i, lane in enumerate(road.right)), "</right>"]
    out.append("</laneSection></lanes>")
    out += _signs(road)
    out.append("</road>")
    return out


def fine(chain: Sequence[CurveSegment]) -> list[CurveSegment]:
    """The same curve in pieces that each bend by BEND at most."""
    pieces: list[CurveSegment] = []
    for s in chain:
        n = max(1, math.ceil(abs(s.curvature) * s.length / BEND))
        pieces += [CurveSegment(*s.at(s.length * k / n), s.length / n, s.curvature) for k in range(n)]
    return pieces


def _lane(id_: int, lane: OpenDriveLane) -> str:
    link = "".join(
        f'<{tag} id="{to}"/>' for tag, to in (("predecessor", lane.before), ("successor", lane.after)) if to is not None
    )
    width = f'<width sOffset="0" a="{_n(lane.width)}" b="0" c="0" d="0"/>'
    inside = f"<link>{link}</link>{width}{_mark(lane.mark, 'white')}"
    return f'<lane id="{id_}" type="{lane.kind}" level="false">{inside}</lane>'


def _mark(kind: str, colour: str) -> str:
    colour = "standard" if colour == "white" else colour
    return f'<roadMark sOffset="0" type="{kind}" weight="standard" color="{colour}" width="0.15" laneChange="both"/>'


def _link(tag: str, link: OpenDriveLink | None) -> str:
    if link is None:
        return ""
    contact = f' contactPoint="{link.contact}"' if link.contact else ""
    return f'<{tag} elementType="{link.kind}" elementId="{link.id}"{contact}/>'


def _signs(road: OpenDriveRoad) -> list[str]:
    if not road.signs and not road.obeys:
        return []
    out = ["<signals>"]
    for sign in road.signs:
        kind, dynamic = SIGNALS[sign.control]
        out.append(
            f'<signal s="{_n(sign.s)}" t="{_n(sign.t)}" id="{sign.id}" name="{sign.control}" dynamic="{dynamic}" '
            f'orientation="{sign.orientation}" zOffset="0" country="OpenDRIVE" type="{kind}" subtype="-1" value="-1" '
            f'height="0.9" width="0.9"><validity fromLane="{sign.lanes[0]}" toLane="{sign.lanes[1]}"/></signal>'
        )
    out += [
        f'<signalReference s="0" t="0" id="{i}" orientation="+"><validity fromLane="-1" toLane="-1"/></signalReference>'
        for i in road.obeys
    ]
    return [*out, "</signals>"]


def _n(value: float) -> str:
    return f"{value:.8f}"


def keep(data: bytes, folder: Path, name: str) -> Path:
    """Write a map file atomically, unless it exists with these bytes. Returns its path."""
    folder = Path(folder)
    file = folder / name
    try:
        if file.is_file() and file.read_bytes() == data:
            return file
        atomic_write_bytes(file, data, durable=False)
    except OSError as exc:
        raise Ad2Error(f"{folder}: cannot write a map there ({exc.strerror}); choose another cache folder") from exc
    return file
