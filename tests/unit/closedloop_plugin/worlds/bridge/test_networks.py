"""A map that Scenic cannot read is named with its reader, whatever exception Scenic's code meets."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.core.state import EpisodeFault
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.runner.faults import fault_of, is_certain

pytest.importorskip("scenic")

LINE = '<planView><geometry s="0" x="0" y="0" hdg="0" length="100"><line/></geometry></planView>'
LANE = (
    '<lanes><laneSection s="0"><center><lane id="0" type="none"/></center><right><lane id="-1" type="driving">'
    '<width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></right></laneSection></lanes>'
)
LINK = '<link><successor elementType="road" elementId="77" contactPoint="start"/></link>'
ROAD = '<OpenDRIVE><road name="a" length="100" id="1" junction="-1">{}</road></OpenDRIVE>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<OpenDRIVE/>", "no driving lane in it"),
        (ROAD.format(LANE), "AttributeError"),
        (ROAD.format(LINE.replace("<line/>", "<weird/>") + LANE), "AttributeError"),
        (ROAD.format(f"{LINK}{LINE}{LANE}"), "KeyError: 77"),
    ],
)
def test_a_map_that_scenic_cannot_read_is_at_fault(tmp_path: Path, text: str, problem: str) -> None:
    from scenic.domains.driving.roads import Network

    from closedloop_plugin.worlds.bridge.scenic_patches import _network

    file = tmp_path / "town.xodr"
    file.write_text(text)
    with pytest.raises(MapError, match=f"town.xodr: Scenic's OpenDRIVE reader cannot use this map: {problem}") as found:
        _network(Network, file, Network.fromFile.__func__)
    assert (fault_of(found.value), is_certain(found.value)) == (EpisodeFault.MAP, True)
