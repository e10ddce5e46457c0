"""A course over a real rosmaster, real rospy and the real on-board client, also through a real sshd."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import pytest
from support.robots.far_robot import far_robot, until
from support.robots.ros_master import ros_path
from support.robots.sshd import sshd

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.interpreters.make import make_interpreter
from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore
from closedloop_plugin.robots.course.runner import CoursePlan, run_course, segments_of
from closedloop_plugin.robots.course.transports.linked import PlannerSetup
from closedloop_plugin.robots.course.transports.ros import RosTransport, on_this_machine
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.sandbox.body import FOOTPRINTS
from closedloop_plugin.robots.sandbox.track import sandbox
from closedloop_plugin.robots.track_expert import TrackExpert
from closedloop_plugin.robots.transport.tunnel import SshTunnel
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig, find_robot
from lmms_eval_ad2.errors import Ad2Error

pytest_plugins = ("support.robots.real_time",)
RENEWED: dict[str, Any] = {}
TRACK = sandbox()
RULES = profile("bench2advlm")


@pytest.fixture(autouse=True)
def with_ros() -> None:
    ros_path()


def make_setup(robot: RobotConfig, **more: Any) -> PlannerSetup:
    slow = make_interpreter("rules", "rules", RULES)
    return on_this_machine(PlannerSetup(robot, TrackExpert(), slow, RULES, b"", **more))


def drive(
    folder: File, robot: RobotConfig, segments: str = "1", way: Callable[[int], Any] | None = None, **more: Any
) -> list[SegmentRunRecord]:
    setup = make_setup(robot, **more)
    plan = CoursePlan(
        TRACK, segments_of(TRACK, segments), 1, FOOTPRINTS[robot.vehicle.platform], 0, {"name": robot.name},
        setup.agent.describe(), None, RULES.name,
    )  # fmt: skip
    transport = RosTransport(setup, folder / "client.log", **({"way": way} if way else {}))
    with contextlib.closing(transport):
        return run_course(plan, transport, SegmentRunStore(folder))


def test_the_complete_loop_drives_one_segment_after_another(tmp_path: File) -> None:
    """Before the second run the vehicle is placed again, and its client connects to the next planner."""
    records = drive(tmp_path, find_robot("sandbox"), "2,6")
    assert [(r.segment, r.end, r.transport) for r in records] == [
        ("route2", "completed", "ros"),
        ("route6", "completed", "ros"),
    ]
    for record in records:
        assert record.counts["connected"] == 1 and 5 < record.counts["cycles"] < 40
        assert not [name for name in record.counts if name.startswith("order not sent")]
        assert record.driven_m == pytest.approx(record.length_m, rel=0.15)
    assert '"event": "motion"' in (tmp_path / "client.log").read_text()


def test_a_course_is_driven_through_an_ssh_tunnel(tmp_path: File) -> None:
    @contextlib.contextmanager
    def tunnel(port: int) -> Iterator[int]:
        with SshTunnel(robot, port) as ssh_tunnel:
            assert ssh_tunnel.wait_up(60), ssh_tunnel.reason
            yield robot.link.planner_port

    with sshd(tmp_path / "sshd") as server:
        robot = far_robot(server, tmp_path / "far")
        (record,) = drive(tmp_path, robot, way=tunnel)
    assert record.completed and record.counts["cycles"] > 5


def test_a_stop_while_driving_ends_the_course_and_the_same_course_can_be_driven_again(tmp_path: File) -> None:
    """Through the planner, as `ad2 robot stop` does it. The stopped run is not recorded."""

    @contextlib.contextmanager
    def reached(planner: PlannerServer) -> Iterator[None]:
        def stop() -> None:
            until(lambda: planner.cycle.counts["decisions"] >= 3)
            planner.stop("a hand on the button")

        stopping = threading.Thread(target=stop)
        stopping.start()
        yield
        stopping.join(60)

    with pytest.raises(Ad2Error, match="a hand on the button"):
        drive(tmp_path, find_robot("sandbox"), reachable=reached)
    assert SegmentRunStore(tmp_path).records == []
    assert "planner's stop" in (tmp_path / "client.log").read_text()
    (record,) = drive(tmp_path, find_robot("sandbox"))
    assert record.completed


@pytest.mark.parametrize("who", ["the client", "the ground-truth node"])
def test_a_node_that_dies_ends_the_course_and_is_named(
    tmp_path: File, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = make_setup(find_robot("sandbox"))
    with contextlib.closing(RosTransport(setup, tmp_path / "client.log")) as transport:
        monkeypatch.setattr(transport, "place", lambda segment, seed: segment.start)  # it is placed already
        transport._children[who].kill()
        transport._children[who].wait()
        plan = CoursePlan(
            TRACK, segments_of(TRACK, "1"), 1, FOOTPRINTS["limo"], 0, {"name": "limo"}, setup.agent.describe(), None, ""
        )
        with pytest.raises(Ad2Error, match=f"{who} ended by itself"):
            run_course(plan, transport, SegmentRunStore(tmp_path))
