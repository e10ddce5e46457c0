"""Selection of towns for a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.runs import SUITE

from closedloop_plugin.cli.drive.selection import towns_of
from lmms_eval_ad2.core.errors import Ad2Error


def test_the_towns_of_a_run_are_those_of_its_suite_not_of_the_selected_routes(tmp_path: Path) -> None:
    routes = [replace(SUITE.routes[0], town=town) for town in ("TownA", "TownB", "TownC")]
    for town in "AB":
        (tmp_path / f"Town{town}.xodr").touch()
    both = [list(towns_of(tmp_path, routes, selected)) for selected in (routes[:1], routes)]
    assert both == [["TownA", "TownB"]] * 2
    with pytest.raises(Ad2Error, match=r"expected TownC\.xodr"):
        towns_of(tmp_path, routes, routes[2:])


@pytest.mark.parametrize("town", ["../Town", "a/../../Town", "{}/Town"])
def test_the_name_of_a_town_does_not_lead_out_of_the_folder(town: str, tmp_path: Path) -> None:
    (tmp_path / "Town.xodr").touch()
    (tmp_path / "maps" / "a").mkdir(parents=True)
    routes = [replace(SUITE.routes[0], town=town.format(tmp_path))]
    with pytest.raises(Ad2Error, match="no map of these routes' towns"):
        towns_of(tmp_path / "maps", routes, routes)
