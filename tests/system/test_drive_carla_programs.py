"""Programs under `--world carla` with the same commands: a generated threat suite, and a user's program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.carla.fleet import at, drive, fleet, is_idle, records, towns, use_fake_carla

from closedloop_plugin.scoring.official import read_file
from lmms_eval_ad2.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "configs" / "scenarios" / "child_behind_van.scenic"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with fleet(tmp_path_factory.mktemp("servers")) as servers:
        yield servers.start(), servers.start()


@pytest.fixture(autouse=True)
def fake(ports: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_fake_carla(monkeypatch, towns(tmp_path / "towns"))
    yield
    assert all(map(is_idle, ports))


def test_threats_generated_in_the_embedded_world_are_driven_and_checked_in_carla(
    ports: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "threats"  # that of 102 has a low sun's glare, which CARLA cannot show
    options = ["--suite", "demo", "--routes-ids", "104,105", "--agent", "steer-only", "--fuser", "rules"]
    assert main(["threats", "generate", *options, "--no-check", "--out", str(folder)]) == 0
    assert drive(tmp_path / "out", ports, "--suite", folder) == 0
    found = records(tmp_path / "out")
    assert [(r["route_id"], r["world"]["backend"]) for r in found] == [("104", "carla"), ("105", "carla")]
    assert all(r["suite"].startswith("threat demo") for r in found)
    assert all({"act", "base trigger"} <= {name for _, name in r["events"]} for r in found)
    assert {r["world"]["standard"] for r in found} == {"kept"}
    assert len(read_file(tmp_path / "out" / "results.json")[0]) == 2
    capsys.readouterr()
    words = ["--world", "carla", "--servers", at(*ports), "--workers", "2", "--config", "others=1", "--json"]
    assert main(["threats", "check", str(folder), *words]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert {name: (v["compiles"], v["runs"], v["acts"], v["passed"]) for name, v in verdicts.items()} == {
        "104": (True,) * 4,
        "105": (True,) * 4,
    }
    drives = [json.loads(line) for line in (folder / "check" / "episodes.jsonl").read_text().splitlines()]
    assert {r["world"]["backend"] for r in drives} == {"carla"}


def test_an_example_program_is_driven_with_fixed_parameters(ports: tuple[int, int], tmp_path: Path) -> None:
    fixed = ("--set", "pace=2", "--set", "due=1.8")
    assert drive(tmp_path / "out", ports[:1], "--scenario", EXAMPLE, *fixed, "--agent", "steer-only") == 0
    (record,) = records(tmp_path / "out")
    assert {"pace": 2, "due": 1.8}.items() <= record["drawn"].items()
    assert (record["world"]["backend"], record["town"]) == ("carla", "Demo106")
    assert record["infractions"]["collisions_pedestrian"]
    assert 10 <= record["weather"]["fog_density"] <= 40
