"""The planner over real sockets: orders, authentication, refused frames and the emergency stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.robots.vehicle_end import TOKEN, VehicleEnd, connected
from support.tiers import examples

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, RouteCommand
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents.history import with_history
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner import session as planner_session
from closedloop_plugin.robots.planner.decision_cycle import FAILURES_MAX
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

pytestmark = pytest.mark.integration

LIMO = VEHICLES["limo-ackermann"]
RULES = profile("bench2advlm")
AHEAD = Decision(control=Control(0.0, 0.5, 0.0))


@dataclass
class ScriptedAgent:
    """Returns scripted decisions; `gate` delays them."""

    reply: Callable[[DecisionRequest], Decision] = lambda request: AHEAD
    name: str = "scripted"
    privileged: bool = False
    local: bool = True
    cameras: tuple[Camera, ...] = ()
    requests: list[DecisionRequest] = field(default_factory=list)
    drives: list[str] = field(default_factory=list)
    thinking: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def start(self, episode: str, seed: int) -> None:
        self.drives.append(f"start {episode}")

    def end(self, episode: str) -> None:
        self.drives.append(f"end {episode}")

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.requests += requests
        self.thinking.set()
        assert self.gate.wait(60)
        return [self.reply(request) for request in requests]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


@contextmanager
def planning(agent: Agent, **options: Any) -> Iterator[tuple[PlannerServer, int]]:
    """A planner that works in a thread."""
    interpreter = make_interpreter("rules", "rules", RULES)
    planner = PlannerServer(agent, interpreter, RULES, LIMO, TOKEN, **options)
    worker = threading.Thread(target=planner.work)
    with planner.listening("127.0.0.1", 0) as (_, port):
        worker.start()
        try:
            yield planner, port
        finally:
            getattr(agent, "agent", agent).gate.set()
            planner.close()
    worker.join(60)
    assert not worker.is_alive()


def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition becomes true."""
    waiting = threading.Event()
    for _ in range(1000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it never came")


def reasons(planner: PlannerServer) -> set[str]:
    return {name for name in planner.journal.counts if name.startswith("refused")}


def test_a_frame_becomes_an_order_and_the_agent_sees_full_size_values() -> None:
    agent = ScriptedAgent()
    with planning(agent) as (_, port), connected(port) as vehicle:
        vehicle.send_observation(4, 10.0, odom={"x": 1.0, "y": 2.0, "yaw": 0.1, "v": 0.25, "w": 0.0})
        vehicle_order = vehicle.receive()
        assert vehicle_order is not None
        kind, order, _ = vehicle_order
        vehicle.send_observation(5, 10.8)
        assert vehicle.receive() is not None
    assert kind == "cmd" and (order["obs"], order["throttle"], order["duration_s"]) == (4, 0.5, 0.5)
    assert order["twist"]["vx"] == pytest.approx(LIMO.actuation(Control(0.0, 0.5)).vx) and order["twist"]["vx"] > 0  # type: ignore[union-attr]
    first, second = (request.observation for request in agent.requests)
    assert first.speed == pytest.approx(0.25 * LIMO.scale) and second.speed == 0.0
    assert first.speed_limit == pytest.approx(LIMO.limits.speed * LIMO.scale)
    assert first.target == (pytest.approx(8.0), 0.0) and first.command is RouteCommand.FOLLOW
    assert (first.tick, second.tick) == (0, 1) and second.time_s == pytest.approx(0.8)
    assert first.images("front").shape == (48, 64, 3)
    assert agent.drives == ["start drive", "end drive"]


def test_a_history_has_the_orders_of_its_drive() -> None:
    agent = ScriptedAgent(lambda request: AHEAD if request.observation.tick != 1 else Decision(error="timeout"))
    with planning(with_history(agent, 2)) as (_, port), connected(port) as vehicle:
        for seq in range(3):
            vehicle.send_observation(seq, 10.0 + seq)
            assert vehicle.receive() is not None
    first, _, last = agent.requests
    assert first.history == () and first.applied is None
    assert [(past.observation.time_s, past.control) for past in last.history] == [
        (0.0, AHEAD.control),
        (1.0, Control()),  # an unusable decision: it stands
    ]


def test_replies_are_interpreted_with_the_hint_of_the_course() -> None:
    class Bend:
        def command(self, odometry: Any) -> tuple[RouteCommand, tuple[float, float]]:
            return RouteCommand.LEFT, (0.3, 0.2)

    agent = ScriptedAgent(lambda request: Decision({"action": "Turn left and accelerate."}))
    with planning(agent) as (planner, port), connected(port) as vehicle:
        planner.cycle.hint = Bend()
        vehicle.send_observation(0)
        answer = vehicle.receive()
    assert (
        answer is not None and answer[1]["steer"] < 0 and answer[1]["twist"]["wz"] > 0
    )  # left, CARLA's and ROS's sign
    assert agent.requests[0].observation.target == (pytest.approx(0.3 * LIMO.scale), pytest.approx(0.2 * LIMO.scale))


@pytest.mark.parametrize(
    ("decision", "counted"),
    [
        (Decision({"action": "Blorp."}), "unparsed"),
        (Decision(error="timeout"), "agent_errors"),
        (Decision(control=Control(float("nan"))), "agent_errors"),
    ],
)
def test_an_unusable_decision_stops_the_vehicle_and_is_counted(decision: Decision, counted: str) -> None:
    with planning(ScriptedAgent(lambda request: decision)) as (planner, port), connected(port) as vehicle:
        vehicle.send_observation(0)
        answer = vehicle.receive()
        assert planner.cycle.counts[counted] == 1
    assert answer is not None and answer[1]["twist"] == {"vx": 0.0, "vy": 0.0, "wz": 0.0}


@pytest.mark.parametrize("picture", [b"", b"GIF89a", b"\xff\xd8\xff\xe0 cut"])
def test_a_bad_picture_stops_the_vehicle(picture: bytes) -> None:
    def look(request: DecisionRequest) -> Decision:
        request.observation.images("front")
        return AHEAD

    with planning(ScriptedAgent(look)) as (planner, port), connected(port) as vehicle:
        vehicle.send_observation(0, picture=picture)
        answer = vehicle.receive()
        assert planner.cycle.counts["agent_errors"] == 1
    assert answer is not None and answer[1]["twist"]["vx"] == 0.0


def test_failures_in_a_row_stop_the_vehicle_until_released() -> None:
    broken = [True]
    agent = ScriptedAgent(lambda request: Decision(error="no model") if broken[0] else AHEAD)
    with planning(agent) as (planner, port), connected(port) as vehicle:
        for seq in range(FAILURES_MAX):
            vehicle.send_observation(seq)
            assert vehicle.receive()[0] == "cmd"  # type: ignore[index]
        stop = vehicle.receive()
        assert stop is not None and stop[0] == "stop" and stop[1]["latch"] and "no model" in stop[1]["reason"]
        broken[0] = False
        planner.release()
        assert vehicle.receive()[0] == "release"  # type: ignore[index]
        vehicle.send_observation(FAILURES_MAX)
        assert vehicle.receive()[1]["twist"]["vx"] > 0  # type: ignore[index]


def test_strict_stops_the_vehicle_at_an_unparsed_reply() -> None:
    agent = ScriptedAgent(lambda request: Decision({"action": "Blorp."}))
    with planning(agent, strict=True) as (planner, port), connected(port) as vehicle:
        vehicle.send_observation(0)
        assert [vehicle.receive()[0] for _ in range(2)] == ["cmd", "stop"]  # type: ignore[index]
        assert "strict" in planner.state()["latched"]


def test_a_stop_holds_through_a_new_connection_until_it_is_released() -> None:
    agent = ScriptedAgent()
    with planning(agent) as (planner, port):
        with connected(port) as vehicle:
            planner.stop("test")
            kind, header, _ = vehicle.receive()  # type: ignore[misc]
            assert (kind, header["latch"], header["reason"]) == ("stop", True, "test")
            assert not planner.state()["stands"]
            vehicle.send("stop", reason="stopped", latch=True)
            until(lambda: planner.state()["stands"])
            vehicle.send_observation(0)
            assert vehicle.receive()[1]["twist"]["vx"] == 0.0  # type: ignore[index]
        until(lambda: not planner.state()["connected"])
        with connected(port) as vehicle:
            assert vehicle.receive()[0] == "stop"  # type: ignore[index]
            vehicle.send_observation(0)
            assert vehicle.receive()[1]["twist"]["vx"] == 0.0  # type: ignore[index]
            planner.release()
            vehicle.send_observation(1)
            assert [vehicle.receive()[0] for _ in range(2)] == ["release", "cmd"]  # type: ignore[index]
    assert len(agent.requests) == 1  # frames during a stop are not passed to the agent


OVERTAKEN = "order not sent: overtaken by a stop"


@contextmanager
def deciding() -> Iterator[tuple[ScriptedAgent, PlannerServer, VehicleEnd]]:
    """A planner whose agent thinks about frame 0 until its gate is opened."""
    agent = ScriptedAgent()
    agent.gate.clear()
    with planning(agent) as (planner, port), connected(port) as vehicle:
        vehicle.send_observation(0)
        assert agent.thinking.wait(60)
        yield agent, planner, vehicle


def order(vehicle: VehicleEnd) -> tuple[int, float]:
    """The next frame, which must be an order: its frame number and speed."""
    kind, header, _ = vehicle.receive()  # type: ignore[misc]
    assert kind == "cmd"
    return header["obs"], header["twist"]["vx"]


@pytest.mark.parametrize("latch", [True, False])
def test_a_decision_in_progress_at_a_stop_is_never_executed_even_after_release(latch: bool) -> None:
    with deciding() as (agent, planner, vehicle):
        planner.stop("test", latch)
        assert vehicle.receive()[0] == "stop"  # type: ignore[index]
        assert order(vehicle) == (0, 0.0)  # an order to stand, sent without waiting for the agent
        planner.release()
        assert vehicle.receive()[0] == "release"  # type: ignore[index]
        agent.gate.set()
        until(lambda: planner.journal.counts[OVERTAKEN])
        vehicle.send_observation(1)
        seq, speed = order(vehicle)
        assert seq == 1 and speed > 0


def test_a_frame_that_waits_at_a_stop_is_answered_without_a_decision() -> None:
    with deciding() as (agent, planner, vehicle):
        vehicle.send_observation(1)
        until(lambda: planner._waiting)
        planner.stop("test")
        assert vehicle.receive()[0] == "stop" and order(vehicle) == (1, 0.0)  # type: ignore[index]
        agent.gate.set()
        until(lambda: planner.journal.counts[OVERTAKEN])
        planner.release()
        vehicle.send_observation(2)
        assert vehicle.receive()[0] == "release" and order(vehicle)[0] == 2  # type: ignore[index]
    assert len(agent.requests) == 2


def test_a_vehicle_that_stops_itself_during_a_decision_gets_an_order_to_stand() -> None:
    with deciding() as (agent, planner, vehicle):
        vehicle.send("stop", reason="emergency stop: on board", latch=True)
        assert order(vehicle) == (0, 0.0)
        agent.gate.set()
        until(lambda: planner.journal.counts[OVERTAKEN])
        assert planner.state()["stands"]


def test_only_a_latched_stop_frame_of_the_vehicle_confirms_a_latched_stop() -> None:
    with planning(ScriptedAgent()) as (planner, port), connected(port) as vehicle:
        planner.stop("test")
        vehicle.send("stop", reason="the camera is not ready", latch=False)  # sent before it received the stop
        until(lambda: planner.state()["said"])
        assert not planner.state()["stands"]
        vehicle.send("stop", reason="test", latch=True)
        until(lambda: planner.state()["stands"])


def test_a_closed_terminal_does_not_prevent_a_stop() -> None:
    def fail(line: str) -> None:
        raise BrokenPipeError

    with planning(ScriptedAgent(), journal=PlannerJournal(show=fail)) as (planner, port), connected(port) as vehicle:
        planner.stop("test")
        assert vehicle.receive()[0] == "stop" and planner.state()["latched"] == "test"  # type: ignore[index]


def test_the_newest_frame_supersedes_one_in_progress() -> None:
    with deciding() as (agent, planner, vehicle):
        vehicle.send_observation(1)
        until(lambda: planner._waiting)
        agent.gate.set()
        assert vehicle.receive()[1]["obs"] == 1  # type: ignore[index]
        assert planner.journal.counts["order not sent: a newer picture waits"] == 1


def test_a_replayed_picture_is_refused_and_the_next_one_served() -> None:
    with planning(ScriptedAgent()) as (planner, port), connected(port) as vehicle:
        for seq in (3, 3, 2, 4):
            vehicle.send_observation(seq)
        until(lambda: planner._last_seq == 4)
        while vehicle.receive()[1]["obs"] != 4:  # type: ignore[index]
            pass
        assert planner.journal.counts["refused: replayed"] == 2


def test_a_second_vehicle_is_refused_while_the_first_is_connected() -> None:
    with planning(ScriptedAgent()) as (planner, port):
        with connected(port) as first:
            second = VehicleEnd(port)
            assert second.handshake() == {"session": "", "reason": "another vehicle is connected"}
            second.close()
            first.send_observation(0)
            assert first.receive()[0] == "cmd"  # type: ignore[index]
        until(lambda: not planner.state()["connected"])
        with connected(port):
            pass
        until(lambda: reasons(planner) == {"refused: second client"})


def test_the_silence_of_a_suspended_machine_is_excused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, hello = [0.0], wire.server_hello()
    welcome = wire.server_welcome(TOKEN, hello, wire.client_auth(TOKEN, hello, LIMO.name))
    monkeypatch.setattr(planner_session, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def silences() -> list[bool]:
        session = planner_session.VehicleSession(mock.Mock(asyncio.StreamWriter), welcome)
        found = []
        for now[0], due in ((1.2, 1.2), (1.3, 1.2), (2.2, 2.2), (2.4, 2.4), (2.6, 2.4)):
            found.append(session.is_silent(due))
        session.heard()
        now[0] = 9.0
        return [*found, session.is_silent(8.9)]

    assert asyncio.run(silences()) == [True, False, False, True, True, False]


def test_a_vehicle_that_falls_silent_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []
    with planning(ScriptedAgent()) as (planner, port):
        planner.on_lost.append(lost.append)
        frozen = VehicleEnd(port)
        assert frozen.handshake() is None  # then silent, as behind a frozen tunnel
        until(lambda: lost)
        with connected(port) as vehicle:
            vehicle.send_observation(0)
            assert vehicle.receive()[0] == "cmd"  # type: ignore[index]
        frozen.close()
    assert lost[0].startswith("silent for 1 s")


def test_heartbeats_are_sent_during_a_decision() -> None:
    def busy(request: DecisionRequest) -> Decision:
        return Decision(control=Control(sum(0.0 for _ in range(4_000_000)), 0.5))  # Python's GIL is rarely free

    agent = ScriptedAgent(busy)
    with planning(agent) as (_, port), connected(port) as vehicle:
        vehicle.send_observation(0)
        assert vehicle.receive()[0] == "cmd"  # type: ignore[index]
        assert vehicle.heartbeats > 0


@pytest.mark.parametrize(
    ("how", "told", "counted"),
    [
        ({"token": b"x" * 32}, "wrong token", "refused: wrong token or replay"),
        ({"vehicle": "limo-mecanum"}, "this planner drives limo-ackermann, and you are set up as limo-mecanum",
         "refused: another vehicle"),
    ],
)  # fmt: skip
def test_an_unauthenticated_client_is_refused(how: dict[str, Any], told: str, counted: str) -> None:
    with planning(ScriptedAgent()) as (planner, port):
        stranger = VehicleEnd(port, **how)
        assert stranger.handshake() == {"session": "", "reason": told}
        stranger.close()
        until(lambda: planner.journal.counts[counted] == 1)
        assert not planner.state()["connected"]


def test_a_replayed_handshake_is_refused() -> None:
    with planning(ScriptedAgent()) as (planner, port):
        first = VehicleEnd(port)
        _, hello, _ = first.next()
        overheard = wire.pack("auth", wire.client_auth(TOKEN, hello, "limo-ackermann"))
        first.raw(overheard)
        assert first.receive()[0] == "welcome"  # type: ignore[index]
        first.close()
        again = VehicleEnd(port)
        assert again.next()[0] == "hello"
        again.raw(overheard)
        assert again.receive()[1]["reason"] == "wrong token"  # type: ignore[index]
        again.close()
        until(lambda: planner.journal.counts["refused: wrong token or replay"] == 1)


BIG = wire._PREFIX.pack(wire.MAGIC, wire.VERSION, wire.HEADER_MAX, wire.BLOB_MAX)


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a frame"),
        (BIG, "oversized"),
        (wire._PREFIX.pack(wire.MAGIC, 9, 2, 0) + b"{}", "other version"),
        (wire._PREFIX.pack(wire.MAGIC, wire.VERSION, 2, 0) + b"{}", "malformed"),
        (wire.pack("heartbeat", {"session": "", "n": 1}), "malformed"),
        (2 * wire.pack("heartbeat", {"session": "", "n": 1}), "malformed"),
        (b"", "no handshake"),
    ],
)
def test_an_invalid_handshake_is_refused(sent: bytes, counted: str) -> None:
    with planning(ScriptedAgent()) as (planner, port):
        stranger = VehicleEnd(port)
        stranger.raw(sent)
        stranger.sock.shutdown(socket.SHUT_WR)
        while stranger.receive() is not None:
            pass
        until(lambda: planner.journal.counts[f"refused: {counted}"] == 1)
        stranger.close()


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        (b"garbage", "not a frame"),
        (wire._PREFIX.pack(wire.MAGIC, wire.VERSION, 0, wire.BLOB_MAX + 1), "oversized"),
        (wire.pack("heartbeat", {"session": "another", "n": 1}), "other session"),
        (wire._PREFIX.pack(wire.MAGIC, wire.VERSION, 14, 0) + b'{"kind":"obs"}', "malformed"),
    ],
)
def test_an_invalid_frame_ends_the_session_and_the_next_session_works(sent: bytes, counted: str) -> None:
    with planning(ScriptedAgent()) as (planner, port):
        with connected(port) as vehicle:
            vehicle.raw(sent)
            while vehicle.receive() is not None:
                pass
        assert planner.journal.counts[f"refused: {counted}"] == 1
        with connected(port) as vehicle:
            vehicle.send_observation(0)
            assert vehicle.receive()[0] == "cmd"  # type: ignore[index]


