"""A course in this process: agent, interpreter and the sandbox's vehicle in simulated time, without ROS and ssh.

The same decisions, limits, conversion and body as through ROS; what is left out is the link: no frame is lost, none is
late, and thinking takes no time. Faster than real time, and the same every time.
"""

from __future__ import annotations

from typing import Any

from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.course.route_hint import PathHint, Pose, guide
from closedloop_plugin.robots.course.runner import CourseRunTrace, placed
from closedloop_plugin.robots.onboard import clamp
from closedloop_plugin.robots.planner.decision_cycle import PATIENCE, CycleResult, DecisionCycle, VehicleObservation
from closedloop_plugin.robots.planner.server import MOTION_S
from closedloop_plugin.robots.sandbox.scene import SandboxScene
from closedloop_plugin.robots.sandbox.track import SandboxTrack, TrackSegment
from closedloop_plugin.robots.track_expert import TrackExpert
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, WordCommand

STEP_S = 0.01  # of the body
REPEAT_STEPS = 5  # a command goes out at 20 Hz, as the client on board repeats it
WATCH_STEPS = 2  # the referee looks at 50 Hz, as at a truth that comes through ROS
# From the end of a motion to the next frame that is taken after it: one period of a camera at 20 Hz. The wheels are
# told to stand meanwhile.
FRAME_S = 0.05


class LocalTransport:
    """See the head of this file. `cycle`: the driver, not begun."""

    name = "local"
    judges = True

    def __init__(self, cycle: DecisionCycle, track: SandboxTrack, motion_s: float = MOTION_S) -> None:
        self.cycle, self._motion_s = cycle, motion_s
        self._scene = SandboxScene(cycle.vehicle, track)
        self._onboard = cycle.vehicle.to_onboard()

    def drive(self, segment: TrackSegment, watch: SegmentReferee, episode: str, seed: int) -> CourseRunTrace:
        """See Transport.drive."""
        cycle, scene = self.cycle, self._scene
        start = placed(segment, seed)
        self._put(start)
        path = guide(watch.track, segment)
        cycle.hint = PathHint(path, start, cycle.vehicle.scale)
        if isinstance(cycle.agent, TrackExpert):
            cycle.agent.take(path, lambda: scene.body.pose, cycle.vehicle.scale)
        before = cycle.counts.copy()
        cycle.begin(episode)
        run = _Run(scene, self._onboard, watch)
        run.look()
        while watch.end is None:
            odometry = scene.body.odometry() if cycle.vehicle.topics.odom else None
            sight = VehicleObservation(len(run.driven.cycles), run.t, scene.jpeg(), odometry)
            turn = cycle.decide(sight)
            run.driven.cycles.append(line(turn, run.t, scene.body.pose))
            watch.decided()
            run.move(turn.actuation, cycle.vehicle.motion_s(turn.actuation, self._motion_s))
            run.stand(FRAME_S)
            if cycle.failures >= PATIENCE:
                watch.stop(SegmentEndReason.AGENT, f"{cycle.failures} failures in a row, the last: {turn.error}")
        cycle.finish()
        run.driven.counts = dict(cycle.counts - before)
        return run.driven

    def close(self) -> None:
        """Nothing to end."""

    def _put(self, pose: Pose) -> None:
        self._scene.command(_actuation(clamp.stop(self._onboard)))
        self._scene.place(*pose)


class _Run:
    """Simulated time of one run; nothing moves any more once the referee has ended it."""

    def __init__(self, scene: SandboxScene, onboard: dict[str, Any], watch: SegmentReferee) -> None:
        self.scene, self.watch, self.driven = scene, watch, CourseRunTrace()
        self.t = 0.0
        self._onboard = onboard
        self._steps = 0

    def move(self, actuation: Actuation, seconds: float) -> None:
        self._hold(_actuation(clamp.clamp(actuation.to_onboard(), self._onboard)), seconds)

    def stand(self, seconds: float) -> None:
        self._hold(_actuation(clamp.stop(self._onboard)), seconds)

    def look(self) -> None:
        body = self.scene.body
        self.driven.poses.append((self.t, *body.pose, body.vx))
        self.watch.see(*body.pose)

    def _hold(self, actuation: Actuation, seconds: float) -> None:
        for step in range(round(seconds / STEP_S)):
            if self.watch.end is not None:
                return
            if step % REPEAT_STEPS == 0:
                self.scene.command(actuation)
            self.scene.step(STEP_S)
            self._steps += 1
            self.t = self._steps * STEP_S
            if self._steps % WATCH_STEPS == 0:
                self.look()


def line(turn: CycleResult, t: float, pose: Pose) -> dict[str, Any]:
    """One cycle for tracks/ and logs/: the Turn, when it was asked, where the vehicle was, and what was sent."""
    logged = turn.log()
    sent = {"word": logged["word"]} if "word" in logged else dict(logged["twist"])
    return {**logged, "t": round(t, 4), "pose": [round(v, 4) for v in pose], "sent": sent}


def _actuation(onboard: dict[str, Any]) -> Actuation:
    return WordCommand(onboard["word"]) if "word" in onboard else Twist(**onboard["twist"])
