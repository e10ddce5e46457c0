"""`ad2 drive run --world carla` on the command line, over working fake servers in separate processes."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_carla.server import state_of
from support.carla.fleet import Fleet, at, comparable, drive, fleet, is_idle, records, towns, use_fake_carla

from closedloop_plugin.scoring.official import read_file
from closedloop_plugin.worlds.recipes import workers_for, world_recipe
from lmms_eval_ad2.cli.main import main

IDS = ("101", "102", "105")


@dataclass(frozen=True)
class FinishedRun:
    """A run of three routes over two servers."""

    out: Path
    output: str
    ports: tuple[int, int]
    ticks: tuple[int, int]
    fleet: Fleet
    maps: Path


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    folder = tmp_path_factory.mktemp("drove")
    maps = towns(tmp_path_factory.mktemp("towns"))
    with fleet(folder / "servers") as servers:
        ports = servers.start(), servers.start()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
            use_fake_carla(patch, maps)
            patch.setenv("AD2_HOME", str(folder / "home"))
            assert drive(folder / "out", ports, "--routes-ids", ",".join(IDS)) == 0
        ticks = state_of(ports[0])["ticks"], state_of(ports[1])["ticks"]
        yield FinishedRun(folder / "out", output.getvalue(), ports, ticks, servers, maps)


@pytest.fixture(autouse=True)
def fake(finished_run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_carla(monkeypatch, finished_run.maps)


def test_two_servers_share_a_suite_and_are_restored(finished_run: FinishedRun) -> None:
    assert min(finished_run.ticks) > 0
    assert [is_idle(port) for port in finished_run.ports] == [True, True]
    found = records(finished_run.out)
    assert [(r["route_id"], r["repetition"], r["end"]) for r in found] == [(i, 0, "completed") for i in IDS]
    for record in found:
        assert record["world"]["backend"] == "carla"
        assert record["world"]["version"].startswith("CARLA 0.9.16 (scenic ")
        assert record["map"]["source"] == "town"
        assert "retries" not in record["counts"]
    assert "Suite demo in the carla world" in finished_run.output


def test_the_official_file_is_written_and_can_be_scored(
    finished_run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    official, lost = read_file(finished_run.out / "results.json")
    assert (len(official), lost) == (3, 0)
    written = json.loads((finished_run.out / "results.json").read_text())
    assert written["eval num"] == 3
    assert "carla" in json.dumps(written["ad2"]["origin"])
    assert main(["drive", "score", str(finished_run.out / "results.json"), "--routes", "demo"]) == 0
    assert "Driving Score" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_scores_on_one_server(finished_run: FinishedRun, tmp_path: Path) -> None:
    assert drive(tmp_path / "one", finished_run.ports[:1], "--routes-ids", "102") == 0
    assert list(map(comparable, records(tmp_path / "one"))) == [comparable(records(finished_run.out)[1])]


def test_the_same_command_skips_recorded_episodes(
    finished_run: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(finished_run.out, tmp_path / "out")
    before = state_of(finished_run.ports[0])["ticks"]
    assert drive(out, finished_run.ports[:1], "--routes-ids", ",".join(IDS)) == 0
    assert "3 of 3 episodes are there already" in capsys.readouterr().out
    assert (state_of(finished_run.ports[0])["ticks"], len(records(out))) == (before, 3)


def test_unreachable_servers_are_one_error_and_recorded_episodes_are_kept(
    finished_run: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, dead = shutil.copytree(finished_run.out, tmp_path / "out"), (1, 11)
    assert drive(out, dead, "--routes-ids", "101,103,106", "--config", "server_wait=0.5") == 3
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    for port in dead:
        assert f"127.0.0.1:{port} is given up: the world does not start (2 tries)" in error
    assert "no CARLA server answers (ad2 carla up)" in error
    assert records(out) == records(finished_run.out)


def test_another_version_is_refused_unless_any_version_is_given(
    finished_run: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With it, a program is driven on the user's own map, which the server does not have."""
    old = finished_run.fleet.start("--version", "0.9.15")
    program, own = tmp_path / "own.scenic", tmp_path / "mine.xodr"
    program.write_text("model scenic.domains.driving.model\nego = new Car\nterminate after 1 seconds\n")
    shutil.copy(finished_run.maps / "Demo105.xodr", own)
    words = ("--scenario", program, "--map", own)
    assert drive(tmp_path / "out", (old,), *words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: 127.0.0.1:{old}: the CARLA server is 0.9.15, the client package here 0.9.16")
    assert "ad2 carla up" in error and "--config any_version=true" in error
    assert drive(tmp_path / "out", (old,), *words, "--config", "any_version=true") == 0
    (record,) = records(tmp_path / "out")
    assert record["world"]["version"].startswith("CARLA 0.9.15, client 0.9.16 (scenic ")
    assert (record["town"], record["map"]["source"], record["end"]) == ("mine", "town", "completed")
    state = state_of(old)
    assert (state["town"], state["opendrive"]) == ("OpenDriveMap", own.read_text())
    assert is_idle(old)


def test_a_town_missing_on_the_server_is_reported_in_one_line_with_the_available_towns(
    finished_run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_CARLA_MAPS", str(tmp_path))
    shutil.copy(finished_run.maps / "Demo105.xodr", tmp_path)
    assert drive(tmp_path / "out", finished_run.ports, "--routes-ids", "101") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "the server has no map Demo101; it has Demo105" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--servers", "h:2000", "--world", "embedded"],
            "--servers, --config server_wait and --config any_version belong to --wor",
        ),
        (["--config", "server_wait=9", "--world", "embedded"], "belong to --world carla; the world here is embedded"),
        (["--config", "any_version=true", "--world", "embedded"], "belong to --world carla"),
        (["--servers", "h:2000,h:2002"], "--servers h:2000,h:2002: ports 2000 and 2002 are too close"),
        (
            ["--servers", "h:2000,h:2010", "--workers", "3"],
            "--workers 3: a CARLA server runs one world at a time; --servers names 2",
        ),
        (["--servers", "h"], "--servers h: expected host:port, such as localhost:2000"),
        (["--servers", "h:99999"], "--servers h:99999: expected host:port"),
        (["--servers", ","], "--servers ',': expected host:port with commas between"),
        (["--config", "server_wait=0"], "--config server_wait=0: a number of seconds, above 0"),
        (["--config", "server_wait=nan"], "--config server_wait=nan: a number of seconds"),
        (["--suite", "embedded220"], "with --world carla use --suite bench2drive220"),
        (["--world", "carlo"], "world carlo: known: embedded, carla, or a custom one as MODULE:CALLABLE"),
    ],
)
def test_a_mistake_is_reported_in_one_line_and_leaves_no_folder(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = ["--suite", "demo", "--agent", "expert", "--world", "carla"]
    assert main(["drive", "run", *known, "--out", str(tmp_path / "out"), *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error
    assert not (tmp_path / "out").exists()


def test_a_missing_carla_package_is_reported_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "carla", None)
    assert drive(tmp_path / "out", (2000,)) == 2
    error = capsys.readouterr().err.strip()
    assert "pip install" in error and "carla" in error and "\n" not in error


def test_each_worker_has_its_own_server() -> None:
    world = world_recipe("carla", at(2000, 2010) + ", localhost:2000, " + at(2000), wait_s=3.0)
    assert [(world.of(k).kwargs["server"], world.server(k)) for k in (0, 1)] == [
        ("127.0.0.1:2000", "127.0.0.1:2000"),
        ("127.0.0.1:2010", "127.0.0.1:2010"),
    ]
    assert (workers_for(world, None), workers_for(world, 1), world.kwargs["wait_s"]) == (2, 1, 3.0)
    assert world_recipe("embedded").server(0) == ""
