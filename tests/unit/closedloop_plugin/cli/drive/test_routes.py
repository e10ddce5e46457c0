"""`ad2 drive routes`: add a file, list the suites."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from closedloop_plugin.cli.drive import routes


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
