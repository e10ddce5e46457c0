"""The part of a town around a route: self-contained, and the same road for the route."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.lanes import read_town
from closedloop_plugin.maps.towns.town_road import town_road
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

TOWNS = ("Town01", "Town02", "Town10HD")


@pytest.fixture(scope="module")
def towns(request: pytest.FixtureRequest) -> dict[str, bytes]:
    folder: Path = request.getfixturevalue("data_dir") / "opendrive"
    return {t: (folder / f"{t}.xodr").read_bytes() for t in TOWNS}


@pytest.fixture(scope="module")
def routes(request: pytest.FixtureRequest) -> list[Route]:
    data: Path = request.getfixturevalue("data_dir")
    return [r for r in read_routes(data / "bench2drive" / "bench2drive220.xml") if r.town in TOWNS]


def dangling(root: ET.Element) -> list[str]:
    """References to elements that the document lacks."""
    roads = {r.get("id") for r in root.iterfind("road")}
    junctions = {j.get("id") for j in root.iterfind("junction")}
    signals = {s.get("id") for s in root.iter("signal")}
    controllers = {c.get("id") for c in root.iterfind("controller")}
    missing = [
        f"junction of road {r.get('id')}" for r in root.iterfind("road") if r.get("junction") not in {*junctions, "-1"}
    ]
    for end in root.iterfind("road/link/*"):
        known = junctions if end.get("elementType") == "junction" else roads
        missing += [f"link to {end.get('elementId')}"] if end.get("elementId") not in known else []
    for c in root.iterfind("junction/connection"):
        missing += [f"connection {n}" for n in (c.get("incomingRoad"), c.get("connectingRoad")) if n not in roads]
    missing += [f"signal {s.get('id')}" for s in root.iter("signalReference") if s.get("id") not in signals]
    missing += [f"controlled {c.get('signalId')}" for c in root.iter("control") if c.get("signalId") not in signals]
    missing += [
        f"controller {c.get('id')}" for c in root.iterfind("junction/controller") if c.get("id") not in controllers
    ]
    return missing


def test_complete_towns_have_no_dangling_references(towns: dict[str, bytes]) -> None:
    """Otherwise the next test would prove nothing."""
    for data in towns.values():
        assert dangling(ET.fromstring(data)) == []
    root = ET.fromstring(towns["Town01"])
    root.remove(root.findall("road")[3])
    assert dangling(root)


@settings(max_examples=examples(12), deadline=None)
@given(st.sampled_from(TOWNS[:2]), st.floats(0, 1), st.floats(1, 250))
def test_a_part_has_no_dangling_references_and_complete_junctions(
    towns: dict[str, bytes], town: str, where: float, within: float
) -> None:
    root = ET.fromstring(towns[town])
    geometry = root.findall("road/planView/geometry")
    g = geometry[round(where * (len(geometry) - 1))]
    part = ET.fromstring(cut_out(towns[town], np.array([[float(g.get("x", "")), float(g.get("y", ""))]]), within))
    assert dangling(part) == []
    ids = {r.get("id") for r in part.iterfind("road")}
    assert ids <= {r.get("id") for r in root.iterfind("road")}
    for junction in part.iterfind("junction"):  # junctions are complete
        complete = [r.get("id") for r in root.iterfind("road") if r.get("junction") == junction.get("id")]
        assert ids >= set(complete)


def test_kept_elements_are_unchanged(towns: dict[str, bytes]) -> None:
    root = ET.fromstring(towns["Town10HD"])
    part = ET.fromstring(cut_out(towns["Town10HD"], np.array([[57.0, -28.0]]), 5.0))
    assert len(part.findall("road")) < len(root.findall("road"))
    assert ET.tostring(part[0]) == ET.tostring(root[0])  # header and geoReference
    old = {r.get("id"): r for r in root.iterfind("road")}
    same = 0
    for road in part.iterfind("road"):
        for name in ("planView", "elevationProfile", "objects"):
            kept, original = road.find(name), old[road.get("id")].find(name)
            assert (kept is None) == (original is None)
            assert kept is None or original is None or ET.tostring(kept) == ET.tostring(original)
        same += ET.tostring(road) == ET.tostring(old[road.get("id")])
    assert same > 5


def test_links_to_removed_lanes_are_dropped(towns: dict[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "part.xodr"
    file.write_bytes(cut_out(towns["Town01"], np.array([[335.0, -195.0]]), 10.0))
    part = read_town(file)
    (tmp_path / "all.xodr").write_bytes(towns["Town01"])
    town = read_town(tmp_path / "all.xodr")
    assert set(part.lanes) < set(town.lanes)
    removed = 0
    for lane in part.drivable():
        key = lane.key
        assert lane.after == [k for k in town.lanes[key].after if k in part.lanes]
        removed += len(town.lanes[key].after) - len(lane.after)
    assert removed


def test_a_cutout_larger_than_the_town_is_the_complete_town(towns: dict[str, bytes]) -> None:
    data = towns["Town02"]
    part = ET.fromstring(cut_out(data, np.array([[90.0, -200.0]]), 1e4))
    assert ET.canonicalize(ET.tostring(part)) == ET.canonicalize(ET.tostring(ET.fromstring(data)))


@pytest.mark.parametrize("town", TOWNS)
def test_routes_are_traced_identically_on_a_part_and_on_the_complete_town(
    towns: dict[str, bytes], routes: list[Route], tmp_path: Path, town: str
) -> None:
    for route in [r for r in routes if r.town == town]:
        roads = []
        for name, data in (("whole", towns[town]), ("part", cut_out(towns[town], np.array(route.points)))):
            file = tmp_path / f"{town}-{name}.xodr"
            file.write_bytes(data)
            roads.append(town_road(route, file, tmp_path / "maps"))
        assert np.array_equal(roads[0].path.xy, roads[1].path.xy), route.id
        assert (roads[0].junctions, roads[0].facts) == (roads[1].junctions, roads[1].facts)


@pytest.mark.parametrize("id_", ["28035", "28048", "28154"])
def test_scenic_reads_a_part(towns: dict[str, bytes], routes: list[Route], tmp_path: Path, id_: str) -> None:
    """The turns at junctions of the three towns: the route and the flows of that junction lie on Scenic's road."""
    shapely = pytest.importorskip("shapely")
    roads = pytest.importorskip("scenic.domains.driving.roads")
    route = next(r for r in routes if r.id == id_)
    file = tmp_path / "part.xodr"
    file.write_bytes(cut_out(towns[route.town], np.array(route.points), 60.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = roads.Network.fromFile(file, useCache=False, writeCache=False)
    road = town_road(route, file, tmp_path / "maps")
    ground = shapely.union_all([network.drivableRegion.polygons, network.intersectionRegion.polygons]).buffer(0.05)
    for line in (road.path.xy, *map(np.array, road.facts["flows"].values())):
        assert shapely.contains_xy(ground, *line.T).all()


def test_invalid_maps_are_refused(towns: dict[str, bytes]) -> None:
    with pytest.raises(Ad2Error, match="not an OpenDRIVE file"):
        cut_out(b"<OpenDRIVE>", np.zeros((1, 2)))
    with pytest.raises(Ad2Error, match="no road within 150 m of the route: it is another town's"):
        cut_out(towns["Town01"], np.array([[1e5, 0.0]]))
    broken = towns["Town01"].replace(b' x="', b' x="n', 1)
    with pytest.raises(Ad2Error, match="road that cannot be read"):
        cut_out(broken, np.zeros((1, 2)))
