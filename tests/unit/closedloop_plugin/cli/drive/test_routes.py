"""`ad2 drive routes`: add a file, list the suites."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from closedloop_plugin.cli.drive import routes
from closedloop_plugin.scenarios.suites.lookup import suite
from lmms_eval_ad2.core.errors import Ad2Error


def drive(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    routes.register(parser.add_subparsers(required=True))
    args = parser.parse_args([str(w) for w in arguments])
    return int(args.func(args))


def test_routes_are_added_and_listed(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive("routes", data_dir / "bench2drive/bench2drive220.xml")
    assert "220 routes" in (out := capsys.readouterr().out)
    assert "--suite embedded220" in out
    drive("routes")
    assert re.search(r"embedded220 +220 +sha256", capsys.readouterr().out)


def test_the_validation_set_of_bench2drive_is_added_under_its_own_name(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drive("routes", data_dir / "bench2drive/bench2drive_0.0.4_val.xml")
    out = capsys.readouterr().out
    assert "220 routes" in out and "--suite embedded220v4" in out and "scored" not in out and "without" not in out
    for name, world in (
        ("bench2drive_0.0.4_val", "embedded"),
        ("embedded220v4", "embedded"),
        ("bench2drive220v4", "carla"),
    ):
        assert (suite(name, world).name, len(suite(name, world).routes)) == (name, 220)
    with pytest.raises(
        Ad2Error, match="bench2drive220v4 is for CARLA; in the embedded world use --suite embedded220v4"
    ):
        suite("bench2drive220v4")
    with pytest.raises(Ad2Error, match=r"--name \.hidden: letters"):
        drive("routes", data_dir / "bench2drive/bench2drive_0.0.4_val.xml", "--name", ".hidden")


ROUTE = """<route id="{}" town="Town12"><waypoints><position x="0" y="0" z="0"/><position x="{}" y="0" z="0"/>
</waypoints><scenarios>{}</scenarios></route>"""
CUT_IN = '<scenario name="my_cut_in" type="ParkingCutIn"><trigger_point x="9" y="0" yaw="0" z="0"/></scenario>'


def test_add_says_which_routes_are_driven_without_a_scenario_and_which_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mixed.xml"
    other = CUT_IN.replace("ParkingCutIn", "CustomObstacle")
    faulty = CUT_IN.replace("<trigger_point", '<distance value="far"/><trigger_point')
    kinds = (
        ("1", 40, CUT_IN), ("2", 40, CUT_IN + CUT_IN), ("3", 40, other), ("4", 400, CUT_IN), ("5", 40, faulty),
        ("6", "east", CUT_IN), ("7", 40, ""),
    )  # fmt: skip
    file.write_bytes(f"<routes>{''.join(ROUTE.format(*kind) for kind in kinds)}</routes>".encode("utf-16"))
    assert drive("routes", file) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "6 routes in " in out and "--suite mixed" in out
    assert "1 routes are left out: 6 (" in out and "field 'position x': expected a number, found 'east'" in out
    assert "5 of them can be driven, 1 only scored" in out and "'distance value': expected a number, found 'far'" in out
    assert (
        "1 route(s) driven without a scenario of theirs, 1 scenario(s) in all (3): no program for scenario type" in out
    )
    assert "1 routes have neighbouring points 50 m or more apart" in out and "4 (400 m after point 1)" in out
    drive("routes")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_a_folder_of_route_files_becomes_one_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "fail2drive"
    folder.mkdir()
    for id_ in ("1", "2"):
        (folder / f"{id_}.xml").write_text(f"<routes>{ROUTE.format(id_, 40, CUT_IN)}</routes>")
    with pytest.raises(Ad2Error, match=r"fail2drive are not here, .* then: ad2 drive routes DIR --name fail2drive$"):
        suite("fail2drive")
    assert drive("routes", folder) == 0
    assert "2 routes in " in capsys.readouterr().out
    assert suite("fail2drive").ids == ["1", "2"]
    with pytest.raises(Ad2Error, match="not the name of a built-in suite"):
        drive("routes", folder, "--name", "embedded220v4")


def test_a_suite_that_is_not_here_names_the_command_that_adds_it() -> None:
    with pytest.raises(Ad2Error, match=r"then: ad2 drive routes bench2drive_0\.0\.4_val\.xml$"):
        suite("embedded220v4")
