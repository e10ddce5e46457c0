"""A small OpenDRIVE town: two lanes eastwards, a junction, two lanes on; and routes along them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from closedloop_plugin.core.routes import Route

APPROACH_M, BOX_M, LEAVE_M = 30.5, 9.5, 30.0
WIDTH = 3.5  # m of a lane; the left one is 0 to -3.5 in y

_ROAD = """<road name="r" id="{id}" length="{length}" junction="{junction}"><link>{link}</link><planView>
<geometry s="0" x="{x}" y="0" hdg="0" length="{length}"><line/></geometry></planView>{height}<lanes>
<laneOffset s="0" a="0" b="0" c="0" d="0"/><laneSection s="0"><center><lane id="0" type="none" level="false"/></center>
<right>{lanes}</right></laneSection></lanes></road>"""
_LANE = """<lane id="{id}" type="driving" level="false"><link>{link}</link>
<width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>"""


def crossing_town(file: Path, height: str = "") -> Path:
    """Write roads 1 (approach), 2 (in junction 9) and 3, all along y = 0. `height`: their elevationProfile."""
    before, after = '<predecessor elementType="{}" elementId="{}"{}/>', '<successor elementType="{}" elementId="{}"{}/>'
    start, end = ' contactPoint="start"', ' contactPoint="end"'
    roads = [
        _road(1, APPROACH_M, 0.0, -1, after.format("junction", 9, ""), height),
        _road(2, BOX_M, APPROACH_M, 9, before.format("road", 1, end) + after.format("road", 3, start), height),
        _road(3, LEAVE_M, APPROACH_M + BOX_M, -1, before.format("junction", 9, ""), height),
    ]
    links = "".join(f'<laneLink from="{i}" to="{i}"/>' for i in (-1, -2))
    junction = (
        f'<junction id="9" name="j"><connection id="0" incomingRoad="1" connectingRoad="2" contactPoint="start">{links}'
        "</connection></junction>"
    )
    header = '<header revMajor="1" revMinor="4" name="t" version="1"/>'
    file.write_text(f"<OpenDRIVE>{header}{''.join(roads)}{junction}</OpenDRIVE>")
    return file


def _road(id_: int, length: float, x: float, junction: int, link: str, height: str) -> str:
    ends = f'<predecessor id="{{0}}"/>{"" if id_ == 3 else "<successor id=" + chr(34) + "{0}" + chr(34) + "/>"}'
    lanes = "".join(_LANE.format(id=i, link=ends.format(i)) for i in (-1, -2))
    return _ROAD.format(id=id_, length=length, x=x, junction=junction, link=link, height=height, lanes=lanes)


def route_along(
    x: Sequence[float], lanes: Sequence[int] = (), id_: str = "1", scenario: str = "T_Junction", name: str = "Town99"
) -> Route:
    """A route with points at these x; `lanes`: of each point, 0 the left and 1 the right one (default: all left)."""
    own = lanes or [0] * len(x)
    points = tuple((a, -(lane + 0.5) * WIDTH) for a, lane in zip(x, own, strict=True))
    return Route(id=id_, town=name, points=points, scenario=scenario, scenario_name=scenario, trigger=(0.0, 0.0, 0.0))
