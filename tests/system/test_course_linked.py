"""A course over the link: the real planner over TCP, a scripted vehicle, and an operator at the keyboard."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from support.robots.vehicle_end import TOKEN, VehicleEnd

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.robots.course.referee import SegmentEndReason, SegmentReferee
from closedloop_plugin.robots.course.runner import CourseRunTrace
from closedloop_plugin.robots.course.transports import linked
from closedloop_plugin.robots.course.transports.linked import LinkedRun, LinkedTransport, PlannerSetup
from closedloop_plugin.robots.course.transports.ros import free_port
from closedloop_plugin.robots.course.transports.vehicle import GO, OperatorKeyboard, VehicleTransport
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.sandbox.body import FOOTPRINTS
from closedloop_plugin.robots.sandbox.track import TrackSegment, sandbox
from closedloop_plugin.robots.vehicles.robot_config import find_robot
from lmms_eval_ad2.errors import Ad2Error

TRACK = sandbox()
SEGMENT = TRACK.segments[0]
STEP_M = 0.2  # distance of one motion of the vehicle below


class Keyboard:
    """An operator who replies `answer` when asked to place the vehicle, and types the lines of the test."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self._out = os.fdopen(write, "w", buffering=1)
        self.shown: list[str] = []
        self.answer = GO
        self.operator = OperatorKeyboard(os.fdopen(read), self._show)

    def _show(self, text: str) -> None:
        self.shown.append(text)
        if "put the vehicle" in text:
            self.type(self.answer)

    def type(self, line: str) -> None:
        self._out.write(line + "\n")

    def close(self) -> None:
        self._out.close()


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    opened = Keyboard()
    yield opened
    opened.close()


def make_setup(agent: str = "straight") -> PlannerSetup:
    return PlannerSetup(find_robot("sandbox"), make_agent(agent), None, profile("bench2advlm"), TOKEN, port=free_port())


def make_referee(judges: bool = False) -> SegmentReferee:
    return SegmentReferee(SEGMENT.path, TRACK, FOOTPRINTS["limo"], judges)


class Vehicle(threading.Thread):
    """Connects as soon as a planner listens, and moves STEP_M per order. Before order `pause` it calls `at`, and then
    only receives."""

    def __init__(self, port: int, pause: int = -1, at: Callable[[], None] = lambda: None) -> None:
        super().__init__(daemon=True)
        self._port, self._pause, self._at = port, pause, at
        self.orders: list[float] = []
        self.received: list[str] = []
        self.start()

    def run(self) -> None:
        vehicle_end = connect_vehicle(self._port)
        try:
            for n in range(100):
                odom = {"x": 5 + n * STEP_M, "y": 1.0, "yaw": 0.0, "v": 0.1, "w": 0.0}
                vehicle_end.send_observation(n, 0.5 * n, odom=odom)
                if n == self._pause:
                    self._at()
                    while (frame := vehicle_end.receive()) is not None:
                        self.received.append(frame[0])
                    return
                frame = vehicle_end.receive()
                if frame is None or frame[0] != "cmd":
                    return
                self.orders.append(frame[1]["twist"]["vx"])
        finally:
            vehicle_end.close()


def connect_vehicle(port: int) -> VehicleEnd:
    """Connect as soon as a planner listens, and start the heartbeat."""
    for _ in range(500):
        with suppress(ConnectionRefusedError):
            vehicle_end = VehicleEnd(port)
            assert vehicle_end.handshake() is None
            return vehicle_end.start_heartbeats()
        threading.Event().wait(0.02)
    raise AssertionError("no planner came")


def drive(transport: LinkedTransport, referee: SegmentReferee, segment: TrackSegment = SEGMENT) -> CourseRunTrace:
    return transport.drive(segment, referee, "route1_run1", 0)


def test_the_progress_of_a_real_vehicle_is_computed_from_its_odometry(keyboard: Keyboard) -> None:
    transport, referee = VehicleTransport(make_setup(), keyboard.operator), make_referee()
    vehicle = Vehicle(transport.link.port)
    trace = drive(transport, referee)
    vehicle.join(60)
    assert referee.end is SegmentEndReason.COMPLETED and len(trace.cycles) >= 5
    assert all(v > 0 for v in vehicle.orders)
    assert "x 0.34 m" in keyboard.shown[0] and "EMERGENCY STOP" in keyboard.shown[1]
    assert trace.poses[0][1:4] == pytest.approx(SEGMENT.start) and trace.counts["connected"] == 1


@pytest.mark.parametrize(("typed", "end"), (("l", SegmentEndReason.LINE), ("h", SegmentEndReason.HIT)))
def test_the_operator_reports_a_crossed_line_or_a_hit(keyboard: Keyboard, typed: str, end: SegmentEndReason) -> None:
    transport, referee = VehicleTransport(make_setup(), keyboard.operator), make_referee()

    def steps() -> float:
        return referee.completion / 100 * SEGMENT.path.length / STEP_M

    def at_the_third_order() -> None:
        while steps() < 2 - 0.05:  # the frame before it has been judged
            threading.Event().wait(0.005)
        keyboard.type(typed)

    Vehicle(transport.link.port, 3, at_the_third_order)
    drive(transport, referee)
    assert referee.end is end and 2 - 0.05 < steps() < 3 + 0.05


