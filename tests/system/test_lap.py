"""A lap with the complete loop: planner -> ssh -> on-board client -> rospy -> simulated vehicle -> camera, and back."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.robots.fault_rig import OFFSET, Rig, rig
from support.robots.real_time import Pulse

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.robots.course.guidance import PathHint, Pose, TrackExpert
from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.course.runner import segments_of
from closedloop_plugin.robots.deploy import read_token
from closedloop_plugin.robots.planner.journal import FILE, PlannerJournal
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.sandbox.scene import FOOTPRINTS
from closedloop_plugin.robots.sandbox.track import sandbox
from closedloop_plugin.robots.transport.ssh import SshTunnel

OVERHEAD_S = 0.05  # the limit on an idle machine is 10 ms; benchmarks/robot_faults.py measures it
HOPS = 20  # upper bound of how often a frame or its order waits for a process or thread to be scheduled
STEPS = range(10, 101, 10)  # percent of the lap; the rig waits a minute for each


def test_a_complete_lap_with_the_track_expert_and_the_rule_interpreter(tmp_path: Path) -> None:
    (lap,) = segments_of(sandbox(), "lap")
    with rig(tmp_path, speed=None, with_planner=False) as loop, Pulse() as pulse:
        place(loop, lap.start)
        observer = LapObserver(loop, SegmentReferee(lap.path, sandbox(), FOOTPRINTS["limo"]))
        expert, scale = TrackExpert(), loop.robot.vehicle.scale
        expert.set_path(lap.path, lambda: observer.pose, scale)
        with planner_of(loop, expert, PathHint(lap.path, lap.start, scale)) as planner:
            for percent in STEPS:
                loop.monitor.wait(lambda part=percent: observer.driven(part), f"{percent} % of the lap")
    assert observer.referee.end is SegmentEndReason.COMPLETED, observer.referee.what
    assert not {"agent_errors", "unparsed"} & set(planner.cycle.counts)
    ages, cycles = [line["age_s"] for line in loop.client_events("motion")], loop.cycles()
    connections = len(loop.client_events("connected"))  # one, unless this machine stalled
    assert len(cycles) > 40 and len(ages) >= len(cycles) - connections
    thinking = statistics.median(cycle["thinking_s"] for cycle in cycles)
    assert statistics.median(ages) - thinking < OVERHEAD_S + HOPS * statistics.median(pulse.late_s)


def place(loop: Rig, pose: Pose) -> None:
    """Put the vehicle there, at rest."""
    loop.monitor.send("place", *pose)
    loop.monitor.wait(
        lambda: any(abs(p.x - pose[0]) + abs(p.y - pose[1]) < OFFSET for p in loop.monitor.truths[-1:]), "placed"
    )


class LapObserver:
    """The true poses as the referee gets them. `pose`: the last one."""

    def __init__(self, loop: Rig, referee: SegmentReferee) -> None:
        self.referee = referee
        self._monitor = loop.monitor
        self._seen = loop.monitor.truths[-1].t

    @property
    def pose(self) -> Pose:
        last = self._monitor.truths[-1]
        return last.x, last.y, last.yaw

    def driven(self, percent: float) -> bool:
        """Whether the run is over or so far. Called after each report."""
        for truth in (p for p in self._monitor.truths if p.t > self._seen):
            self._seen = truth.t
            self.referee.observe(truth.x, truth.y, truth.yaw)
        return self.referee.end is not None or self.referee.completion >= percent


@contextmanager
def planner_of(loop: Rig, expert: TrackExpert, hint: PathHint) -> Iterator[PlannerServer]:
    """A planner in this process, reached by the rig's client through a tunnel."""
    robot, rules = loop.robot, profile("bench2advlm")
    token = read_token(loop.home / "robots" / f"{robot.name}.token")
    journal = PlannerJournal(loop.folder / "out")
    planner = PlannerServer(
        expert, make_interpreter("rules", "rules", rules), rules, robot.vehicle, token, journal=journal
    )
    planner.cycle.hint = hint
    worker = threading.Thread(target=planner.work)
    with planner.listening("127.0.0.1", 0) as (_, port), SshTunnel(robot, port) as tunnel:
        assert tunnel.wait_up(60), tunnel.reason
        worker.start()
        try:
            yield planner
        finally:
            planner.close()
            worker.join(60)
    assert (loop.folder / "out" / FILE).exists()
