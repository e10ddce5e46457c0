"""Route files: real data and invalid fields."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import read_route_file, read_routes, select, wide_gaps
from lmms_eval_ad2.core.errors import Ad2Error

GOOD = """<routes><route id="7" town="Town12"><waypoints><position x="1" y="2" z="0"/><position x="1" y="2" z="0"/>
<position x="3" y="2" z="0"/></waypoints><scenarios><scenario name="S_1" type="ParkingCutIn">
<direction value="left"/><distance value="41"/><frequency from="30" to="90"/><end_actor_flow x="1" y="5" z="0"/>
<trigger_point x="2" y="2" yaw="90" z="0"/></scenario></scenarios>
<weathers><weather route_percentage="0" cloudiness="60" sun_altitude_angle="-30"/></weathers></route></routes>"""


def test_a_route_is_read(tmp_path: Path) -> None:
    file = tmp_path / "r.xml"
    file.write_text(GOOD)
    (route,) = read_routes(file)
    assert route.points == ((1, -2), (3, -2)), "y turned, the doubled point dropped"
    assert route.trigger == (2, -2, pytest.approx(-math.pi / 2))
    assert route.params == {"direction": "left", "distance": 41.0, "frequency": (30, 90), "end_actor_flow": (1, -5, 0)}
    assert (route.weather.cloudiness, route.weather.sun_altitude_angle, route.suite) == (60, -30, "r")
    with pytest.raises(Ad2Error, match="no such route: 8"):
        select([route], ["8"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('x="3"', 'x="3_0"', "'position x': expected a number, found '3_0'"),
        ('x="3"', 'x="\u0663"', "'position x': expected a number"),
        ('x="3"', 'x="east"', r"route 7: field 'position x': expected a number, found 'east'"),
        ('x="3"', 'x="nan"', "finite"),
        ('town="Town12"', "", "field 'town'"),
        ("<routes>", "<roots>", "not an XML route file"),
        ("<routes>", '<?xml version="1.0" encoding="utf-7"?><routes>', "not an XML route file: multi-byte encodings"),
        ("<routes>", '<?xml version="1.0" encoding="klingon"?><routes>', "not an XML route file: unknown encoding"),
        ('x="3"', 'x="1e7"', r"'position x': expected -1,000,000 to 1,000,000, found '1e7'"),
        ('x="3"', 'x="200000"', "'waypoints': expected a route of up to 100 km, found '199999 m'"),
        ('cloudiness="60"', 'cloudiness="thick"', "weather cloudiness"),
    ],
)
def test_an_invalid_field_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = tmp_path / "r.xml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(Ad2Error, match=says) as caught:
        read_routes(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('<direction value="left"/>', "<direction/>", "field 'direction'"),
        ('<direction value="left"/>', '<direction value="rigth"/>', "'direction': expected left or right or opposite"),
        ('<distance value="41"/>', '<distance value="far"/>', "'distance value': expected a number, found 'far'"),
        ('<end_actor_flow x="1"', '<end_actor_flow x="1e9"', "'end_actor_flow x': expected -1,000,000 to"),
        ('from="30" to="90"', 'from="30" to="x"', "'frequency to'"),
        ('<trigger_point x="2" y="2" yaw="90" z="0"/>', "", "trigger_point"),
    ],
)
def test_a_scenario_that_cannot_be_read_is_kept_with_the_reason(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = tmp_path / "r.xml"
    file.write_text(GOOD.replace(old, new))
    (route,) = read_routes(file)
    (scenario,) = route.scenarios
    assert says in scenario.fault and str(file) in scenario.fault
    assert (route.scenario, route.params, route.trigger) == ("ParkingCutIn", {}, (1, -2, 0))
    assert route.triggers == ()


def test_attribute_lists_are_kept_as_data(tmp_path: Path) -> None:
    lists = (
        '<objects a="id=static.prop.x x=0" b="id=y"/><pedestrians value="3"/><gap from="a few" to="many"/><sign/>'
        '<walker value="walker.pedestrian.0014"/><direction'
    )
    (tmp_path / "r.xml").write_text(GOOD.replace("<direction", lists, 1).replace('<gap from="a few"', '<gap a="few"'))
    (route,) = read_routes(tmp_path / "r.xml")
    assert route.params["objects"] == {"a": "id=static.prop.x x=0", "b": "id=y"}
    assert (route.params["pedestrians"], route.params["sign"]) == (3.0, {})
    assert (route.params["gap"], route.params["walker"]) == ({"a": "few", "to": "many"}, "walker.pedestrian.0014")
    assert route.scenarios[0].fault == ""


def test_a_route_with_several_scenarios_has_them_all_and_none_as_its_own(tmp_path: Path) -> None:
    second = '<scenario type="Accident"><trigger_point x="3" y="2" yaw="0" z="0"/><distance value="9"/></scenario>'
    (tmp_path / "r.xml").write_text(GOOD.replace("</scenarios>", f"{second}</scenarios>"))
    (route,) = read_routes(tmp_path / "r.xml")
    assert [(one.kind, one.name) for one in route.scenarios] == [("ParkingCutIn", "S_1"), ("Accident", "Accident")]
    assert route.scenarios[1].params == {"distance": 9.0}
    assert route.triggers == ((2, -2, pytest.approx(-math.pi / 2)), (3, -2, 0))
    assert (route.scenario, route.scenario_name, route.params, route.trigger) == ("", "", {}, (1, -2, 0))


def test_a_bad_route_is_left_out_by_name_and_the_others_are_read(tmp_path: Path) -> None:
    one = GOOD.removeprefix("<routes>").removesuffix("</routes>")
    bad = (
        one.replace('id="7"', 'id="8"').replace('x="3"', 'x="east"'),
        one.replace(' id="7"', ""),
        one.replace('id="7"', 'id="9"').replace('cloudiness="60"', 'cloudiness="thick"'),
        one.replace('id="7"', 'id="8"').replace('<position x="3" y="2" z="0"/>', ""),
    )
    (tmp_path / "r.xml").write_text(f"<routes>{bad[0]}{one}{''.join(bad[1:])}</routes>")
    found = read_route_file(tmp_path / "r.xml")
    assert [route.id for route in found.routes] == ["7"]
    assert {name: reason.split(": ", 1)[1] for name, reason in found.left_out.items()} == {
        "8": "field 'position x': expected a number, found 'east'",
        "number 3 of r.xml": "field 'id': expected a value",
        "9": "field 'weather cloudiness': expected a number, found 'thick'",
        "8 (2)": "field 'waypoints': expected two to 60,000 positions, found 1",
    }


def test_of_a_list_of_weathers_the_one_at_the_start_holds(tmp_path: Path) -> None:
    listed = '<weather route_percentage="100" cloudiness="5"/><weather route_percentage="0"'
    (tmp_path / "r.xml").write_text(GOOD.replace('<weather route_percentage="0"', listed))
    assert read_routes(tmp_path / "r.xml")[0].weather.cloudiness == 60
    nested = GOOD.replace("<weathers>", "<weathers><weathers>").replace("</weathers>", "</weathers></weathers>")
    for text in (nested, GOOD.replace("<weathers>", "").replace("</weathers>", "")):  # the latter: leaderboard 1
        (tmp_path / "r.xml").write_text(text)
        assert read_routes(tmp_path / "r.xml")[0].weather.cloudiness == 60


def test_a_route_of_too_many_points_is_refused(tmp_path: Path) -> None:
    points = "".join(f'<position x="{i % 2}" y="2" z="0"/>' for i in range(60_001))
    (tmp_path / "r.xml").write_text(GOOD.replace("</waypoints>", f"{points}</waypoints>"))
    with pytest.raises(Ad2Error, match="expected two to 60,000 positions"):
        read_routes(tmp_path / "r.xml")


def test_routes_of_leaderboard_1_have_points_and_no_scenario(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(
        '<routes><route id="0" town="Town01"><waypoint x="0" y="0" yaw="90"/><waypoint x="0" y="60" yaw="90"/></route>'
        "</routes>"
    )
    (route,) = read_routes(tmp_path / "r.xml")
    assert (route.points, route.scenarios, route.trigger) == (
        ((0, 0), (0, -60)),
        (),
        (0, 0, pytest.approx(-math.pi / 2)),
    )
    assert wide_gaps([route]) == {"0": (1, 60.0)}


def test_repeated_ids_are_refused_with_the_way_out(tmp_path: Path) -> None:
    one = GOOD.removeprefix("<routes>").removesuffix("</routes>")
    (tmp_path / "r.xml").write_text(f"<routes>{one}{one}</routes>")
    with pytest.raises(
        Ad2Error, match=r"route 7: field 'id': expected an id for each route, .*: number them, or split"
    ):
        read_routes(tmp_path / "r.xml")
    (tmp_path / "r.xml").write_text(GOOD)
    (tmp_path / "s.xml").write_text(GOOD.replace('id="7"', 'id="8"'))
    assert [route.id for route in read_routes(tmp_path)] == ["7", "8"], "a folder of route files"
    (tmp_path / "s.xml").write_text(GOOD)
    with pytest.raises(Ad2Error, match="found '2 routes with it'"):
        read_routes(tmp_path)


@pytest.mark.parametrize("second", ["", "bad"])
def test_routes_that_share_an_id_are_left_out_by_name_and_the_others_load(tmp_path: Path, second: str) -> None:
    one = GOOD.removeprefix("<routes>").removesuffix("</routes>")
    again = one.replace('x="3"', 'x="east"') if second else one
    (tmp_path / "r.xml").write_text(f"<routes>{one}{again}{one.replace('7', '8', 1)}</routes>")
    found = read_route_file(tmp_path / "r.xml")
    assert [route.id for route in found.routes] == ["8"] and list(found.left_out) == ["7", "7 (2)"]
    assert sum("2 routes with it" in reason for reason in found.left_out.values()) == (1 if second else 2)


def test_a_file_of_more_than_32_mib_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "r.xml"
    with file.open("wb") as handle:
        handle.truncate((32 << 20) + 1)
    with pytest.raises(Ad2Error, match=r"r\.xml: more than 32 MiB"):
        read_routes(file)


@pytest.mark.parametrize(("folder", "n_single"), [("fail2drive", 159), ("longest6", 0)])
def test_routes_of_other_benchmarks_are_read(data_dir: Path, folder: str, n_single: int) -> None:
    if not (data_dir / "routes" / folder).is_dir():
        pytest.skip("no such routes here")
    routes = read_routes(data_dir / "routes" / folder)
    assert len(routes) == {"fail2drive": 200, "longest6": 36}[folder]
    assert sum(len(route.scenarios) == 1 for route in routes) == n_single


@pytest.mark.parametrize(
    "id", ["../../../escaped", "/etc/x", ".", "..", ".hidden", "a/b", "a b", "a:b", "7\u00e9", "x" * 81]
)
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, id: str) -> None:
    file = tmp_path / "r.xml"
    file.write_text(GOOD.replace('id="7"', f'id="{id}"'), "utf-8")
    with pytest.raises(Ad2Error, match="field 'route id': expected 1 to 80 letters") as caught:
        read_routes(file)
    assert str(file) in str(caught.value) and repr(id) in str(caught.value)


@pytest.mark.parametrize("id", ["7", "Town12_3.b-c", "_x", "x" * 80])
def test_an_id_that_is_a_file_name_is_kept(tmp_path: Path, id: str) -> None:
    file = tmp_path / "r.xml"
    file.write_text(GOOD.replace('id="7"', f'id="{id}"'))
    assert read_routes(file)[0].id == id


def test_the_220_routes_of_bench2drive(data_dir: Path) -> None:
    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")
    kinds = Counter(r.scenario for r in routes)
    assert (len(routes), len(kinds), set(kinds.values())) == (220, 44, {5})
    assert sum(r.length for r in routes) / 220 == pytest.approx(105, abs=1)
    assert Counter(r.town for r in routes)["Town12"] == 104