def test_a_planners_frame_from_a_vehicle_ends_the_session() -> None:
    with planning(ScriptedAgent()) as (planner, port), connected(port) as vehicle:
        vehicle.send("release")
        assert vehicle.receive() is None
        assert planner.journal.counts["refused: malformed"] == 1


def test_silent_connections_do_not_lock_the_vehicle_out() -> None:
    """All places of the address are taken by silent connections, without waiting for their time limit."""
    with planning(ScriptedAgent()) as (planner, port), contextlib.ExitStack() as opened:
        for _ in range(3 * planner_session.HANDSHAKES_PER_ADDRESS):
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        until(lambda: planner.journal.counts["refused: displaced"] >= 2 * planner_session.HANDSHAKES_PER_ADDRESS)
        with connected(port) as vehicle:
            vehicle.send_observation(0)
            assert vehicle.receive()[0] == "cmd"  # type: ignore[index]
            assert planner.journal.counts["refused: no handshake"] == 0


def test_silent_connections_are_closed_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_session, "HANDSHAKE_S", 0.3)
    with planning(ScriptedAgent()) as (planner, port), socket.create_connection(("127.0.0.1", port)) as silent:
        until(lambda: planner.journal.counts["refused: no handshake"] == 1)
        while silent.recv(4096):  # the planner's hello, then the end
            pass


