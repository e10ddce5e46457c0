"""A course through the real link: for every run a planner of its own, which the vehicle's client connects to.

Between two runs there is no planner, and so nothing that could move the vehicle; a new connection also forgets what an
earlier run has asked. The model thinks in the thread that calls `drive`.
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
from closedloop_plugin.robots.course.route_hint import PathHint, Pose, guide
from closedloop_plugin.robots.course.runner import CourseRunTrace
from closedloop_plugin.robots.course.transports.local import line
from closedloop_plugin.robots.planner.decision_cycle import PATIENCE, CycleResult
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.sandbox.track import TrackSegment
from closedloop_plugin.robots.track_expert import TrackExpert
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error

LOOK_S = 0.01  # between two looks at the vehicle
SILENT_S = 30.0  # without a picture from the vehicle; then the course ends, and can be gone on with
Truth = tuple[float, float, float, float, float]  # s since the run's start, x, y, yaw, speed


@dataclass(frozen=True)
class PlannerSetup:
    """Who drives which robot, and where its client finds the planner. `reachable`: what else hears of each planner."""

    robot: RobotConfig
    agent: Agent
    interpreter: Interpreter | None
    profile: Profile
    token: bytes
    host: str = "127.0.0.1"
    port: int = 0
    reachable: Callable[[PlannerServer], AbstractContextManager[None]] = lambda planner: nullcontext()


class LinkedRun:
    """What the watcher sees and the planner says, of one run."""

    def __init__(self, watch: SegmentReferee, hint: PathHint, start: Pose) -> None:
        self.watch, self.hint, self.driven = watch, hint, CourseRunTrace()
        self.here, self.t = start, 0.0

    def see(self, truth: Truth) -> None:
        self.t, x, y, yaw, _ = truth
        self.here = x, y, yaw
        self.driven.poses.append(truth)
        self.watch.see(x, y, yaw)


class LinkedTransport:
    """What both ways through the link share; `place` and `look` are the subclass's."""

    name = ""
    judges = True

    def __init__(self, link: PlannerSetup) -> None:
        self.link = link

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        """The vehicle stands at the segment's start; where exactly."""
        raise NotImplementedError

    def look(self, run: LinkedRun) -> None:
        """Tell the run what has been seen since the last look. Called from a thread of its own."""
        raise NotImplementedError

    def hear(self, run: LinkedRun, turn: CycleResult) -> None:
        """A decision was made. Called from the thread that drives."""
        run.driven.cycles.append(line(turn, run.t, run.here))
        run.watch.decided()

    def close(self) -> None:
        raise NotImplementedError

    def drive(self, segment: TrackSegment, watch: SegmentReferee, episode: str, seed: int) -> CourseRunTrace:
        """See Transport.drive. Ad2Error: the vehicle did not come, or somebody stopped it; nothing is recorded then."""
        link = self.link
        start = self.place(segment, seed)
        path = guide(watch.track, segment)
        hint = PathHint(path, start, link.robot.vehicle.scale)
        run = LinkedRun(watch, hint, start)
        planner = PlannerServer(
            link.agent, link.interpreter, link.profile, link.robot.vehicle, link.token, hint,
            seed=seed, motion_s=link.robot.onboard.motion_s,
            patience=None,  # the referee's: a stop for good would keep the vehicle from the next run
        )  # fmt: skip
        planner.on_cycle.append(lambda turn: self.hear(run, turn))
        if isinstance(link.agent, TrackExpert):
            link.agent.take(path, lambda: run.here, link.robot.vehicle.scale)
        planner.begin(episode)
        with planner.listening(link.host, link.port), link.reachable(planner), self._watched(planner, run):
            planner.work()
        run.driven.counts = {**planner.cycle.counts, **planner.journal.counts}
        return run.driven

    @contextmanager
    def _watched(self, planner: PlannerServer, run: LinkedRun) -> Iterator[None]:
        """Until the block ends the vehicle is looked at, and the planner closed when the run is over."""
        over, broken = threading.Event(), []

        def look() -> None:
            try:
                self._until_over(planner, run, over)
            except Exception as exc:  # told by the thread that drives
                broken.append(exc)
            planner.close("the run is over")

        thread = threading.Thread(target=look, name="ad2-referee")
        thread.start()
        try:
            yield
        finally:
            over.set()
            planner.close("the run is over")
            thread.join()
        if broken:
            raise broken[0]

    def _until_over(self, planner: PlannerServer, run: LinkedRun, over: threading.Event) -> None:
        asked, heard = 0, time.monotonic()
        while run.watch.end is None and not over.wait(LOOK_S):
            self.look(run)
            state = planner.state()
            if planner.cycle.failures >= PATIENCE:
                run.watch.stop(SegmentEndReason.AGENT, f"{PATIENCE} failures in a row, the last: {state['words']}")
            elif state["latched"] is not None:
                raise Ad2Error(f"stopped: {state['latched']}. The same command goes on with this run")
            now = time.monotonic()
            if state["state"] == "thinking" or len(run.driven.cycles) > asked:
                asked, heard = len(run.driven.cycles), now
            if now - heard > SILENT_S:
                raise Ad2Error(_silent(planner.vehicle.name, state))


def _silent(vehicle: str, state: Mapping[str, Any]) -> str:
    what = "is connected, and sends no picture" if state["connected"] else "did not come to the planner"
    why = f" (it said: {state['said']})" if state["said"] else ""
    return (
        f"{vehicle} {what} for {SILENT_S:.0f} s{why}. Does its client run? Is it in the mode that its file says? Is "
        "there an emergency stop on board (ad2 robot stop --release --on-board)? The same command goes on with this run"
    )
