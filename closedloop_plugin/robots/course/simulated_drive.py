"""Drives the sandbox's vehicle in this process: agent, interpreter and vehicle in simulated time, without ROS and ssh.

Decisions, limits, conversion and vehicle model are those of `ad2 robot plan`; only the link is left out: no frame is
lost or late, and decisions take no time. Faster than real time and reproducible.
"""

from __future__ import annotations

from typing import Any

from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.course.route_hint import PathHint, Pose, guide_path
from closedloop_plugin.robots.course.runner import CourseRunTrace, placement
from closedloop_plugin.robots.onboard import clamp
from closedloop_plugin.robots.planner.decision_cycle import FAILURES_MAX, CycleResult, DecisionCycle, VehicleObservation
from closedloop_plugin.robots.planner.server import MOTION_S
from closedloop_plugin.robots.sandbox.scene import SandboxScene
from closedloop_plugin.robots.sandbox.track import SandboxTrack, TrackSegment
from closedloop_plugin.robots.track_expert import TrackExpert
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, WordCommand

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
        self._put(start)
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

    def _put(self, pose: Pose) -> None:
        self._scene.command(_actuation(clamp.stop(self._onboard)))
        self._scene.place(*pose)


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
