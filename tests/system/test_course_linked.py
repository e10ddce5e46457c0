"""A course through the link: the real planner over TCP, a vehicle's end by hand, and a person at the keyboard."""

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
STEP_M = 0.2  # that the vehicle below goes in one motion


class Keyboard:
    """Somebody who answers where the vehicle is to be put with `answer`, and types what the test types."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self._out = os.fdopen(write, "w", buffering=1)
        self.said: list[str] = []
        self.answer = GO
        self.operator = OperatorKeyboard(os.fdopen(read), self._hear)

    def _hear(self, text: str) -> None:
        self.said.append(text)
        if "put the vehicle" in text:
            self.type(self.answer)

    def type(self, line: str) -> None:
        self._out.write(line + "\n")

    def leave(self) -> None:
        self._out.close()


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    made = Keyboard()
    yield made
    made.leave()


def link(agent: str = "straight") -> PlannerSetup:
    return PlannerSetup(find_robot("sandbox"), make_agent(agent), None, profile("bench2advlm"), TOKEN, port=free_port())


def watch(judges: bool = False) -> SegmentReferee:
    return SegmentReferee(SEGMENT.path, TRACK, FOOTPRINTS["limo"], judges)


class Vehicle(threading.Thread):
    """Connects as soon as there is a planner, and goes STEP_M with every order. Before order `pause` it calls `at`, and
    waits for what the planner does."""

    def __init__(self, port: int, pause: int = -1, at: Callable[[], None] = lambda: None) -> None:
        super().__init__(daemon=True)
        self._port, self._pause, self._at = port, pause, at
        self.orders: list[float] = []
        self.heard: list[str] = []
        self.start()

    def run(self) -> None:
        end = reached(self._port)
        try:
            for n in range(100):
                odom = {"x": 5 + n * STEP_M, "y": 1.0, "yaw": 0.0, "v": 0.1, "w": 0.0}
                end.see(n, 0.5 * n, odom=odom)
                if n == self._pause:
                    self._at()
                    while (frame := end.call()) is not None:
                        self.heard.append(frame[0])
                    return
                frame = end.call()
                if frame is None or frame[0] != "cmd":
                    return
                self.orders.append(frame[1]["twist"]["vx"])
        finally:
            end.close()


def reached(port: int) -> VehicleEnd:
    """Welcome, and with a heartbeat, as soon as there is a planner."""
    for _ in range(500):
        with suppress(ConnectionRefusedError):
            end = VehicleEnd(port)
            assert end.greet() is None
            return end.live()
        threading.Event().wait(0.02)
    raise AssertionError("no planner came")


def drive(made: LinkedTransport, seen: SegmentReferee, segment: TrackSegment = SEGMENT) -> CourseRunTrace:
    return made.drive(segment, seen, "route1_run1", 0)


def test_a_real_vehicle_s_way_is_read_off_its_odometry(keyboard: Keyboard) -> None:
    made, seen = VehicleTransport(link(), keyboard.operator), watch()
    vehicle = Vehicle(made.link.port)
    driven = drive(made, seen)
    vehicle.join(60)
    assert seen.end is SegmentEndReason.COMPLETED and len(driven.cycles) >= 5
    assert all(v > 0 for v in vehicle.orders)
    assert "x 0.34 m" in keyboard.said[0] and "EMERGENCY STOP" in keyboard.said[1]
    assert driven.poses[0][1:4] == pytest.approx(SEGMENT.start) and driven.counts["connected"] == 1


@pytest.mark.parametrize(("typed", "end"), (("l", SegmentEndReason.LINE), ("h", SegmentEndReason.HIT)))
def test_the_operator_says_what_no_odometry_sees(keyboard: Keyboard, typed: str, end: SegmentEndReason) -> None:
    made, seen = VehicleTransport(link(), keyboard.operator), watch()

    def steps() -> float:
        return seen.completion / 100 * SEGMENT.path.length / STEP_M

    def at_the_third() -> None:
        while steps() < 2 - 0.05:  # the picture before it has been judged
            threading.Event().wait(0.005)
        keyboard.type(typed)

    Vehicle(made.link.port, 3, at_the_third)
    drive(made, seen)
    assert seen.end is end and 2 - 0.05 < steps() < 3 + 0.05


def test_the_return_key_is_the_emergency_stop_and_nothing_is_recorded(keyboard: Keyboard) -> None:
    made, seen = VehicleTransport(link(), keyboard.operator), watch()
    vehicle = Vehicle(made.link.port, 2, lambda: keyboard.type(""))
    with pytest.raises(Ad2Error, match="emergency stop by the operator"):
        drive(made, seen)
    vehicle.join(60)
    assert vehicle.heard[-2:] == ["stop", "done"] and len(vehicle.orders) == 2


def test_what_was_typed_before_does_not_answer_a_question(keyboard: Keyboard) -> None:
    keyboard.type("q")
    keyboard.type("q")
    while keyboard.operator._lines.qsize() < 2:
        threading.Event().wait(0.005)
    answered: list[str] = []
    asking = threading.Thread(target=lambda: answered.append(keyboard.operator.prompt("where?")))
    asking.start()
    while not keyboard.said:
        threading.Event().wait(0.005)
    keyboard.type("Here")
    asking.join(60)
    assert answered == ["here"]


def test_an_operator_who_leaves_ends_the_course() -> None:
    with pytest.raises(Ad2Error, match="keyboard"):
        OperatorKeyboard(io.StringIO(""), lambda text: None).prompt("ready?")


def test_q_ends_the_course_before_anything_moves(keyboard: Keyboard) -> None:
    keyboard.answer = "q"
    with pytest.raises(Ad2Error, match="ended by the operator"):
        VehicleTransport(link(), keyboard.operator).place(SEGMENT, 0)


def test_no_key_but_that_of_driving_begins_a_run(keyboard: Keyboard) -> None:
    """A return that was meant as a stop as the run before ended, above all."""
    answers = iter(["", "l", "no", "drive"])
    asked: list[str] = []

    def say(text: str) -> None:
        asked.append(text)
        if "put the vehicle" in text:
            keyboard.type(next(answers, GO))

    keyboard.operator.show = say
    VehicleTransport(link(), keyboard.operator).place(SEGMENT, 0)
    assert len([text for text in asked if "put the vehicle" in text]) == 5


def test_a_vehicle_without_odometry_has_no_course(keyboard: Keyboard) -> None:
    robot = find_robot("jetbot-dusty-ros1")
    with pytest.raises(Ad2Error, match="no odometry"):
        VehicleTransport(replace(link(), robot=robot), keyboard.operator)


class Still(LinkedTransport):
    """A vehicle that nobody looks at."""

    name, judges = "test", False

    def place(self, segment: TrackSegment, seed: int) -> tuple[float, float, float]:
        return segment.start

    def poll(self, run: LinkedRun) -> None: ...


def test_a_stop_from_anywhere_ends_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ad2 robot stop` and the console reach the planner through what `reachable` opens."""
    found: list[PlannerServer] = []

    class Reached:
        def __init__(self, planner: PlannerServer) -> None:
            found.append(planner)

        def __enter__(self) -> None:
            found[0].stop("asked for")

        def __exit__(self, *error: object) -> None: ...

    with pytest.raises(Ad2Error, match="stopped: asked for"):
        drive(Still(replace(link(), reachable=Reached)), watch())


def test_a_vehicle_that_does_not_come_ends_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "SILENT_S", 0.05)
    with pytest.raises(Ad2Error, match="did not connect to the planner"):
        drive(Still(link()), watch())


def test_a_vehicle_that_is_there_and_sends_nothing_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong mode, say: the run is not the driver's fault, and has no record."""
    made = Still(link())

    def visit() -> None:
        end = reached(made.link.port)
        monkeypatch.setattr(linked, "SILENT_S", 0.05)
        end.call()

    guest = threading.Thread(target=visit, daemon=True)
    guest.start()
    with pytest.raises(Ad2Error, match="is connected, but sends no frame"):
        drive(made, watch())
    guest.join(60)


def test_what_breaks_in_the_watcher_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(Still):
        def poll(self, run: LinkedRun) -> None:
            raise ZeroDivisionError("blind")

    with pytest.raises(ZeroDivisionError, match="blind"):
        drive(Blind(link()), watch())


def test_interrupted_while_it_drives_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: PlannerServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PlannerServer, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drive(Still(link()), watch())
    assert not [t for t in threading.enumerate() if t.name == "ad2-referee"]
