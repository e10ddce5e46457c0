"""Episodes of a cycle; its texts in logs, counts and records: cut, and without the keys of the environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.robots.vehicle_end import jpeg

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.kept_texts import TEXT
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.robots.course.records import SegmentRunStore
from closedloop_plugin.robots.course.runner import CoursePlan, SimulatedDrive, run_course, segments_of
from closedloop_plugin.robots.planner.decision_cycle import CycleResult, DecisionCycle, VehicleObservation
from closedloop_plugin.robots.sandbox.scene import FOOTPRINTS
from closedloop_plugin.robots.sandbox.track import sandbox
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

RULES = profile("bench2advlm")
LIMO = VEHICLES["limo-ackermann"]
KEY = "abcdefgh12345678"


class ScriptedTexts:
    """Returns one decision, or raises."""

    name, privileged, local = "scripted", False, True
    cameras: tuple[Camera, ...] = ()

    def __init__(self, reply: Callable[[], Decision]) -> None:
        self.reply = reply

    def start(self, episode: str, seed: int) -> None: ...
    def end(self, episode: str) -> None: ...
    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self.reply() for _ in requests]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)


def cycle_of(reply: Callable[[], Decision]) -> DecisionCycle:
    return DecisionCycle(ScriptedTexts(reply), make_interpreter("rules", "rules", RULES), RULES, LIMO)


def decide(reply: Callable[[], Decision]) -> CycleResult:
    return cycle_of(reply).decide(VehicleObservation(0, 0.0, jpeg()))


def fail(text: str) -> Decision:
    raise RuntimeError(text)


def test_a_new_episode_restarts_tick_and_time() -> None:
    cycle = cycle_of(lambda: Decision({"action": "Keep going."}))
    observed = []
    for episode, stamp in (("one", 5.0), ("one", 5.5), ("two", 9.0)):
        if stamp != 5.5:
            cycle.begin(episode)
        result = cycle.decide(VehicleObservation(0, stamp, jpeg()))
        observed.append((result.observation.tick, result.observation.time_s))
    assert observed == [(0, 0.0), (1, 0.5), (0, 0.0)]


def test_a_long_reply_is_read_whole_and_logged_cut() -> None:
    reply = "Turn left with speed = 0.6." + " " * TEXT + KEY
    result = decide(lambda: Decision({"action": reply}))
    assert result.interpreted is not None and result.error is None and result.control.steer < 0
    logged = result.log()
    assert logged["texts"]["action"] == reply[:TEXT] and logged["cut"]["texts.action"] == len(reply)
    assert "cut" not in decide(lambda: Decision({"action": "Keep."})).log()


@pytest.mark.parametrize(
    "reply",
    [
        lambda: Decision({"action": f"Keep going, {KEY}."}),
        lambda: Decision({"action": f"Blorp {KEY}."}),
        lambda: Decision(error=f"HTTP 401: {KEY}"),
        lambda: fail(f"HTTP 401: {KEY}"),
        lambda: fail("x" * 190 + KEY),
    ],
)
def test_keys_reach_no_log_and_no_count(reply: Callable[[], Decision]) -> None:
    cycle = cycle_of(reply)
    result = cycle.decide(VehicleObservation(0, 0.0, jpeg()))
    assert "abcd" not in json.dumps([result.log(), list(cycle.counts), result.error, result.unparsed])


def test_a_failing_agents_message_is_bounded_and_without_keys_in_all_files_of_a_course(tmp_path: Path) -> None:
    error = f"HTTP 401 {KEY}: " + "x" * 3 * TEXT
    cycle, track = cycle_of(lambda: Decision(error=error)), sandbox()
    plan = CoursePlan(
        track, segments_of(track, "1"), 1, FOOTPRINTS["limo"], 0, {"name": "limo"}, {"name": "a"}, None, RULES.name
    )
    (record,) = run_course(plan, SimulatedDrive(cycle, track).drive, SegmentRunStore(tmp_path))
    assert record.what.startswith("10 failures in a row, the last: HTTP 401 [REDACTED]: x") and len(record.what) <= 500
    files = [file for file in tmp_path.rglob("*") if file.suffix in (".json", ".jsonl")]
    assert len(files) >= 3 and not [file for file in files if KEY in file.read_text("utf-8")]
    (log,) = (tmp_path / "logs").iterdir()
    assert json.loads(log.read_text("utf-8").splitlines()[0])["cut"] == {"error": len(error)}
