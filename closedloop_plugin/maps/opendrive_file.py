"""Reading of OpenDRIVE files that others wrote: the parsed document, if it keeps to bounds."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

from closedloop_plugin.core.xml_files import FARTHEST_M, LARGEST_MAP, LONGEST_M, parse_xml, xml_bytes
from lmms_eval_ad2.core.errors import Ad2Error

SCENIC = "Scenic's OpenDRIVE reader"
LANES = "the lane reader of ad2"
MOST_LANES = 200  # of a lane section
MOST_LANE_M = 2e7  # of all lanes together, m; a lane is sampled twice a metre


def map_bytes(file: Path) -> bytes:
    """The content of a map file. Raises Ad2Error."""
    return xml_bytes(file, "map", LARGEST_MAP)


def opendrive_root(content: bytes, file: object) -> ET.Element:
    """The <OpenDRIVE> element. `file`: named in messages.

    Raises Ad2Error if it is no such file, or for coordinates, lengths or numbers of lanes beyond the bounds.
    """
    root = parse_xml(content, file, "an OpenDRIVE file")
    if root.tag != "OpenDRIVE":
        raise Ad2Error(f"{file}: not an OpenDRIVE file: it begins with <{root.tag}>")
    lane_m = 0.0
    for road in root.iterfind("road"):
        name = f"{file}: road {road.get('id', '?')}"
        _check_geometry(name, road)
        lanes = [len(section.findall("*/lane")) for section in road.iterfind("lanes/laneSection")]
        if max(lanes, default=0) > MOST_LANES:
            raise Ad2Error(f"{name}: {max(lanes)} lanes in a section; at most {MOST_LANES} are read")
        lane_m += max(lanes, default=0) * _size(road.get("length"))
    if lane_m > MOST_LANE_M:
        raise Ad2Error(f"{file}: {lane_m / 1000:g} km of lanes; at most {MOST_LANE_M / 1000:g} km are read")
    return root


def _check_geometry(name: str, road: ET.Element) -> None:
    bounds = {"x": FARTHEST_M, "y": FARTHEST_M, "length": LONGEST_M}
    for node in (road, *road.iterfind("planView/geometry")):
        for field, most in bounds.items():
            if _size(node.get(field)) > most:
                raise Ad2Error(f"{name}: <{node.tag}> {field} is {node.get(field)}; at most {most:g} m are read")


def _size(text: str | None) -> float:
    """Absolute value of a number; 0 for a text that is none, which the reader of the field refuses."""
    try:
        return 0.0 if math.isnan(value := abs(float(text or "0"))) else value
    except ValueError:
        return 0.0