def test_the_return_key_is_the_emergency_stop(keyboard: Keyboard) -> None:
    transport, referee = VehicleTransport(make_setup(), keyboard.operator), make_referee()
    vehicle = Vehicle(transport.link.port, 2, lambda: keyboard.type(""))
    with pytest.raises(Ad2Error, match="emergency stop by the operator"):
        drive(transport, referee)
    vehicle.join(60)
    assert vehicle.received[-2:] == ["stop", "done"] and len(vehicle.orders) == 2


def test_lines_typed_before_a_prompt_are_ignored(keyboard: Keyboard) -> None:
    keyboard.type("q")
    keyboard.type("q")
    while keyboard.operator._lines.qsize() < 2:
        threading.Event().wait(0.005)
    answers: list[str] = []
    prompting = threading.Thread(target=lambda: answers.append(keyboard.operator.prompt("where?")))
    prompting.start()
    while not keyboard.shown:
        threading.Event().wait(0.005)
    keyboard.type("Here")
    prompting.join(60)
    assert answers == ["here"]


def test_a_closed_keyboard_ends_the_course() -> None:
    with pytest.raises(Ad2Error, match="keyboard"):
        OperatorKeyboard(io.StringIO(""), lambda text: None).prompt("ready?")


def test_q_ends_the_course_before_anything_moves(keyboard: Keyboard) -> None:
    keyboard.answer = "q"
    with pytest.raises(Ad2Error, match="ended by the operator"):
        VehicleTransport(make_setup(), keyboard.operator).place(SEGMENT, 0)


def test_only_the_drive_key_starts_a_run(keyboard: Keyboard) -> None:
    """In particular, a return that was meant as a stop of the run before does not."""
    answers = iter(["", "l", "no", "drive"])
    prompts: list[str] = []

    def show(text: str) -> None:
        prompts.append(text)
        if "put the vehicle" in text:
            keyboard.type(next(answers, GO))

    keyboard.operator.show = show
    VehicleTransport(make_setup(), keyboard.operator).place(SEGMENT, 0)
    assert len([text for text in prompts if "put the vehicle" in text]) == 5


def test_a_vehicle_without_odometry_is_refused(keyboard: Keyboard) -> None:
    robot = find_robot("jetbot-dusty-ros1")
    with pytest.raises(Ad2Error, match="no odometry"):
        VehicleTransport(replace(make_setup(), robot=robot), keyboard.operator)


class UnwatchedTransport(LinkedTransport):
    """A transport that does not observe its vehicle."""

    name, judges = "test", False

    def place(self, segment: TrackSegment, seed: int) -> tuple[float, float, float]:
        return segment.start

    def poll(self, run: LinkedRun) -> None: ...


def test_a_stop_from_another_process_ends_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ad2 robot stop` reaches the planner through the context manager `reachable`."""
    planners: list[PlannerServer] = []

    class StoppedPlanner:
        def __init__(self, planner: PlannerServer) -> None:
            planners.append(planner)

        def __enter__(self) -> None:
            planners[0].stop("asked for")

        def __exit__(self, *error: object) -> None: ...

    with pytest.raises(Ad2Error, match="stopped: asked for"):
        drive(UnwatchedTransport(replace(make_setup(), reachable=StoppedPlanner)), make_referee())


def test_a_vehicle_that_does_not_connect_ends_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "SILENT_S", 0.05)
    with pytest.raises(Ad2Error, match="did not connect to the planner"):
        drive(UnwatchedTransport(make_setup()), make_referee())


def test_a_connected_vehicle_that_sends_nothing_ends_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example in the wrong mode. It is not the agent's fault, so the run is not recorded."""
    transport = UnwatchedTransport(make_setup())

    def connect() -> None:
        vehicle_end = connect_vehicle(transport.link.port)
        monkeypatch.setattr(linked, "SILENT_S", 0.05)
        vehicle_end.receive()

    vehicle = threading.Thread(target=connect, daemon=True)
    vehicle.start()
    with pytest.raises(Ad2Error, match="is connected, but sends no frame"):
        drive(transport, make_referee())
    vehicle.join(60)


def test_an_error_while_polling_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingTransport(UnwatchedTransport):
        def poll(self, run: LinkedRun) -> None:
            raise ZeroDivisionError("blind")

    with pytest.raises(ZeroDivisionError, match="blind"):
        drive(FailingTransport(make_setup()), make_referee())


def test_an_interrupt_while_driving_leaves_no_referee_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: PlannerServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PlannerServer, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drive(UnwatchedTransport(make_setup()), make_referee())
    assert not [t for t in threading.enumerate() if t.name == "ad2-referee"]
