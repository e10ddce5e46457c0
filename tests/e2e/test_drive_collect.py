"""`ad2 drive collect`: a small collection, its frames, and that the same command adds nothing."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.closedloop.made_town import town
from support.running import BIN, run

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.learn.collection import frame_count, frames_files, frames_of
from lmms_eval_ad2.storage.training_card import TrainingSet, read_card, write_card

TYPES = "ParkedObstacle,VanillaSignalizedTurnEncounterRedLight"
COMMAND = (
    BIN / "ad2",
    "drive",
    "collect",
    "--routes",
    "2",
    "--config",
    f"types={TYPES}",
    "--seed",
    "3",
    "--out",
    "drives",
)
WORDS = ("stop", "brake hard", "brake", "slow down", "keep the speed", "accelerate gently", "accelerate")


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("collect")
    return folder / "drives", run(*COMMAND, cwd=folder).stdout


def _frames(folder: Path) -> list[dict[str, Any]]:
    return [frame for file in frames_files(folder) for _, frame in frames_of(file)]


def test_every_frame_has_its_picture_and_its_label(collected: tuple[Path, str]) -> None:
    folder, printed = collected
    frames = _frames(folder)
    assert len(frames) == frame_count(frames_files(folder)) > 40
    assert f"{len(frames)} frames of 2 episodes" in printed
    trained = read_card(folder / "training_set.json")
    for frame in frames:
        key, tick = frame["id"].split("/")
        with Image.open(folder / "frames" / key / frame["image"]) as picture:
            assert picture.size == (160, 90)
        assert frame["image"] == f"front_{int(tick):05d}.jpg"
        pace, direction = frame["label"]["action"].rstrip(".").lower().split(" and ", 1)
        assert pace in WORDS and direction
        assert frame["label"]["trajectory"].count("(") == 6
        assert all(0 <= v <= 160 for row in frame["objects"] if row["box"] for v in row["box"])
    assert {frame["scenario"] for frame in frames} == set(TYPES.split(","))
    assert trained.sets[0].routes and len(trained.sets[0].images) == len(frames)
    assert {route.id for route in read_routes(folder / "routes.xml")} == {frame["route"] for frame in frames}
    assert any(frame["disturbed"] for frame in frames) and not all(frame["disturbed"] for frame in frames)


def test_the_future_is_where_the_car_was_afterwards(collected: tuple[Path, str]) -> None:
    """The first future position of a moving car is 0.5 s of its speed ahead, and a standing body stays where it is."""
    folder, _ = collected
    for file in frames_files(folder):
        frames = [frame for _, frame in frames_of(file)]
        for now, later in itertools.pairwise(frames):
            if later["tick"] - now["tick"] == 5 and now["future"]:
                driven = math.hypot(*now["future"][0])
                assert abs(driven - 0.25 * (now["speed"] + later["speed"])) < 0.35
        assert len(frames[0]["future"]) == 6 and len(frames[-1]["future"]) < 6
        parked = [row for row in frames[0]["objects"] if row["kind"] == "warning sign"]
        assert all(abs(row["future"][-1][0] - row["forward"]) < 0.05 for row in parked)


def test_the_red_light_is_a_reason_and_its_lamp_is_shown(collected: tuple[Path, str]) -> None:
    folder, _ = collected
    red = [frame for frame in _frames(folder) if frame["label"]["reason"]["kind"] == "red_light"]
    assert red
    lamps = [row for frame in red for row in frame["signals"] if row["on_route"] and row["state"] == "red"]
    assert any(row["state_pixels"] >= 4 and row["box"] for row in lamps)


def test_the_same_command_adds_nothing(collected: tuple[Path, str]) -> None:
    folder, _ = collected
    before = {file: file.stat().st_mtime_ns for file in (folder / "frames").rglob("*") if file.is_file()}
    assert "2 of 2 episodes are there already" in run(*COMMAND, cwd=folder.parent).stdout
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_frames_that_are_there_count(collected: tuple[Path, str]) -> None:
    """With --frames, as without, a finished collection is left as it is."""
    folder, _ = collected
    done = run(*COMMAND, "--frames", "30", cwd=folder.parent)
    assert "1 of 1 episodes are there already; running 0" in done.stdout and "of 2 episodes in" in done.stdout


@pytest.mark.parametrize("words", [("--seed", "4"), ("--size", "320x180")])
def test_another_command_is_refused_and_nothing_is_lost(collected: tuple[Path, str], words: tuple[str, str]) -> None:
    folder, _ = collected
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = run(*COMMAND, *words, cwd=folder.parent, code=2)
    assert {"--seed": "seed", "--size": "cameras"}[words[0]] in done.stderr and "Traceback" not in done.stderr
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_wrong_words_drive_in_words(tmp_path: Path) -> None:
    """The car stands where the expert would go on, which its own drives never show."""
    words = ("--driver", "disturbed-speaker", "--config", "decision_hz=2", "--out", "words")
    run(*COMMAND[:-2], *words, cwd=tmp_path)
    frames = _frames(tmp_path / "words")
    wrong = [frame for frame in frames if frame["disturbed"]]
    assert 0.1 < len(wrong) / len(frames) < 0.8
    later = [frame for frame in frames if frame["time_s"] > 3 and frame["speed"] < 0.3]
    assert any(frame["label"]["action"].startswith("Accelerate") for frame in later)


def test_rounds_on_the_roads_of_a_town(tmp_path: Path) -> None:
    """Each route twice, with other scenes; a part of the routes lies in the town, on its own map."""
    town(tmp_path, "ControlLoss", "Street")
    words = (
        "--routes",
        "2",
        "--config",
        "types=ControlLoss",
        "--seed",
        "2",
        "--towns",
        "Street.xodr",
        "--config",
        "rounds=2",
    )
    run(BIN / "ad2", "drive", "collect", *words, "--out", "drives", cwd=tmp_path)
    routes = read_routes(tmp_path / "drives" / "routes.xml")
    assert [route.town for route in routes] == ["Street", "Made"]
    for route in routes:
        first, second = ((tmp_path / "drives" / "frames" / f"{route.id}_rep{k}" / "frames.jsonl") for k in range(2))
        assert len(first.read_text().splitlines()) > 0 and first.read_bytes() != second.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "types=ParkedObstacles"), "no such scenario type: ParkedObstacles"),
        (("--driver", "experts"), "no agent 'experts'"),
        (("--size", "160"), "expected a size like 800x450"),
        (("--towns", "a/Town.xodr", "--towns", "b/Town.xodr"), "two files are called Town"),
        (
            ("--config", "history=3"),
            "--driver disturbed-expert sets the controls itself: --config history would have no effect",
        ),
        (
            ("--driver", "disturbed-speaker", "--config", "history=3"),
            "--driver disturbed-speaker asks no model: --config history would",
        ),
        (("--config", "unlike=card.json"), "--config unlike=card.json: it names no routes"),
        (("--config", "expert_share=0.5"), "is an option of --driver lmms:"),
        (("--config", "expert_share=1.5", "--driver", "straight"), "must be at least 0 and below 1"),
        (("--config", "expert_share=0.5", "--driver", "straight"), "is no model that answers in words"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    write_card(tmp_path, [TrainingSet("a", questions=("b:1",))], name="card.json")
    done = run(BIN / "ad2", "drive", "collect", "--routes", "2", "--out", "drives", *words, cwd=tmp_path, code=2)
    assert message in done.stderr and "Traceback" not in done.stderr
