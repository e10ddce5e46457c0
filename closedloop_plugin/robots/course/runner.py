"""Runs a course: each segment several times, in this process and in simulated time, without ROS and ssh. Each run is
recorded at once, so that the same command resumes.

Decisions, limits, conversion and vehicle model are those of `ad2 robot plan`; only the link is left out: no frame is
lost or late, and decisions take no time. Faster than real time and reproducible.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from closedloop_plugin.report.top_view import robot_view
from closedloop_plugin.robots.course.guidance import PathHint, Pose, TrackExpert, guide_path
from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore
from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.onboard import clamp
from closedloop_plugin.robots.planner.decision_cycle import FAILURES_MAX, CycleResult, DecisionCycle, VehicleObservation
from closedloop_plugin.robots.planner.server import MOTION_S
from closedloop_plugin.robots.sandbox.scene import SandboxScene
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack, TrackSegment
from closedloop_plugin.robots.vehicles.vehicle import Actuation, Twist, WordCommand
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

LAP = "lap"
# Errors of a placement by hand, much smaller than the space beside the vehicle in the lane. Without them a
# deterministic driver would repeat the same run.
PLACEMENT_M = 0.01
PLACEMENT_RAD = math.radians(1.5)
_PLANNED_STEP = 4  # every 4th point of a path is recorded
_SEED_STEP = 7919  # between the seeds of two runs


@dataclass
class CourseRunTrace:
    """One run: poses (t, x, y, yaw, speed) on the track, a line per cycle, counts; t in s from the run's start."""

    poses: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    cycles: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


# Drives a segment until the referee's `end` is set: segment, referee, name of the episode, seed.
SegmentDriver = Callable[[TrackSegment, SegmentReferee, str, int], CourseRunTrace]


@dataclass(frozen=True)
class CoursePlan:
    """The segments to drive and the fields common to all records."""

    track: SandboxTrack
    segments: tuple[TrackSegment, ...]
    runs: int
    footprint: Footprint
    seed: int
    robot: Mapping[str, Any]
    agent: Mapping[str, Any]
    interpreter: Mapping[str, Any] | None
    profile: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [segment.name for segment in self.segments]

    def tasks(self) -> Iterator[tuple[TrackSegment, int]]:
        """One run of every segment, then the next, so that an interrupted course has driven all segments equally."""
        for run in range(1, self.runs + 1):
            yield from ((segment, run) for segment in self.segments)


def segments_of(track: SandboxTrack, wanted: str) -> tuple[TrackSegment, ...]:
    """Parse --segments: `all`, `lap` (the whole lap as one segment), or names and numbers: `1,3,route7`."""
    known = {s.name: s for s in track.segments}
    if wanted.strip() == "all":
        return track.segments
    found: dict[str, TrackSegment] = {}
    for name in (w.strip() for w in wanted.split(",") if w.strip()):
        full = f"route{name}" if name.isdecimal() else name
        if full == LAP:
            found[LAP] = TrackSegment(LAP, "the whole lap", track.lap, track.lap.pose(0.0))
        elif full in known:
            found[full] = known[full]
        else:
            raise Ad2Error(f"--segments {name}: no such segment; known: all, {LAP}, {', '.join(known)}")
    if not found:
        raise Ad2Error(f"--segments {wanted!r}: expected all, {LAP}, or names like {next(iter(known))} with commas")
    return tuple(found.values())


def run_course(
    plan: CoursePlan,
    drive: SegmentDriver,
    store: SegmentRunStore,
    *,
    retry_failed: bool = False,
    on_record: Callable[[SegmentRunRecord], None] = lambda record: None,
) -> list[SegmentRunRecord]:
    """Drive the missing runs. Returns the records of all planned runs, old and new."""
    records = []
    for segment, run in plan.tasks():
        record = store.get(segment.name, run)
        if record is None or (retry_failed and record.retryable):
            record = _driven(plan, drive, store, segment, run)
            on_record(record)
        records.append(record)
    return records


def _driven(
    plan: CoursePlan, drive: SegmentDriver, store: SegmentRunStore, segment: TrackSegment, run: int
) -> SegmentRunRecord:
    """Drive one run; write its files, then its record."""
    referee = SegmentReferee(segment.path, plan.track, plan.footprint)
    seed = plan.seed + _SEED_STEP * run
    trace = drive(segment, referee, f"{segment.name}_run{run}", seed)
    assert referee.end is not None, "a run without an end"
    poses = trace.poses or [(0.0, *segment.start, 0.0)]
    thinking = [c["thinking_s"] for c in trace.cycles]
    record = SegmentRunRecord(
        segment.name, run, segment.geometry, referee.end, referee.what,
        completion=referee.completion, length_m=segment.path.length,
        driven_m=sum(math.dist(a[1:3], b[1:3]) for a, b in pairwise(poses)), time_s=poses[-1][0],
        robot=dict(plan.robot), agent=dict(plan.agent),
        interpreter=dict(plan.interpreter) if plan.interpreter else None,
        profile=plan.profile, seed=seed, ended=poses[-1][1:4],
        counts={**trace.counts, "cycles": len(trace.cycles)},
        timing={"thinking_median_s": median(thinking)} if thinking else {}, versions=dict(plan.versions),
    )  # fmt: skip
    content = track_record(plan, segment, record, trace)
    with atomic_write(store.folder / "tracks" / f"{record.name}.json") as out:
        json.dump(content, out, ensure_ascii=False, allow_nan=False)
    with atomic_write(store.folder / "logs" / f"{record.name}.jsonl") as out:
        out.writelines(json.dumps(cycle, ensure_ascii=False, sort_keys=True) + "\n" for cycle in trace.cycles)
    robot_view(content, store.folder / "pictures" / f"{record.name}.png")
    store.add(record)
    return record


