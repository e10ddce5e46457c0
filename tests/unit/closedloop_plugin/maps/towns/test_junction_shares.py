"""Shares of routes up to their first junction, and what has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.closedloop.crossing_town import crossing_town, route_along

from closedloop_plugin.maps.towns.junction_shares import first_junction_share, junction_shares
from lmms_eval_ad2.core.errors import Ad2Error


def test_the_share_counts_the_first_waypoint_in_a_junction_and_eight_more() -> None:
    assert first_junction_share(np.array([False, False, True] + [False] * 17)) == (3 + 8) / 20
    assert first_junction_share(np.array([False, True])) == 5.0  # near its end: cannot be passed
    assert first_junction_share(np.zeros(4, dtype=bool)) is None


def test_routes_without_a_share_are_named_with_their_town_or_reason(tmp_path: Path) -> None:
    file = crossing_town(tmp_path / "Town99.xodr")
    routes = [
        route_along([10.2, 12.2, 44.2], id_="1"),
        route_along([4.0, 6.0], id_="2"),
        route_along([44.0, 42.0], id_="3"),  # against the lane
        route_along([4.0, 6.0], id_="4", name="Town12"),
        route_along([4.0, 6.0], id_="5", name="Town12"),
    ]
    found = junction_shares(routes, {"Town99": file})
    assert found.share == {"1": (21 + 8) / 35}
    assert found.without_map == {"Town12": ("4", "5")}
    assert found.unknown.keys() == {"2", "3"}
    assert "route 2 crosses no junction" in found.unknown["2"]
    assert "lies on no lane" in found.unknown["3"]


def test_a_file_that_is_no_map_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.xodr").write_text("hello")
    with pytest.raises(Ad2Error, match="not an OpenDRIVE file") as caught:
        junction_shares([route_along([4.0, 6.0])], {"Town99": tmp_path / "x.xodr"})
    assert str(tmp_path / "x.xodr") in str(caught.value)
