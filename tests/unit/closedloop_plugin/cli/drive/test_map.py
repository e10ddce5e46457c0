"""`ad2 drive map`: the picture that it writes, and options without routes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from closedloop_plugin.cli.drive import map as map_command
from closedloop_plugin.scenarios.suites import lookup as suites
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.mark.parametrize("name", ["demo", str(suites.DEMO)])
def test_the_map_command_writes_a_picture(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    map_command.register(parser.add_subparsers())
    args = parser.parse_args(["map", "--routes", name, "--out", str(tmp_path), "--route", "101"])
    assert args.func(args) == 0
    assert (tmp_path / "101.png").stat().st_size > 5000
    assert "waypoints within 0.0" in capsys.readouterr().out
    with pytest.raises(Ad2Error, match="--routes FILE or SUITE"):
        map_command.run(map_command.DriveMapOptions(out=tmp_path))
