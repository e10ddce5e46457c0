"""The part of a town around a route: whole in itself, and the same road for the route."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.carla.maps.lanes import CarlaLanes
from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.lanes import read_town
from closedloop_plugin.maps.towns.town_road import town_road
from lmms_eval_ad2.errors import Ad2Error

pytestmark = pytest.mark.integration

TOWNS = ("Town01", "Town02", "Town10HD")


@pytest.fixture(scope="module")
def whole(request: pytest.FixtureRequest) -> dict[str, bytes]:
    folder: Path = request.getfixturevalue("data_dir") / "opendrive"
    return {t: (folder / f"{t}.xodr").read_bytes() for t in TOWNS}


@pytest.fixture(scope="module")
def routes(request: pytest.FixtureRequest) -> list[Route]:
    data: Path = request.getfixturevalue("data_dir")
    return [r for r in read_routes(data / "bench2drive" / "bench2drive220.xml") if r.town in TOWNS]


def dangling(root: ET.Element) -> list[str]:
    """Whatever is named in the document and not in it."""
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


def test_the_towns_themselves_are_whole(whole: dict[str, bytes]) -> None:
    """Else the next test would prove nothing."""
    for data in whole.values():
        assert dangling(ET.fromstring(data)) == []
    root = ET.fromstring(whole["Town01"])
    root.remove(root.findall("road")[3])
    assert dangling(root)


@settings(max_examples=examples(12), deadline=None)
@given(st.sampled_from(TOWNS[:2]), st.floats(0, 1), st.floats(1, 250))
def test_a_part_is_whole_in_itself(whole: dict[str, bytes], town: str, where: float, within: float) -> None:
    root = ET.fromstring(whole[town])
    geometry = root.findall("road/planView/geometry")
    g = geometry[round(where * (len(geometry) - 1))]
    part = ET.fromstring(cut_out(whole[town], np.array([[float(g.get("x", "")), float(g.get("y", ""))]]), within))
    assert dangling(part) == []
    ids = {r.get("id") for r in part.iterfind("road")}
    assert ids <= {r.get("id") for r in root.iterfind("road")}
    for junction in part.iterfind("junction"):  # whole ones
        of = [r.get("id") for r in root.iterfind("road") if r.get("junction") == junction.get("id")]
        assert ids >= set(of)


def test_what_is_kept_is_kept_as_it_was(whole: dict[str, bytes]) -> None:
    root = ET.fromstring(whole["Town10HD"])
    part = ET.fromstring(cut_out(whole["Town10HD"], np.array([[57.0, -28.0]]), 5.0))
    assert len(part.findall("road")) < len(root.findall("road"))
    assert ET.tostring(part[0]) == ET.tostring(root[0])  # header and geoReference
    old = {r.get("id"): r for r in root.iterfind("road")}
    same = 0
    for road in part.iterfind("road"):
        for name in ("planView", "elevationProfile", "objects"):
            mine, was = road.find(name), old[road.get("id")].find(name)
            assert (mine is None) == (was is None)
            assert mine is None or was is None or ET.tostring(mine) == ET.tostring(was)
        same += ET.tostring(road) == ET.tostring(old[road.get("id")])
    assert same > 5


def test_lanes_end_where_their_neighbour_is_gone(whole: dict[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "part.xodr"
    file.write_bytes(cut_out(whole["Town01"], np.array([[335.0, -195.0]]), 10.0))
    part = read_town(file)
    (tmp_path / "all.xodr").write_bytes(whole["Town01"])
    town = read_town(tmp_path / "all.xodr")
    assert set(part.lanes) < set(town.lanes)
    gone = 0
    for lane in part.drivable():
        key = lane.key
        assert lane.after == [k for k in town.lanes[key].after if k in part.lanes]
        gone += len(town.lanes[key].after) - len(lane.after)
    assert gone


@pytest.mark.parametrize("town", TOWNS)
def test_carla_finds_no_way_that_is_not_the_towns(whole: dict[str, bytes], routes: list[Route], town: str) -> None:
    """A road without a link leads, for CARLA, to road 0 where there is one, unless its lanes say nothing either."""
    carla = pytest.importorskip("carla")
    all_ = CarlaLanes(carla.Map(town, whole[town].decode()))
    for route in [r for r in routes if r.town == town]:
        part = CarlaLanes(carla.Map(town, cut_out(whole[town], np.array(route.points), 20.0).decode()))
        assert set(part.entries) < set(all_.entries)
        for key in part.entries:
            assert set(part.after[key]) == set(all_.after[key]) & set(part.entries), (route.id, key)


def test_the_whole_town_within_reach_is_the_whole_town(whole: dict[str, bytes]) -> None:
    data = whole["Town02"]
    part = ET.fromstring(cut_out(data, np.array([[90.0, -200.0]]), 1e4))
    assert ET.canonicalize(ET.tostring(part)) == ET.canonicalize(ET.tostring(ET.fromstring(data)))


@pytest.mark.parametrize("town", TOWNS)
def test_routes_trace_on_their_part_as_on_the_whole(
    whole: dict[str, bytes], routes: list[Route], tmp_path: Path, town: str
) -> None:
    for route in [r for r in routes if r.town == town]:
        made = []
        for name, data in (("whole", whole[town]), ("part", cut_out(whole[town], np.array(route.points)))):
            file = tmp_path / f"{town}-{name}.xodr"
            file.write_bytes(data)
            made.append(town_road(route, file, tmp_path / "maps"))
        assert np.array_equal(made[0].path.xy, made[1].path.xy), route.id
        assert (made[0].junctions, made[0].facts) == (made[1].junctions, made[1].facts)


@pytest.mark.parametrize("id_", ["28035", "28048", "28154"])
def test_scenic_reads_a_part(whole: dict[str, bytes], routes: list[Route], tmp_path: Path, id_: str) -> None:
    """The turns at junctions of the three towns: the route and the flows of that junction lie on Scenic's road."""
    shapely = pytest.importorskip("shapely")
    roads = pytest.importorskip("scenic.domains.driving.roads")
    route = next(r for r in routes if r.id == id_)
    file = tmp_path / "part.xodr"
    file.write_bytes(cut_out(whole[route.town], np.array(route.points), 60.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = roads.Network.fromFile(file, useCache=False, writeCache=False)
    road = town_road(route, file, tmp_path / "maps")
    ground = shapely.union_all([network.drivableRegion.polygons, network.intersectionRegion.polygons]).buffer(0.05)
    for line in (road.path.xy, *map(np.array, road.facts["flows"].values())):
        assert shapely.contains_xy(ground, *line.T).all()


def test_what_is_no_map_is_named(whole: dict[str, bytes]) -> None:
    with pytest.raises(Ad2Error, match="not an OpenDRIVE file"):
        cut_out(b"<OpenDRIVE>", np.zeros((1, 2)))
    with pytest.raises(Ad2Error, match="no road within 150 m of the route: it is another town's"):
        cut_out(whole["Town01"], np.array([[1e5, 0.0]]))
    broken = whole["Town01"].replace(b' x="', b' x="n', 1)
    with pytest.raises(Ad2Error, match="road that cannot be read"):
        cut_out(broken, np.zeros((1, 2)))
