"""Suites by name and by file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.scenarios.suites.lookup import DEMO, VARIABLE, add_routes, data_home, suite
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home import home


def test_the_demo_routes_are_short_smooth_and_triggered_on_the_way() -> None:
    routes = suite("demo").routes
    assert len(routes) == len({r.scenario for r in routes}) == 6
    for route in routes:
        path = RoutePath(route.points)
        s, d = path.locate(*route.trigger[:2])
        assert 60 <= route.length <= 90
        assert abs(path.curvature).max() < 0.2  # no bend under 5 m radius
        assert 3 < s < 20
        assert abs(d) < 0.5
        assert abs(math.remainder(route.trigger[2] - path.pose(s)[2], math.tau)) < 0.05
    assert {round(math.degrees(RoutePath(r.points).bend(0, r.length))) for r in routes} >= {0, 90, -90}


def test_the_error_for_a_missing_benchmark_file_names_source_and_command() -> None:
    with pytest.raises(Ad2Error, match=r"Thinklab-SJTU/Bench2Drive.*220.xml.*ad2 drive routes") as caught:
        suite("embedded220")
    assert "\n" not in str(caught.value)


def test_the_benchmark_is_found_in_the_home_or_by_the_variable(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = data_dir / "bench2drive/bench2drive220.xml"
    monkeypatch.setenv(VARIABLE, str(file))
    assert len(suite("embedded220").routes) == 220
    monkeypatch.delenv(VARIABLE)
    assert add_routes(file) == data_home() / "routes/bench2drive220.xml"
    assert suite("embedded220").sha256 == suite("bench2drive220", "carla").sha256
    assert suite("embedded220").name == "embedded220"


def test_a_suite_is_refused_under_the_name_of_another_world(data_dir: Path) -> None:
    file = data_dir / "bench2drive/bench2drive220.xml"
    add_routes(file)
    with pytest.raises(Ad2Error, match="in the embedded world use --suite embedded220"):
        suite("bench2drive220")
    with pytest.raises(Ad2Error, match="rename it, or use --suite embedded220"):
        suite(str(file))
    with pytest.raises(Ad2Error, match="use --suite bench2drive220"):
        suite("embedded220", "carla")


def test_a_file_is_a_suite_named_by_its_stem(tmp_path: Path) -> None:
    file = tmp_path / "mine.xml"
    file.write_bytes(DEMO.read_bytes())
    assert (suite(str(file)).name, suite(str(file)).ids) == ("mine", suite("demo").ids)
    add_routes(file, "yours")
    assert suite("yours").name == "yours"
    with pytest.raises(Ad2Error, match=r"no such suite, route file or folder of programs; suites: .*yours"):
        suite("no-such")
    with pytest.raises(Ad2Error, match="built-in"):
        add_routes(file, "demo")
    with pytest.raises(Ad2Error, match="letters"):
        add_routes(file, "../up")


def test_the_data_home_is_that_of_lmms_eval_ad2() -> None:
    assert data_home() == home()
