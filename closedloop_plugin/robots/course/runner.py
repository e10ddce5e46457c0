"""A course: every segment so many times. Each run is recorded at once: the same command goes on where it stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path as File
from statistics import median
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore
from closedloop_plugin.robots.course.referee import SegmentReferee
from closedloop_plugin.robots.course.rosbag import available, write_bag
from closedloop_plugin.robots.course.route_hint import Pose
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack, TrackSegment
from closedloop_plugin.show.robot_view import robot_view
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

LAP = "lap"
_PLANNED_STEP = 4  # of a path's points, every so manieth is enough to draw it
_SEED_STEP = 7919  # apart, so that two runs of one course never share a seed


@dataclass
class CourseRunTrace:
    """What one run was: poses (t, x, y, yaw, speed) on the track, and a line for each cycle, t from the run's start."""

    poses: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    cycles: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class CourseTransport(Protocol):
    """How words come to wheels: inside this process, through ROS, or to a real vehicle."""

    name: str
    judges: bool  # the poses are true, so that lines and obstacles can be judged by them

    def drive(self, segment: TrackSegment, watch: SegmentReferee, episode: str, seed: int) -> CourseRunTrace:
        """Place the vehicle at the segment's start, and drive until `watch` has an end."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CoursePlan:
    """What is driven, and what every record of it says."""

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
        """One run of every segment, then the next: a course that is broken off has driven all of them alike."""
        for run in range(1, self.runs + 1):
            yield from ((segment, run) for segment in self.segments)


def segments_of(track: SandboxTrack, wanted: str) -> tuple[TrackSegment, ...]:
    """`all`, `lap` (the whole lap in one), or names and numbers with commas between: `1,3,route7`."""
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
    transport: CourseTransport,
    ledger: SegmentRunStore,
    *,
    retry_failed: bool = False,
    told: Callable[[SegmentRunRecord], None] = lambda record: None,
) -> list[SegmentRunRecord]:
    """Drive what is missing. Returns the records of everything that was asked for, old and new."""
    found = []
    for segment, run in plan.tasks():
        record = ledger.has(segment.name, run)
        if record is None or (retry_failed and record.again):
            record = _one(plan, transport, ledger, segment, run)
            told(record)
        found.append(record)
    return found


def _one(
    plan: CoursePlan, transport: CourseTransport, ledger: SegmentRunStore, segment: TrackSegment, run: int
) -> SegmentRunRecord:
    watch = SegmentReferee(segment.path, plan.track, plan.footprint, transport.judges)
    seed = plan.seed + _SEED_STEP * run
    driven = transport.drive(segment, watch, f"{segment.name}_run{run}", seed)
    record = _record(plan, transport.name, segment, run, seed, watch, driven)
    _write(ledger.folder, drive_of(plan, segment, record, driven), record)
    ledger.add(record)
    return record


def _record(
    plan: CoursePlan,
    transport: str,
    segment: TrackSegment,
    run: int,
    seed: int,
    watch: SegmentReferee,
    driven: CourseRunTrace,
) -> SegmentRunRecord:
    assert watch.end is not None, "a run without an end"
    poses = driven.poses or [(0.0, *segment.start, 0.0)]
    thinking = [c["thinking_s"] for c in driven.cycles]
    return SegmentRunRecord(
        segment.name, run, segment.geometry, watch.end, watch.what,
        completion=watch.completion, length_m=segment.path.length,
        driven_m=sum(math.dist(a[1:3], b[1:3]) for a, b in pairwise(poses)), time_s=poses[-1][0],
        robot=dict(plan.robot), agent=dict(plan.agent),
        interpreter=dict(plan.interpreter) if plan.interpreter else None,
        profile=plan.profile, transport=transport, seed=seed, ended=poses[-1][1:4],
        counts={**driven.counts, "cycles": len(driven.cycles)},
        timing={"thinking_median_s": median(thinking)} if thinking else {}, versions=dict(plan.versions),
    )  # fmt: skip


def drive_of(
    plan: CoursePlan, segment: TrackSegment, record: SegmentRunRecord, driven: CourseRunTrace
) -> dict[str, Any]:
    """What tracks/ keeps of a run; the picture and the bag are made of it."""
    track, foot = plan.track, plan.footprint
    return {
        "format": 1,
        "floor": list(track.size),
        "lines": [_short(track.left), _short(track.right)],
        "obstacles": [_short(box.corners, 1) for box in track.obstacles],
        "planned": _short(segment.path.xy),
        "footprint": [foot.length, foot.width, foot.ahead],
        "poses": [[round(v, 5) for v in pose] for pose in driven.poses],
        "cycles": driven.cycles,
        "result": json.loads(record.to_json()),
    }


def _short(points: Any, step: int = _PLANNED_STEP) -> list[list[float]]:
    kept = [*points[:-1:step], points[-1]]
    return [[round(float(x), 4), round(float(y), 4)] for x, y in kept]


def _write(folder: File, drive: Mapping[str, Any], record: SegmentRunRecord) -> None:
    with atomic_write(folder / "tracks" / f"{record.name}.json") as out:
        json.dump(drive, out, ensure_ascii=False, allow_nan=False)
    with atomic_write(folder / "logs" / f"{record.name}.jsonl") as out:
        out.writelines(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in drive["cycles"])
    robot_view(drive, folder / "pictures" / f"{record.name}.png")
    if available():
        write_bag(drive, folder / "bags" / f"{record.name}.bag")


def names(segments: Sequence[TrackSegment]) -> list[str]:
    return [segment.name for segment in segments]


# Where a vehicle is put down: at a segment's start, as exactly as a hand does it.
# Without these a deterministic driver would drive three times the same. Far less than what a lane leaves beside it.
HAND_M = 0.01
HAND_RAD = math.radians(1.5)


def placed(segment: TrackSegment, seed: int) -> Pose:
    """The segment's start, off by up to HAND_M along and aside and by up to HAND_RAD; the same for the same seed."""
    dice = np.random.default_rng([seed, 0x9A7])
    along, aside, turned = (float(v) for v in dice.uniform(-1.0, 1.0, 3))
    x, y, yaw = segment.path.pose(along * HAND_M, aside * HAND_M)
    return x, y, yaw + turned * HAND_RAD
