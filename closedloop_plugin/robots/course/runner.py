"""Runs a course: each segment several times. Each run is recorded at once, so that the same command resumes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from closedloop_plugin.report.top_view import robot_view
from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore
from closedloop_plugin.robots.course.referee import SegmentReferee
from closedloop_plugin.robots.course.route_hint import Pose
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack, TrackSegment
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
            record = _one(plan, drive, store, segment, run)
            on_record(record)
        records.append(record)
    return records


def _one(
    plan: CoursePlan, drive: SegmentDriver, store: SegmentRunStore, segment: TrackSegment, run: int
) -> SegmentRunRecord:
    referee = SegmentReferee(segment.path, plan.track, plan.footprint)
    seed = plan.seed + _SEED_STEP * run
    trace = drive(segment, referee, f"{segment.name}_run{run}", seed)
    record = _record(plan=plan, segment=segment, run=run, seed=seed, referee=referee, trace=trace)
    _write(store.folder, track_record(plan, segment, record, trace), record)
    store.add(record)
    return record


def _record(
    plan: CoursePlan,
    segment: TrackSegment,
    run: int,
    seed: int,
    referee: SegmentReferee,
    trace: CourseRunTrace,
) -> SegmentRunRecord:
    assert referee.end is not None, "a run without an end"
    poses = trace.poses or [(0.0, *segment.start, 0.0)]
    thinking = [c["thinking_s"] for c in trace.cycles]
    return SegmentRunRecord(
        segment.name, run, segment.geometry, referee.end, referee.what,
        completion=referee.completion, length_m=segment.path.length,
        driven_m=sum(math.dist(a[1:3], b[1:3]) for a, b in pairwise(poses)), time_s=poses[-1][0],
        robot=dict(plan.robot), agent=dict(plan.agent),
        interpreter=dict(plan.interpreter) if plan.interpreter else None,
        profile=plan.profile, seed=seed, ended=poses[-1][1:4],
        counts={**trace.counts, "cycles": len(trace.cycles)},
        timing={"thinking_median_s": median(thinking)} if thinking else {}, versions=dict(plan.versions),
    )  # fmt: skip


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


def _write(folder: Path, drive: Mapping[str, Any], record: SegmentRunRecord) -> None:
    with atomic_write(folder / "tracks" / f"{record.name}.json") as out:
        json.dump(drive, out, ensure_ascii=False, allow_nan=False)
    with atomic_write(folder / "logs" / f"{record.name}.jsonl") as out:
        out.writelines(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in drive["cycles"])
    robot_view(drive, folder / "pictures" / f"{record.name}.png")


def names(segments: Sequence[TrackSegment]) -> list[str]:
    return [segment.name for segment in segments]


def placement(segment: TrackSegment, seed: int) -> Pose:
    """The segment's start with random errors: +-PLACEMENT_M along and across, +-PLACEMENT_RAD in yaw."""
    rng = np.random.default_rng([seed, 0x9A7])
    along, aside, turned = (float(v) for v in rng.uniform(-1.0, 1.0, 3))
    x, y, yaw = segment.path.pose(along * PLACEMENT_M, aside * PLACEMENT_M)
    return x, y, yaw + turned * PLACEMENT_RAD