class ConnectionTask:
    """In place of an asyncio.Task."""

    displaced = False

    def cancel(self) -> None:
        self.displaced = True


def test_one_address_cannot_displace_the_connections_of_others() -> None:
    handshakes = planner_session.ConnectionHandshakes()
    opened = [(ConnectionTask(), "10.0.0.1"), *((ConnectionTask(), f"10.0.1.{i % 5}") for i in range(100))]
    for task, peer in opened:
        handshakes.add(task, peer)  # type: ignore[arg-type]
    assert not opened[0][0].displaced
    assert sum(not task.displaced for task, _ in opened) == planner_session.HANDSHAKES_MAX
    assert [handshakes.remove(task) for task, _ in opened] == [not task.displaced for task, _ in opened]  # type: ignore[arg-type]


def test_closing_the_planner_stops_the_vehicle() -> None:
    with planning(ScriptedAgent()) as (planner, port), connected(port) as vehicle:
        planner.close()
        (stop, header, _), (done, _, _) = vehicle.receive(), vehicle.receive()  # type: ignore[misc]
        assert (stop, header["latch"], done) == ("stop", False, "done") and vehicle.receive() is None


def test_cycles_and_refusals_are_logged_and_pictures_saved(tmp_path: Path) -> None:
    with (
        planning(ScriptedAgent(), journal=PlannerJournal(tmp_path, frames=True)) as (planner, port),
        connected(port) as vehicle,
    ):
        vehicle.send_observation(0)
        vehicle.send_observation(0)
        assert vehicle.receive()[0] == "cmd"  # type: ignore[index]
        vehicle.send("done", reason="mode is 0, not 1")
        until(lambda: planner.state()["said"] == "mode is 0, not 1")
        session = vehicle.session
    lines = [json.loads(line) for line in (tmp_path / "planner.jsonl").read_text().splitlines()]
    events = [line["event"] for line in lines]
    assert {"connected", "cycle", "refused", "vehicle ends", "lost"} <= set(events)
    cycle = lines[events.index("cycle")]
    assert cycle["session"] == session and cycle["twist"]["vx"] > 0 and cycle["overhead_s"] >= 0
    (picture,) = (tmp_path / "frames").iterdir()
    assert picture.read_bytes()[:2] == b"\xff\xd8"


