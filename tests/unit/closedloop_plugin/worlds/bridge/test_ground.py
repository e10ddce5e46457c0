"""The path ahead of a program's ego: along lanes that join, to the end of the last one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.worlds.bridge.ground import joined, path_ahead

ROAD = """<road id="{id}" length="{length}" junction="{junction}"><link>{link}</link><planView>
<geometry s="0" x="{x}" y="0" hdg="{yaw}" length="{length}"><line/></geometry></planView><lanes><laneSection s="0">
<left><lane id="1" type="driving"><link>{left}</link><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></left>
<center><lane id="0" type="none"/></center>
<right><lane id="-1" type="driving"><link>{right}</link><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></right>
</laneSection></lanes></road>"""
JUNCTION = '<predecessor elementType="junction" elementId="9"/>'
ENDS = """<predecessor elementType="road" elementId="1" contactPoint="start"/>
<successor elementType="road" elementId="2" contactPoint="start"/>"""


@pytest.fixture
def network(tmp_path: Path) -> Any:
    """Two roads of 100 m to the east and west of a junction of 20 m, which links the lanes of both directions."""
    pytest.importorskip("scenic")
    from scenic.domains.driving.roads import Network

    roads = [
        ROAD.format(id=1, length=100, junction=-1, link=JUNCTION, x=10, yaw=0, left="", right=""),
        ROAD.format(id=2, length=100, junction=-1, link=JUNCTION, x=-10, yaw=math.pi, left="", right=""),
        ROAD.format(
            id=3, length=20, junction=9, link=ENDS, x=10, yaw=math.pi,
            left='<predecessor id="-1"/><successor id="1"/>', right='<predecessor id="1"/><successor id="-1"/>',
        ),
    ]  # fmt: skip
    links = '<laneLink from="1" to="-1"/><laneLink from="-1" to="1"/>'
    junction = f"""<junction id="9"><connection id="0" incomingRoad="1" connectingRoad="3" contactPoint="start">{links}
    </connection><connection id="1" incomingRoad="2" connectingRoad="3" contactPoint="end"><laneLink from="1" to="1"/>
    <laneLink from="-1" to="-1"/></connection></junction>"""
    file = tmp_path / "arms.xodr"
    file.write_text(f'<OpenDRIVE><header revMajor="1" revMinor="5"/>{"".join(roads)}{junction}</OpenDRIVE>')
    return Network.fromFile(file, useCache=False, writeCache=False)


@pytest.mark.integration
def test_the_path_ends_where_no_lane_begins(network: Any) -> None:
    path = path_ahead(network, 70.0, -1.75, 0.0, 200.0)
    assert path.length == pytest.approx(40.0, abs=0.5)
    assert path.xy[-1] == pytest.approx([110.0, -1.75], abs=0.1)


@pytest.mark.integration
def test_the_path_leads_through_the_junction_without_jumps(network: Any) -> None:
    path = path_ahead(network, -70.0, -1.75, 0.0, 300.0)
    assert path.length == pytest.approx(180.0, abs=0.5)
    assert float(np.abs(np.diff(path.x) - 0.5).max()) < 0.1 and float(np.abs(path.y + 1.75).max()) < 0.1


@pytest.mark.integration
def test_an_ego_at_the_end_of_its_road_has_a_path_of_a_metre(network: Any) -> None:
    assert path_ahead(network, 109.99, -1.75, 0.0, 200.0).length == pytest.approx(1.0, abs=0.1)


@pytest.mark.integration
def test_lanes_of_the_other_direction_are_not_joined(network: Any) -> None:
    leaving = next(x for x in network.lanes if x.centerline.points[-1][0] == pytest.approx(110.0))
    assert leaving.maneuvers or leaving._successor is not None, "the file links it"
    assert not any(joined(leaving, other) for other in network.lanes)
    assert not joined(leaving, None)
