"""A course through the real link: each run has its own planner, to which the vehicle's client connects.

Between two runs there is no planner that could move the vehicle, and a new connection discards pending frames of the
previous run. The model runs in the thread that calls `drive`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.course.route_hint import PathHint, Pose, guide_path
from closedloop_plugin.robots.course.runner import CourseRunTrace
from closedloop_plugin.robots.course.transports.local import line
from closedloop_plugin.robots.planner.decision_cycle import FAILURES_MAX, CycleResult
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.sandbox.track import TrackSegment
from closedloop_plugin.robots.track_expert import TrackExpert
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error

POLL_S = 0.01  # between two polls of the vehicle
SILENT_S = 30.0  # without a frame from the vehicle; then the course ends and can be resumed
Truth = tuple[float, float, float, float, float]  # s since the run's start, x, y, yaw, speed


@dataclass(frozen=True)
class PlannerSetup:
    """Driver, robot, and the address of the planner. `reachable`: context manager in which each planner runs."""

    robot: RobotConfig
    agent: Agent
    interpreter: Interpreter | None
    profile: Profile
    token: bytes
    host: str = "127.0.0.1"
    port: int = 0
    reachable: Callable[[PlannerServer], AbstractContextManager[None]] = lambda planner: nullcontext()


class LinkedRun:
    """The state of one run: true or estimated poses, and the trace."""

    def __init__(self, referee: SegmentReferee, hint: PathHint, start: Pose) -> None:
        self.referee, self.hint, self.trace = referee, hint, CourseRunTrace()
        self.here, self.t = start, 0.0

    def see(self, truth: Truth) -> None:
        self.t, x, y, yaw, _ = truth
        self.here = x, y, yaw
        self.trace.poses.append(truth)
        self.referee.observe(x, y, yaw)


class LinkedTransport:
    """Base class of the transports that use the link. Subclasses implement `place` and `poll`."""

    name = ""
    judges = True

    def __init__(self, link: PlannerSetup) -> None:
        self.link = link

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        """Place the vehicle at the segment's start; returns its pose."""
        raise NotImplementedError

    def poll(self, run: LinkedRun) -> None:
        """Add the poses since the last poll to the run. Called from a separate thread."""
        raise NotImplementedError

    def on_cycle(self, run: LinkedRun, result: CycleResult) -> None:
        """Record a decision. Called from the thread that drives."""
        run.trace.cycles.append(line(result, run.t, run.here))
        run.referee.count_decision()

    def close(self) -> None:
        raise NotImplementedError

    def drive(self, segment: TrackSegment, referee: SegmentReferee, episode: str, seed: int) -> CourseRunTrace:
        """See CourseTransport.drive. Ad2Error: the vehicle did not connect or was stopped; the run is not recorded."""
        link = self.link
        start = self.place(segment, seed)
        path = guide_path(referee.track, segment)
        hint = PathHint(path, start, link.robot.vehicle.scale)
        run = LinkedRun(referee, hint, start)
        planner = PlannerServer(
            agent=link.agent,
            interpreter=link.interpreter,
            profile=link.profile,
            vehicle=link.robot.vehicle,
            token=link.token,
            course=hint,
            seed=seed,
            motion_s=link.robot.onboard.motion_s,
            failures_max=None,  # checked below: a latched stop would block the next run
        )
        planner.on_cycle.append(lambda result: self.on_cycle(run, result))
        if isinstance(link.agent, TrackExpert):
            link.agent.set_path(path, lambda: run.here, link.robot.vehicle.scale)
        planner.begin(episode)
        with planner.listening(link.host, link.port), link.reachable(planner), self._watched(planner, run):
            planner.work()
        run.trace.counts = {**planner.cycle.counts, **planner.journal.counts}
        return run.trace

    @contextmanager
    def _watched(self, planner: PlannerServer, run: LinkedRun) -> Iterator[None]:
        """Poll the vehicle until the block ends; close the planner when the run is over."""
        over, errors = threading.Event(), []

        def watch() -> None:
            try:
                self._until_over(planner, run, over)
            except Exception as exc:  # raised again in the thread that drives
                errors.append(exc)
            planner.close("the run is over")

        thread = threading.Thread(target=watch, name="ad2-referee")
        thread.start()
        try:
            yield
        finally:
            over.set()
            planner.close("the run is over")
            thread.join()
        if errors:
            raise errors[0]

    def _until_over(self, planner: PlannerServer, run: LinkedRun, over: threading.Event) -> None:
        cycles, active_at = 0, time.monotonic()
        while run.referee.end is None and not over.wait(POLL_S):
            self.poll(run)
            state = planner.state()
            if planner.cycle.failures >= FAILURES_MAX:
                run.referee.stop(
                    SegmentEndReason.AGENT, f"{FAILURES_MAX} failures in a row, the last: {state['failure']}"
                )
            elif state["latched"] is not None:
                raise Ad2Error(f"stopped: {state['latched']}. The same command continues with this run")
            now = time.monotonic()
            if state["state"] == "thinking" or len(run.trace.cycles) > cycles:
                cycles, active_at = len(run.trace.cycles), now
            if now - active_at > SILENT_S:
                raise Ad2Error(_silent(planner.vehicle.name, state))


def _silent(vehicle: str, state: Mapping[str, Any]) -> str:
    what = "is connected, but sends no frame" if state["connected"] else "did not connect to the planner"
    why = f" (it said: {state['said']})" if state["said"] else ""
    return (
        f"{vehicle} {what} for {SILENT_S:.0f} s{why}. Does its client run? Is it in the mode of its file? Is there "
        "an emergency stop on board (ad2 robot stop --release --on-board)? The same command continues with this run"
    )