def test_repeated_refusals_do_not_fill_the_disk(tmp_path: Path) -> None:
    journal = PlannerJournal(tmp_path)
    for _ in range(2500):
        journal.event("refused", "not a frame")
    journal.close()
    assert journal.counts["refused: not a frame"] == 2500
    assert len((tmp_path / "planner.jsonl").read_text().splitlines()) == 202


def test_connections_are_accepted_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]
    accept = socket.socket.accept

    def failing_once(sock: socket.socket) -> Any:
        if full and full.pop():
            raise OSError(24, "Too many open files")
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", failing_once)
    with planning(ScriptedAgent()) as (planner, port), socket.create_connection(("127.0.0.1", port)) as client:
        assert client.recv(4) == wire.MAGIC
    assert planner.journal.counts["refused: cannot accept"] == 1


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_the_listener_survives_any_bytes(data: bytes, framed: bool) -> None:
    """Any data instead of an auth frame is refused once, without an internal error."""
    frame = wire._PREFIX.pack(wire.MAGIC, wire.VERSION, len(data), 0) + data if framed else data

    async def handshake() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(frame)
        reader.feed_eof()
        await planner_session.authenticate(reader, mock.Mock(asyncio.StreamWriter), TOKEN, "limo-ackermann")

    with pytest.raises(planner_session.VehicleRefused):
        asyncio.run(handshake())
