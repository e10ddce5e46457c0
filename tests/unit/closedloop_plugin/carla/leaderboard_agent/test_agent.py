"""The leaderboard agent against a stand-in for Bench2Drive in a subprocess: requests, controls and failures."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.bench2drive import recording as rec
from support.bench2drive.scripted_driver import CAMERAS, DRIVER, ScriptedDriver, answer
from support.closedloop.time_limits import with_growing_limits
from support.running import REPO, TESTS

from closedloop_plugin.scoring.comfort import find_motions

pytestmark = pytest.mark.integration

AGENT = REPO / "closedloop_plugin" / "carla" / "leaderboard_agent" / "agent.py"
QUICK = {"timeout_s": 20, "retries": 0, "wait_s": 0}
DRIVES = [0.25, 0.5, 0.0]
COASTS = [0.0, 0.0, 0.0]


def old_python() -> str | None:
    """Python 3.7 (as in CARLA 0.9.15) or 3.8, without numpy and Pillow, if pyenv has one."""
    found = sorted(Path.home().glob(".pyenv/versions/3.[78].*/bin/python"))
    return str(found[0]) if found else None


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run routes with a configuration; one result per route."""

    def run(
        url: str, recorded: dict[str, Any], python: str = sys.executable, env: Any = None, **config: Any
    ) -> list[dict[str, Any]]:
        file = tmp_path / "agent.json"
        file.write_text(json.dumps({**QUICK, "base_url": url, **config}), "utf-8")
        recording = rec.write(tmp_path / "recording.json", recorded)
        done = subprocess.run(
            [python, str(TESTS / "support" / "bench2drive" / "stand_in.py"), str(AGENT), str(file), str(recording)],
            env={**os.environ, "SAVE_PATH": str(tmp_path / "save"), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        return [json.loads(line[7:]) for line in lines if line.startswith("RESULT ")]

    return run


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("python", ["this", "old"])
def test_targets_and_commands_match_the_geometry_of_the_route(python: str, drive: Any, tmp_path: Path) -> None:
    """Expected values are computed by hand; the same under CARLA 0.9.15's Python."""
    name = sys.executable if python == "this" else old_python()
    if name is None:
        pytest.skip("no Python 3.7 or 3.8 under ~/.pyenv")
    with ScriptedDriver() as driver:
        (result,) = drive(driver.url, rec.recording(), python=name)
    assert result["status"] == "Completed", result
    assert result["controls"] == [DRIVES] * len(rec.frames())
    questions = {q["tick"]: q for q in driver.questions}
    assert sorted(questions) == list(range(0, len(rec.frames()), 2))  # 10 Hz of 20
    assert all(q["ad2_drive"] == 1 and q["episode"] == "route_one" for q in driver.questions)
    assert all(q["speed_limit"] is None and q["cameras"] == ["front", "back"] for q in driver.questions)
    assert questions[4]["speed"] == pytest.approx(5.0) and questions[4]["time_s"] == pytest.approx(0.25)

    def at(s: float) -> tuple[str, list[float]]:
        question = questions[rec.frame_at(s) // 2 * 2]
        return question["command"], question["target"]

    assert all(q["route_offset"] == pytest.approx(0.0, abs=0.15) for q in driver.questions)
    assert at(2.0) == ("lane follow", pytest.approx([8.0, 0.0], abs=0.05))
    assert at(12.0)[0] == "lane follow" and at(16.0)[0] == "turn left"  # 15 m before the turn at 30 m
    # At the turn: 8 m of a circle of 10 m to the left are 10 sin 0.8 forward, 10 (1 - cos 0.8) to the left.
    assert at(30.0) == ("turn left", pytest.approx([7.17, 3.03], abs=0.1))
    assert at(50.0) == ("lane follow", pytest.approx([8.0, 0.0], abs=0.1))
    before_right = 30 + rec.QUARTER + 30  # 75.7; the frame of 75.5 is 0.2 m before it
    assert at(before_right) == ("turn right", pytest.approx([7.24, -2.88], abs=0.1))
    assert at(100.0) == ("lane follow", pytest.approx([8.0, 0.0], abs=0.1))


def test_written_files_can_be_read_by_the_scoring(drive: Any, tmp_path: Path) -> None:
    with ScriptedDriver() as driver:
        (result,) = drive(driver.url, rec.recording(last=230), save_frames_every=50)
    folder = tmp_path / "save" / "route_one"
    motion = find_motions(tmp_path / "save", {("1", 0): result["save_name"]})["1", 0]
    assert motion.steps.tolist() == list(range(230))
    assert motion.forward_vector[-1] == pytest.approx([np.cos(np.pi / 2), -1.0, 0.0], abs=1e-6)  # north is -y
    metric = json.loads((folder / "metric_info.json").read_text("utf-8"))
    assert set(metric["0"]) == {
        "acceleration", "angular_velocity", "forward_vector", "right_vector", "location", "rotation",
    }  # fmt: skip
    decisions = lines(folder / "decisions.jsonl")
    assert [d["tick"] for d in decisions] == list(range(0, 230, 2))
    assert decisions[0]["control"] == answer()["control"] and decisions[0]["answer"]["texts"] == {"action": "go"}
    run = json.loads((folder / "run.json").read_text("utf-8"))
    assert run["driver"] == DRIVER and run["counts"] == {"decisions": 115} and run["finished"] is True
    frames = sorted(p.name for p in (folder / "frames").iterdir())
    assert [f.split(".")[0] for f in frames] == ["00000_back", "00000_front", "00100_back", "00100_front",
                                                 "00200_back", "00200_front"]  # fmt: skip
    assert not list(folder.glob(".*")), "parts of files are left"


def test_metric_info_is_written_during_the_route(drive: Any, tmp_path: Path) -> None:
    """metric_info.json is complete from step 200 on, before destroy is called."""
    seen: list[Any] = []

    def script(n: int) -> Any:
        file = tmp_path / "save" / "route_one" / "metric_info.json"
        seen.append(len(json.loads(file.read_text("utf-8"))) if file.exists() else None)
        return answer()

    with ScriptedDriver(script) as driver:
        drive(driver.url, rec.recording(last=210))
    assert seen[98] is None and seen[101] == 200


def test_sensors_are_those_of_the_driver(drive: Any) -> None:
    with ScriptedDriver() as driver:
        (result,) = drive(driver.url, rec.recording(last=2), cameras={"front": {"width": 64, "height": 36}})
    front, back, imu, gnss, speed = result["sensors"]
    assert front == {"type": "sensor.camera.rgb", "id": "front", "x": 0.8, "y": 0.0, "z": 1.6, "yaw": 0.0, "roll": 0.0,
                     "pitch": 0.0, "width": 64, "height": 36, "fov": 70.0}  # fmt: skip
    assert (back["x"], back["y"], back["yaw"], back["width"]) == (-2.0, 0.1, 180.0, 32)
    assert [s["type"] for s in (imu, gnss, speed)] == [
        "sensor.other.imu", "sensor.other.gnss", "sensor.speedometer",
    ]  # fmt: skip
    assert imu["x"] == gnss["x"] == -1.4


def test_the_save_name_is_read_from_the_extended_config_path(drive: Any, tmp_path: Path) -> None:
    """The evaluator appends a save name each time: agent.json+one, then agent.json+one+two."""
    with ScriptedDriver() as driver:
        results = drive(driver.url, rec.recording(last=4, routes=("one", "two")))
    assert [r["status"] for r in results] == ["Completed"] * 2
    assert [q["episode"] for q in driver.questions] == ["one"] * 2 + ["two"] * 2
    assert sorted(p.name for p in (tmp_path / "save").iterdir()) == ["one", "two"]


def test_address_and_key_are_read_from_the_environment(drive: Any) -> None:
    with ScriptedDriver() as driver:
        (result,) = drive(
            "http://nowhere.invalid/v1", rec.recording(last=2), api_key_env="MY_KEY",
            env={"AD2_BASE_URL": driver.url, "MY_KEY": "k1", "http_proxy": "http://127.0.0.1:9", "SAVE_PATH": ""},
        )  # fmt: skip
    assert result["status"] == "Completed" and driver.keys == ["Bearer k1"]


BAD: dict[str, Any] = {
    "not json": (200, "<html>"),
    "no chat": (200, '{"choices": []}'),
    "no object": (200, "[1]"),
    "another's words": (200, json.dumps({"choices": [{"message": {"content": "I would slow down."}}]})),
    "the model failed": (500, '{"error": {"message": "out of memory"}}'),
    "busy": (429, "{}"),
    "bad request": (400, '{"error": {"message": "no camera front"}}'),
    "redirect": (302, ""),
    "too much": (200, " " * 300_000),
    "agent error": answer(control=None, error="no reply"),
    "no control": answer(control=None),
    "not finite": answer(control={"steer": float("nan"), "throttle": 0.0, "brake": 0.0}),
    "out of range": answer(control={"steer": 0.0, "throttle": 1.5, "brake": 0.0}),
    "steer out of range": answer(control={"steer": -1.5, "throttle": 0.0, "brake": 0.0}),
    "huge": answer(control={"steer": 10**400, "throttle": 0.0, "brake": 0.0}),
    "a truth": answer(control={"steer": True, "throttle": 0.0, "brake": 0.0}),
    "half a control": answer(control={"steer": 0.0}),
    "surrogate": answer(control=None, error="\ud800"),
    "another protocol": answer(ad2_drive=2),
    "no policy": answer(policy=None),
}


def test_every_bad_reply_coasts_and_is_counted(drive: Any, tmp_path: Path) -> None:
    """A good reply follows each bad one, so that `patience` does not end the route."""
    bad = list(BAD.values())
    with ScriptedDriver(lambda n: answer() if n % 2 else bad[n // 2]) as driver:
        (result,) = drive(driver.url, rec.recording(last=4 * len(bad)), patience=2)
    assert result["status"] == "Completed", result
    assert result["controls"] == [*([COASTS] * 2), *([DRIVES] * 2)] * len(bad)
    folder = tmp_path / "save" / "route_one"
    counts = json.loads((folder / "run.json").read_text("utf-8"))["counts"]
    assert counts == {"decisions": 2 * len(bad), "failures": len(bad)}
    why = [d["failure"] for d in lines(folder / "decisions.jsonl")[::2]]
    assert all(why) and "out of memory" in why[4] and "no camera front" in why[6] and "1.5" in why[12]


def test_a_request_to_a_busy_driver_is_retried(drive: Any) -> None:
    with ScriptedDriver(lambda n: answer() if n % 2 else BAD["busy"]) as driver:
        (result,) = drive(driver.url, rec.recording(last=4), retries=1)
    assert result["controls"] == [DRIVES] * 4
    assert [q["tick"] for q in driver.questions] == [0, 0, 2, 2]


def test_the_car_coasts_if_a_request_times_out(drive: Any) -> None:
    def controls(limit_s: float) -> list[list[float]]:
        with ScriptedDriver(lambda n: None if n == 0 else answer()) as driver:
            (result,) = drive(driver.url, rec.recording(last=4), timeout_s=limit_s)
        return list(result["controls"])

    assert (
        with_growing_limits(controls, lambda found: found[2:] != [DRIVES] * 2, (1, 5, 20))
        == [COASTS] * 2 + [DRIVES] * 2
    )


def test_failures_in_a_row_end_the_route_and_keep_its_files(drive: Any, tmp_path: Path) -> None:
    with ScriptedDriver(lambda n: answer() if n == 1 else BAD["not json"]) as driver:
        (result,) = drive(driver.url, rec.recording(last=40), patience=3)
    assert result["status"] == "Agent crashed" and "3 failures in a row" in result["error"]
    assert len(driver.questions) == 5  # a bad reply, a good one, three bad ones
    folder = tmp_path / "save" / "route_one"
    assert len(json.loads((folder / "metric_info.json").read_text("utf-8"))) == 9
    assert len(lines(folder / "decisions.jsonl")) == 5


@pytest.mark.parametrize("policy", ["official", "strict"])
def test_an_unparsed_reply_coasts_or_ends_the_route_by_policy(policy: str, drive: Any, tmp_path: Path) -> None:
    """official: coast, no failure; strict: the route ends."""
    with ScriptedDriver(lambda n: answer(control=None, unparsed="no number", policy=policy)) as driver:
        (result,) = drive(driver.url, rec.recording(last=8), patience=1)
    counts = json.loads((tmp_path / "save" / "route_one" / "run.json").read_text("utf-8"))["counts"]
    if policy == "official":
        assert result["controls"] == [COASTS] * 8 and counts == {"decisions": 4, "unparsed": 4}
    else:
        assert result["status"] == "Agent crashed" and "no number" in result["error"]
        assert counts == {"decisions": 1, "unparsed": 1}


def test_setup_waits_while_the_model_loads(drive: Any) -> None:
    with ScriptedDriver(loading=2) as driver:
        (result,) = drive(driver.url, rec.recording(last=2), wait_s=60)
    assert result["status"] == "Completed" and driver.loading == 0


def test_setup_fails_if_no_driver_listens(drive: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, not listening: refused
        (result,) = drive(f"http://127.0.0.1:{free.getsockname()[1]}/v1", rec.recording(last=2))
    assert result["status"] == "Agent couldn't be set up"
    assert "ad2 serve" in result["error"] and "Refused" in result["error"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ad2_drive": 2}, "has protocol 2"),
        ({"decision_hz": None}, "decision_hz"),
        ({"cameras": None}, "no list of cameras"),
        ({"cameras": [{**CAMERAS[0], "name": "GPS"}]}, "no sensor's"),
        ({"cameras": [{**CAMERAS[0], "name": "../x"}]}, "letters, digits"),
        ({"cameras": [{**CAMERAS[0], "fov": 400}]}, "fov: expected degrees"),
    ],
)
def test_setup_refuses_an_unusable_driver(changes: dict[str, Any], words: str, drive: Any) -> None:
    with ScriptedDriver(driver={**DRIVER, **changes}) as driver:
        (result,) = drive(driver.url, rec.recording(last=2))
    assert result["status"] == "Agent couldn't be set up" and words in result["error"]


def test_the_decision_rate_need_not_divide_the_tick_rate(drive: Any) -> None:
    """8 Hz of 20: every 2.5 ticks, as in the runner."""
    with ScriptedDriver(driver={**DRIVER, "decision_hz": 8.0}) as driver:
        drive(driver.url, rec.recording(last=16))
    assert [q["tick"] for q in driver.questions] == [0, 3, 5, 8, 10, 13, 15]


@pytest.mark.parametrize(("tick_s", "ticks"), [(0.05, [0, 2, 4, 6, 8]), (0.1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])])
def test_decisions_go_by_the_simulations_time(tick_s: float, ticks: list[int], drive: Any) -> None:
    """A driver of 10 Hz, in an evaluator of 20 Hz and in one of 10 Hz, whose time steps are single precision."""
    recorded = rec.recording(last=10)
    step = float(np.float32(tick_s))
    recorded["frames"] = [[100.0 + i * step, *frame[1:]] for i, frame in enumerate(recorded["frames"])]
    with ScriptedDriver(driver={**DRIVER, "hz": 10.0, "decision_hz": 10.0}) as driver:
        (result,) = drive(driver.url, recorded)
    assert result["status"] == "Completed", result
    assert [q["tick"] for q in driver.questions] == ticks


def test_a_position_far_from_the_plan_ends_the_route(drive: Any) -> None:
    """GNSS reports 500 m east of the start of the plan."""
    far = rec.recording(last=2)
    far["frames"] = [[t, x + 500.0, y, yaw, v] for t, x, y, yaw, v in far["frames"]]
    with ScriptedDriver() as driver:
        (result,) = drive(driver.url, far)
    assert result["status"] == "Agent crashed"
    assert "GNSS is 500 m off the start of the route: route plan and GNSS are of different maps" in result["error"]


def test_a_mirrored_latitude_ends_the_route_and_is_named(drive: Any) -> None:
    """As CARLA 0.9.16 reports it, on a route that begins 7.7 m from the map's x axis."""
    recorded = rec.recording(last=2)
    recorded["reference"] = [0.0, 0.0]
    recorded["plan"] = [[x, y - 7.7, option] for x, y, option in recorded["plan"]]
    recorded["frames"] = [[t, x, 7.7 - y, -yaw, v] for t, x, y, yaw, v in recorded["frames"]]
    with ScriptedDriver() as driver:
        (result,) = drive(driver.url, recorded)
    assert result["status"] == "Agent crashed" and driver.questions == []
    for words in ("GNSS is 15 m off the start", "mirrored, as CARLA 0.9.16", "carla issue 9389", "needs CARLA 0.9.15"):
        assert words in result["error"]
