"""A course in one process: route hint, referee, runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, ModelUsage, RouteCommand
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.robots.course.guidance import PathHint, TrackExpert, guide_path
from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore
from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee, max_decisions
from closedloop_plugin.robots.course.runner import (
    PLACEMENT_M,
    PLACEMENT_RAD,
    CoursePlan,
    SimulatedDrive,
    placement,
    run_course,
    segments_of,
)
from closedloop_plugin.robots.planner.decision_cycle import FAILURES_MAX, DecisionCycle
from closedloop_plugin.robots.sandbox.scene import FOOTPRINTS
from closedloop_plugin.robots.sandbox.track import sandbox
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

TRACK = sandbox()
LIMO = VEHICLES["limo-ackermann"]
FOOT = FOOTPRINTS["limo"]
RULES = profile("bench2advlm")


def plan(vehicle: str = "limo-ackermann", segments: str = "1", runs: int = 1, agent: Agent | None = None) -> CoursePlan:
    driver = agent or TrackExpert()
    foot = FOOTPRINTS[VEHICLES[vehicle].platform]
    return CoursePlan(
        TRACK, segments_of(TRACK, segments), runs, foot, 0, {"name": vehicle}, driver.describe(), None, RULES.name
    )


def simulated(vehicle: str = "limo-ackermann", agent: Agent | None = None) -> SimulatedDrive:
    slow = make_interpreter("rules", "rules", RULES)
    return SimulatedDrive(DecisionCycle(agent or TrackExpert(), slow, RULES, VEHICLES[vehicle]), TRACK)


def drive(
    folder: Path, vehicle: str = "limo-ackermann", agent: Agent | None = None, **what: Any
) -> list[SegmentRunRecord]:
    folder.mkdir(exist_ok=True)
    return run_course(plan(vehicle, agent=agent, **what), simulated(vehicle, agent).drive, SegmentRunStore(folder))


class FailingAgent:
    """A model that never answers."""

    name, privileged, local = "broken", False, True
    cameras: tuple[Camera, ...] = ()

    def start(self, episode: str, seed: int) -> None: ...
    def end(self, episode: str) -> None: ...
    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [Decision(error="no answer") for _ in requests]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


# The hint.


@pytest.mark.parametrize("turned", (0.0, 2.0, -1.2))
def test_the_hint_does_not_depend_on_the_origin_of_odometry(turned: float) -> None:
    """The vehicle drives 0.5 m along a straight segment; its odometry began elsewhere, turned by any angle."""
    segment = TRACK.segments[0]
    hint = PathHint(segment.path, segment.start, 14.0)
    for along in (0.0, 0.5):
        odometry = {"x": 7 + along * math.cos(turned), "y": -3 + along * math.sin(turned), "yaw": turned, "v": 0.3}
        command, (forward, left) = hint.command(odometry)
        assert command is RouteCommand.FOLLOW
        assert (forward, left) == pytest.approx((hint.ahead, 0.0), abs=1e-6)
    x, y, _ = segment.path.pose(0.5)
    assert hint.here is not None and hint.here[:2] == pytest.approx((x, y), abs=1e-6)


def test_the_hint_leads_back_to_the_path() -> None:
    segment = TRACK.segments[0]
    hint = PathHint(segment.path, segment.start, 14.0)
    hint.command({"x": 0.0, "y": 0.0, "yaw": 0.0})
    _, (_, left) = hint.command({"x": 0.3, "y": 0.08, "yaw": 0.0})
    assert left == pytest.approx(-0.08, abs=1e-3)  # drifted to the left: the path is to the right


def test_without_odometry_the_hint_is_straight_ahead() -> None:
    hint = PathHint(TRACK.lap, TRACK.lap.pose(0.0), 14.0)
    assert hint.command(None) == (RouteCommand.FOLLOW, (hint.ahead, 0.0))


@pytest.mark.parametrize("number", range(10))
def test_near_a_segments_end_the_hint_follows_the_lap(number: int) -> None:
    segment, after = TRACK.segments[number], TRACK.segments[(number + 1) % 10]
    path = guide_path(TRACK, segment)
    x, y, _ = path.pose(segment.path.length + 0.3)
    _, aside = after.path.locate(x, y)
    assert abs(aside) < 0.01 and path.pose(0.0) == pytest.approx(segment.start, abs=0.02)


# The referee.


def test_completion_counts_the_share_before_a_line_is_crossed() -> None:
    segment = TRACK.segments[0]
    referee = SegmentReferee(segment.path, TRACK, FOOT)
    for share in (0.0, 0.25, 0.5):
        referee.observe(*segment.path.pose(share * segment.path.length))
    assert referee.end is None
    referee.observe(*segment.path.pose(0.9 * segment.path.length, 0.2))
    assert (referee.end, referee.what) == (SegmentEndReason.LINE, "crossed line")
    assert referee.completion == pytest.approx(50.0, abs=0.5)  # progress at the pose of the crossing does not count


def test_going_back_does_not_reduce_completion() -> None:
    segment = TRACK.segments[0]
    referee = SegmentReferee(segment.path, TRACK, FOOT)
    for share in (0.3, 0.6, 0.2):
        referee.observe(*segment.path.pose(share * segment.path.length))
    assert referee.completion == pytest.approx(60.0, abs=0.5)


def test_a_hit_names_the_obstacle() -> None:
    segment = next(s for s in TRACK.segments if "narrowing" in s.geometry)
    cone = next(o for o in TRACK.obstacles if o.name == "left cone")
    referee = SegmentReferee(segment.path, TRACK, FOOT)
    referee.observe(cone.x, cone.y, 0.0)
    assert (referee.end, referee.what) == (SegmentEndReason.HIT, "hit obstacle:left cone") and referee.completion == 0.0


def test_a_lap_is_not_completed_at_its_start() -> None:
    """Its start and end are at the same place."""
    referee = SegmentReferee(TRACK.lap, TRACK, FOOT)
    along = 0.0
    while along < TRACK.lap.length - 0.1:
        assert referee.observe(*TRACK.lap.pose(along)) is None
        along += 0.05
    assert (
        referee.observe(*TRACK.lap.pose(TRACK.lap.length)) is SegmentEndReason.COMPLETED and referee.completion == 100.0
    )


def test_the_first_end_counts_and_decisions_are_limited() -> None:
    segment = TRACK.segments[0]
    referee = SegmentReferee(segment.path, TRACK, FOOT)
    for _ in range(max_decisions(segment.path.length)):
        referee.count_decision()
    assert referee.end is None
    referee.count_decision()
    assert referee.end is SegmentEndReason.SLOW
    referee.stop(SegmentEndReason.AGENT)
    assert (
        referee.observe(*segment.path.pose(segment.path.length)) is SegmentEndReason.SLOW and referee.completion == 0.0
    )


def test_placements_have_small_errors_that_depend_on_the_seed() -> None:
    segment = TRACK.segments[1]
    poses = [placement(segment, seed) for seed in range(50)]
    assert poses == [placement(segment, seed) for seed in range(50)] and len(set(poses)) == 50
    for x, y, yaw in poses:
        assert math.dist((x, y), segment.start[:2]) <= math.hypot(PLACEMENT_M, PLACEMENT_M) + 1e-3
        assert abs(yaw - segment.start[2]) <= PLACEMENT_RAD + 0.02  # the path itself turns within a centimetre


# The runs.


@pytest.mark.parametrize("vehicle", ("limo-ackermann", "limo-mecanum", "jetbot-waveshare", "jetbot-dusty-ros1"))
def test_the_track_expert_completes_every_segment(tmp_path: Path, vehicle: str) -> None:
    """Also without odometry and with full speed only: jetbot-dusty-ros1."""
    drive = simulated(vehicle).drive
    for segment in TRACK.segments:
        referee = SegmentReferee(segment.path, TRACK, FOOTPRINTS[VEHICLES[vehicle].platform])
        driven = drive(segment, referee, segment.name, 1)
        assert referee.end is SegmentEndReason.COMPLETED, (segment.name, referee.end, referee.what, referee.completion)
        assert driven.counts["mode rules"] == len(driven.cycles) > 2 and "unparsed" not in driven.counts


def test_the_track_expert_completes_a_lap() -> None:
    (lap,) = segments_of(TRACK, "lap")
    referee = SegmentReferee(lap.path, TRACK, FOOT)
    driven = simulated().drive(lap, referee, "lap", 0)
    assert referee.end is SegmentEndReason.COMPLETED and driven.poses[-1][0] > 30


def test_runs_are_determined_by_their_seed(tmp_path: Path) -> None:
    (first,), (again,) = drive(tmp_path / "a"), drive(tmp_path / "b")
    assert replace(first, timing={}) == replace(again, timing={})
    one, two = drive(tmp_path / "c", runs=2)
    assert one.ended != two.ended and one.seed != two.seed


def test_drivers_get_different_results(tmp_path: Path) -> None:
    """`straight` completes the straight and the narrowing but no bend, `still` nothing."""
    straight = drive(tmp_path / "a", agent=make_agent("straight"), segments="1,2,6")
    assert [r.end for r in straight] == [SegmentEndReason.COMPLETED, SegmentEndReason.LINE, SegmentEndReason.COMPLETED]
    assert 5 < straight[1].completion < 60
    (still,) = drive(tmp_path / "b", agent=make_agent("still"))
    assert (still.end, still.completion, still.driven_m) == (SegmentEndReason.SLOW, 0.0, 0.0)


def test_a_failing_model_ends_the_run_and_retry_failed_repeats_it(tmp_path: Path) -> None:
    (record,) = drive(tmp_path, agent=FailingAgent())
    assert record.end == SegmentEndReason.AGENT and record.retryable and "no answer" in record.what
    assert record.counts["agent_errors"] == FAILURES_MAX
    course_plan = plan(agent=FailingAgent())
    (kept,) = run_course(course_plan, simulated().drive, SegmentRunStore(tmp_path))
    (again,) = run_course(course_plan, simulated().drive, SegmentRunStore(tmp_path), retry_failed=True)
    assert kept.end == SegmentEndReason.AGENT and again.end == SegmentEndReason.COMPLETED
    assert len(SegmentRunStore(tmp_path).records) == 1  # the later line counts


def test_sent_commands_respect_the_turning_radius() -> None:
    """The agent returns controls at full lock."""

    class FullLockAgent(FailingAgent):
        def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
            return [Decision(control=Control(-1.0, 1.0, 0.0)) for _ in requests]

    segment = TRACK.segments[0]
    driven = simulated(agent=FullLockAgent()).drive(segment, SegmentReferee(segment.path, TRACK, FOOT), "wild", 0)
    sent = driven.cycles[0]["sent"]
    assert sent["vx"] > 0 and sent["wz"] / sent["vx"] <= 1 / LIMO.limits.turning_radius + 1e-9


def test_a_run_writes_its_track_log_and_picture(tmp_path: Path) -> None:
    (record,) = drive(tmp_path)
    track = json.loads((tmp_path / "tracks" / "route1_run1.json").read_text())
    assert track["result"]["end"] == "completed" and len(track["poses"]) > 100
    lines = [json.loads(line) for line in (tmp_path / "logs" / "route1_run1.jsonl").read_text().splitlines()]
    assert len(lines) == record.counts["cycles"] and all("lane" in line["texts"]["action"] for line in lines)
    assert {"t", "pose", "steer", "throttle", "brake", "sent", "target", "thinking_s"} <= set(lines[0])
    costs = {"prompt_sha256": None, "tokens_in": None, "tokens_out": None}  # neither a model's
    assert {**lines[0]["fast"], "seconds": None} == {**lines[0]["slow"], "seconds": None} == {**costs, "seconds": None}
    assert "follow" in lines[0]["meaning"] or "lane" in lines[0]["meaning"]
    assert (tmp_path / "pictures" / "route1_run1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("answer", "logged"),
    [
        (Decision({"action": "\ud800 go"}, latency_s=0.5, usage=ModelUsage("ab", 800, 12)), "? go"),
        (ValueError("\ud800 broken"), "ValueError: ? broken"),
    ],
)
def test_any_text_of_an_agent_is_logged_with_its_cost(
    tmp_path: Path, answer: Decision | Exception, logged: str
) -> None:
    class Speaker(TrackExpert):
        def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
            if isinstance(answer, Exception):
                raise answer
            return [answer] * len(requests)

    drive(tmp_path, agent=Speaker())
    line = json.loads((tmp_path / "logs" / "route1_run1.jsonl").read_text().splitlines()[0])
    if isinstance(answer, Exception):
        assert line["error"] == logged and line["slow"] is None
    else:
        assert line["texts"] == {"action": logged}
        assert line["fast"] == {"prompt_sha256": "ab", "seconds": 0.5, "tokens_in": 800, "tokens_out": 12}


def test_one_run_of_every_segment_comes_first() -> None:
    order = [(s.name, run) for s, run in plan(segments="1,2", runs=2).tasks()]
    assert order == [("route1", 1), ("route2", 1), ("route1", 2), ("route2", 2)]


def test_segments_are_selected_by_name_number_and_lap() -> None:
    assert len(segments_of(TRACK, "all")) == 10
    assert [s.name for s in segments_of(TRACK, "3, route1,3,lap")] == ["route3", "route1", "lap"]
    for wrong in ("route11", "0", "", "all,1"):
        with pytest.raises(Ad2Error, match="route1"):
            segments_of(TRACK, wrong)


def test_counts_are_per_run(tmp_path: Path) -> None:
    records = drive(tmp_path, segments="1,2")
    assert [r.counts["decisions"] for r in records] == [r.counts["cycles"] for r in records]
