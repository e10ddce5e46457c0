"""`ad2 drive routes`: add a file, list the suites."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from closedloop_plugin.cli.drive import routes
from closedloop_plugin.cli.drive.selection import check_drivable
from closedloop_plugin.suites.lookup import suite
from lmms_eval_ad2.errors import Ad2Error


def drive(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    routes.register(parser.add_subparsers(required=True))
    args = parser.parse_args([str(w) for w in arguments])
    return int(args.func(args))


def test_routes_are_added_and_listed(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive("routes", "add", data_dir / "bench2drive/bench2drive220.xml")
    assert "220 routes" in (out := capsys.readouterr().out)
    assert "--suite embedded220" in out
    drive("routes", "list")
    assert re.search(r"embedded220 +220 +sha256", capsys.readouterr().out)


def test_the_validation_set_of_bench2drive_is_added_under_its_own_name(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drive("routes", "add", data_dir / "bench2drive/bench2drive_0.0.4_val.xml")
    out = capsys.readouterr().out
    assert "220 routes" in out and "--suite bench2drive_0.0.4_val" in out and "scored" not in out
    found = suite("bench2drive_0.0.4_val")
    assert (found.name, len(found.routes)) == ("bench2drive_0.0.4_val", 220)
    with pytest.raises(Ad2Error, match=r"--name \.hidden: letters"):
        drive("routes", "add", data_dir / "bench2drive/bench2drive_0.0.4_val.xml", "--name", ".hidden")


ROUTE = """<route id="{}" town="Town12"><waypoints><position x="0" y="0" z="0"/><position x="{}" y="0" z="0"/>
</waypoints><scenarios>{}</scenarios></route>"""
CUT_IN = '<scenario name="my_cut_in" type="ParkingCutIn"><trigger_point x="9" y="0" yaw="0" z="0"/></scenario>'


def test_add_says_which_routes_can_only_be_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mixed.xml"
    other = CUT_IN.replace("ParkingCutIn", "CustomObstacle")
    kinds = (("1", 40, CUT_IN), ("2", 40, CUT_IN + CUT_IN), ("3", 40, other), ("4", 400, CUT_IN))
    file.write_bytes(f"<routes>{''.join(ROUTE.format(*kind) for kind in kinds)}</routes>".encode("utf-16"))
    assert drive("routes", "add", file) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2 of them can be driven, 2 only scored" in out
    assert (
        "2 (2 scenarios; to drive it, exactly one is needed), 3 (no program for scenario type 'CustomObstacle')" in out
    )
    assert "1 routes have neighbouring points 50 m or more apart" in out and "4 (400 m after point 1)" in out
    with pytest.raises(Ad2Error, match=r"mixed: route 2 can be scored, but not driven: 2 scenarios.*; select others"):
        check_drivable("mixed", suite("mixed").routes)
    file.write_text(f"<routes>{ROUTE.format('1', 40, '')}</routes>")
    assert drive("routes", "add", file) == 0
    out = capsys.readouterr().out
    assert "can be scored, but not driven" in out and "drive them with" not in out
    drive("routes", "list")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