def track_record(
    plan: CoursePlan, segment: TrackSegment, record: SegmentRunRecord, trace: CourseRunTrace
) -> dict[str, Any]:
    """The content of a file in tracks/, from which the picture is drawn."""
    track, foot = plan.track, plan.footprint
    return {
        "format": 1,
        "floor": list(track.size),
        "lines": [_short(track.left), _short(track.right)],
        "obstacles": [_short(box.corners, 1) for box in track.obstacles],
        "planned": _short(segment.path.xy),
        "footprint": [foot.length, foot.width, foot.ahead],
        "poses": [[round(v, 5) for v in pose] for pose in trace.poses],
        "cycles": trace.cycles,
        "result": json.loads(record.to_json()),
    }


def _short(points: Any, step: int = _PLANNED_STEP) -> list[list[float]]:
    kept = [*points[:-1:step], points[-1]]
    return [[round(float(x), 4), round(float(y), 4)] for x, y in kept]


def placement(segment: TrackSegment, seed: int) -> Pose:
    """The segment's start with random errors: +-PLACEMENT_M along and across, +-PLACEMENT_RAD in yaw."""
    rng = np.random.default_rng([seed, 0x9A7])
    along, aside, turned = (float(v) for v in rng.uniform(-1.0, 1.0, 3))
    x, y, yaw = segment.path.pose(along * PLACEMENT_M, aside * PLACEMENT_M)
    return x, y, yaw + turned * PLACEMENT_RAD


STEP_S = 0.01  # of the simulation
REPEAT_STEPS = 5  # a command is repeated at 20 Hz, as by the on-board client
REFEREE_STEPS = 2  # the referee checks at 50 Hz, the rate of the true pose through ROS
FRAME_S = 0.05  # standing still from the end of a motion to the next frame: one period of a 20 Hz camera


class SimulatedDrive:
    """See the module docstring. `cycle`: the driver, without a started episode."""

    def __init__(self, cycle: DecisionCycle, track: SandboxTrack, motion_s: float = MOTION_S) -> None:
        self.cycle, self._motion_s = cycle, motion_s
        self._scene = SandboxScene(cycle.vehicle, track)
        self._onboard = cycle.vehicle.to_onboard()

    def drive(self, segment: TrackSegment, referee: SegmentReferee, episode: str, seed: int) -> CourseRunTrace:
        """Place the vehicle at the segment's start and drive until `referee.end` is set."""
        cycle, scene = self.cycle, self._scene
        start = placement(segment, seed)
        scene.command(_actuation(clamp.stop(self._onboard)))
        scene.place(*start)
        path = guide_path(referee.track, segment)
        cycle.hint = PathHint(path, start, cycle.vehicle.scale)
        if isinstance(cycle.agent, TrackExpert):
            cycle.agent.set_path(path, lambda: scene.body.pose, cycle.vehicle.scale)
        before = cycle.counts.copy()
        cycle.begin(episode)
        run = _Run(scene, self._onboard, referee)
        run.check_pose()
        while referee.end is None:
            odometry = scene.body.odometry() if cycle.vehicle.topics.odom else None
            obs = VehicleObservation(len(run.trace.cycles), run.t, scene.jpeg(), odometry)
            result = cycle.decide(obs)
            run.trace.cycles.append(line(result, run.t, scene.body.pose))
            referee.count_decision()
            run.move(result.actuation, cycle.vehicle.motion_s(result.actuation, self._motion_s))
            run.stand(FRAME_S)
            if cycle.failures >= FAILURES_MAX:
                referee.stop(SegmentEndReason.AGENT, f"{cycle.failures} failures in a row, the last: {result.error}")
        cycle.finish()
        run.trace.counts = dict(cycle.counts - before)
        return run.trace


class _Run:
    """Simulates one run; nothing moves after the referee has ended it."""

    def __init__(self, scene: SandboxScene, onboard: dict[str, Any], referee: SegmentReferee) -> None:
        self.scene, self.referee, self.trace = scene, referee, CourseRunTrace()
        self.t = 0.0
        self._onboard = onboard
        self._steps = 0

    def move(self, actuation: Actuation, seconds: float) -> None:
        self._hold(_actuation(clamp.clamp(actuation.to_onboard(), self._onboard)), seconds)

    def stand(self, seconds: float) -> None:
        self._hold(_actuation(clamp.stop(self._onboard)), seconds)

    def check_pose(self) -> None:
        body = self.scene.body
        self.trace.poses.append((self.t, *body.pose, body.vx))
        self.referee.observe(*body.pose)

    def _hold(self, actuation: Actuation, seconds: float) -> None:
        for step in range(round(seconds / STEP_S)):
            if self.referee.end is not None:
                return
            if step % REPEAT_STEPS == 0:
                self.scene.command(actuation)
            self.scene.step(STEP_S)
            self._steps += 1
            self.t = self._steps * STEP_S
            if self._steps % REFEREE_STEPS == 0:
                self.check_pose()


def line(result: CycleResult, t: float, pose: Pose) -> dict[str, Any]:
    """One cycle for tracks/ and logs/: the CycleResult with time, pose and the actuation that was sent."""
    logged = result.log()
    sent = {"word": logged["word"]} if "word" in logged else dict(logged["twist"])
    return {**logged, "t": round(t, 4), "pose": [round(v, 4) for v in pose], "sent": sent}


def _actuation(onboard: dict[str, Any]) -> Actuation:
    return WordCommand(onboard["word"]) if "word" in onboard else Twist(**onboard["twist"])
