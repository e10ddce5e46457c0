"""The on-board client in a process of the oldest Python; the test acts as the planner."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.robots.onboard import (
    OTHER_TOKEN,
    Listener,
    Peer,
    Process,
    client,
    listening,
    moves,
    published,
    settings,
    until,
    write_atomically,
)
from support.robots.recorder import JPEG

pytestmark = pytest.mark.integration

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"planner": lambda folder, found: listening()}
WATCHED = {"watchdog_s": 1.0}  # the base stops by itself, so the client publishes without a relay


@pytest.fixture
def planner() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def wait_for_motion(folder: Path, count: int = 1) -> list[dict[str, object]]:
    """Waits for `count` published commands to move, and returns them."""
    return until(lambda: len(found := [p for p in published(folder) if moves(p)]) >= count and found)


def wait_for_stop(folder: Path) -> None:
    """Waits until zeros are published again."""
    until(lambda: not any(map(moves, published(folder)[-2:])))


def test_a_command_moves_the_vehicle_and_the_next_frame_follows_the_motion(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer = planner.accept().handshake()
        assert peer.auth["vehicle"] == "limo-differential"
        _, first, blob = peer.next("obs")
        assert blob == JPEG and first["motion"] is None and (first["width"], first["height"]) == (640, 480)
        assert first["odom"] == {"x": 1.0, "y": 2.0, "yaw": 0.5, "v": 0.3, "w": 0.0} and first["status"] is None
        peer.drive(first["seq"], 0.25, 0.2)
        _, second, _ = peer.next("obs")
        assert second["seq"] == first["seq"] + 1
        assert second["motion"]["seq"] == first["seq"] and second["motion"]["reason"] == "deadline"
        assert second["stamp"] > second["motion"]["ended"] >= first["stamp"] + 0.2
        assert peer.next("heartbeat")[1]["session"] == peer.session
        sent = [p for p in published(tmp_path) if moves(p)]
        assert {json.dumps(p["actuation"]) for p in sent} == {json.dumps({"twist": {"vx": 0.25, "vy": 0.0, "wz": 0.0}})}
        assert {p["node"] for p in sent} == {"ad2_onboard"}
        assert vehicle.end() == 0
        assert peer.next("done")[1]["reason"] == "the vehicle's client ends"
    assert not any(map(moves, published(tmp_path)[-3:]))


def test_a_motion_is_never_longer_than_the_settings_allow(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=0.1)) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], 0.2, 1000.0)
        assert peer.next("obs")[1]["motion"]["reason"] == "deadline"
        assert vehicle.wait_for("motion")["duration_s"] == 0.1


def test_commands_that_do_not_answer_the_frame_are_refused_and_counted(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer = planner.accept().handshake()
        seq = peer.next("obs")[1]["seq"]
        peer.drive(seq + 1)
        vehicle.wait_for("refused", reason="not outstanding")
        peer.drive(seq, session="another")
        vehicle.wait_for("refused", reason="wrong session")
        peer.raw("cmd", session=peer.session, obs=seq, steer=0, throttle=0, brake=0, duration_s=-1, twist=None)
        vehicle.wait_for("refused", reason="malformed")
        peer.raw("hello")
        peer.send_in_session("obs", seq=1, stamp=0, odom=None, status=None, motion=None)
        vehicle.wait_for("refused", reason="unexpected")
        assert not any(map(moves, published(tmp_path)))
        peer.drive(seq)  # the frame still waits for its command
        wait_for_motion(tmp_path)
        peer.drive(seq)  # but only once
        peer.next("obs")
    assert vehicle.process.returncode == 0
    counts = vehicle.wait_for("counts")["counts"]
    assert counts == {"not outstanding": 2, "wrong session": 1, "malformed": 2, "unexpected": 1}


def test_an_actuation_for_another_kind_of_vehicle_is_refused_and_a_new_frame_sent(
    tmp_path: Path, planner: Listener
) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer = planner.accept().handshake()
        first = peer.next("obs")[1]["seq"]
        peer.drive(first, twist=None, word="forward")
        vehicle.wait_for("refused", reason="malformed")
        peer.drive(peer.next("obs")[1]["seq"])
        wait_for_motion(tmp_path)


def test_a_late_command_is_refused_and_the_next_frame_follows(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, max_age_s=0.1)) as vehicle:
        peer = planner.accept().handshake()
        _, first, _ = peer.next("obs")
        for _ in range(12):  # time on the vehicle, measured by its heartbeats: 12 x 20 ms
            peer.next("heartbeat")
        peer.drive(first["seq"])
        assert vehicle.wait_for("refused", reason="late")["times"] == 1
        _, second, _ = peer.next("obs")
        assert second["seq"] == first["seq"] + 1 and second["motion"] is None
        assert not any(map(moves, published(tmp_path)))


@pytest.mark.parametrize("raw", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AD2R\x01\xff\xff\xff\xff\x00\x00\x00\x00"])
def test_an_invalid_frame_ends_the_connection_and_the_motion(tmp_path: Path, planner: Listener, raw: bytes) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        peer.sock.sendall(raw)
        peer.wait_until_closed()
        reason = vehicle.wait_for("stands")["reason"]
        assert reason in ("not a frame", "oversized") and vehicle.wait_for("refused", reason=reason)
        again = planner.accept().handshake()
        again.drive(again.next("obs")[1]["seq"])
        until(lambda: len([s for s in vehicle.log if s["event"] == "motion"]) == 2)


def test_a_planner_with_a_wrong_token_or_a_replayed_greeting_cannot_drive(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        wrong = planner.accept()
        wrong.handshake(check=False, token=OTHER_TOKEN, heartbeats=False)
        wrong.wait_until_closed()
        vehicle.wait_for("refused", reason="wrong token or replay", times=1)

        recorded = planner.accept().handshake(heartbeats=False)
        welcome = recorded.welcome
        recorded.next("obs")
        recorded.close()
        replay = planner.accept()
        replay.send("hello", **recorded.hello)
        replay.send("welcome", **welcome)
        replay.send_in_session("cmd", session=recorded.session, obs=1, **STRAIGHT)
        replay.wait_until_closed()

        early = planner.accept()
        early.raw("cmd", session="", obs=1, **STRAIGHT)
        early.wait_until_closed()
        vehicle.wait_for("refused", reason="malformed", detail="cmd instead of hello")
        refusing = planner.accept()
        refusing.send("done", session="", reason="another vehicle is connected")
        refusing.wait_until_closed()
        vehicle.wait_for("refused", reason="planner refuses", detail="another vehicle")
        assert not any(map(moves, published(tmp_path)))

        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"])
        wait_for_motion(tmp_path)
    assert vehicle.wait_for("counts")["counts"]["wrong token or replay"] == 2


STRAIGHT = {
    "steer": 0, "throttle": 1, "brake": 0, "duration_s": 1, "twist": {"vx": 0.3, "vy": 0, "wz": 0},
}  # fmt: skip


def test_a_lost_link_stops_the_wheels_and_driving_resumes_after_reconnecting(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)) as vehicle:
        peer = planner.accept().handshake()
        _, first, _ = peer.next("obs")
        peer.drive(first["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        peer.close()
        assert vehicle.wait_for("stands")["reason"] == "link lost"
        wait_for_stop(tmp_path)
        for _ in range(3):  # a tunnel without a planner accepts connections and closes them
            planner.accept().close()
        again = planner.accept().handshake()
        _, obs, _ = again.next("obs")
        assert obs["seq"] == 1 and obs["motion"]["reason"] == "link lost" and obs["stamp"] > obs["motion"]["ended"]
        again.drive(obs["seq"], 0.1)
        until(lambda: any(p["actuation"]["twist"]["vx"] == 0.1 for p in published(tmp_path)))


def test_a_frozen_planner_is_noticed_during_the_motion(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0, link_silence_s=0.05)) as vehicle:
        peer = planner.accept().handshake(heartbeats=False)
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        assert vehicle.wait_for("stands")["reason"] == "link silent"
        wait_for_stop(tmp_path)


def test_a_stalled_camera_stops_the_wheels_until_it_recovers(tmp_path: Path, planner: Listener) -> None:
    # 0.3 s at 20 frames per second, so that a busy machine does not exceed it
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0, camera_stall_s=0.3)) as vehicle:
        peer = planner.accept().handshake()
        _, obs, _ = peer.next("obs")
        (tmp_path / "stall").touch()
        peer.drive(obs["seq"], duration_s=1.0)
        assert vehicle.wait_for("stands")["reason"] == "camera stalled"
        wait_for_stop(tmp_path)
        assert vehicle.wait_for("refused", reason="stopped: camera stalled")
        (tmp_path / "stall").unlink()
        _, obs, _ = peer.next("obs")
        assert obs["motion"]["reason"] == "camera stalled"


def test_the_wrong_mode_is_refused_and_reported(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, "limo-ackermann", car={**WATCHED, "mode": 1})
    with client(file) as vehicle:
        peer = planner.accept().handshake()
        assert "which mode" in peer.next("stop")[1]["reason"]
        write_atomically(tmp_path / "mode", "0")
        stop = peer.next("stop")[1]
        assert "in mode 0, limo-ackermann is mode 1: switch it" in stop["reason"] and stop["latch"] is False
        write_atomically(tmp_path / "mode", "1")
        _, obs, _ = peer.next("obs")
        assert obs["status"] == {"mode": 1}
        write_atomically(tmp_path / "mode", "2")  # between the frame and its command
        peer.next("stop")
        peer.drive(obs["seq"])
        vehicle.wait_for("refused", reason="cannot drive", detail="mode 2")
        assert not any(map(moves, published(tmp_path)))


def test_a_fault_of_the_vehicle_stops_it_and_is_reported(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        write_atomically(tmp_path / "fault", "no ROS master")
        assert vehicle.wait_for("stands")["reason"] == "no ROS master"
        assert peer.next("stop")[1]["reason"] == "no ROS master"
        wait_for_stop(tmp_path)
        (tmp_path / "fault").unlink()
        peer.next("obs")
        (tmp_path / "gone").touch()
        assert vehicle.process.wait(60) == 2
        assert "gone for good" in vehicle.wait_for("cannot drive")["why"]


def test_failed_publishing_is_counted_and_the_client_continues(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer = planner.accept().handshake()
        (tmp_path / "broken").touch()
        vehicle.wait_for("refused", reason="publishing failed", detail="broken by the test")
        (tmp_path / "broken").unlink()
        peer.drive(peer.next("obs")[1]["seq"])
        wait_for_motion(tmp_path)


def test_the_planners_emergency_stop_holds_over_a_new_connection_until_released(
    tmp_path: Path, planner: Listener
) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)) as vehicle:
        peer = planner.accept().handshake()
        _, obs, _ = peer.next("obs")
        peer.drive(obs["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        peer.send_in_session("stop", reason="a cat", latch=True)
        echo = peer.next("stop")[1]
        assert echo["reason"] == "a cat" and echo["latch"] is True
        assert vehicle.wait_for("stands")["reason"] == "planner's stop"
        wait_for_stop(tmp_path)
        peer.close()
        again = planner.accept().handshake()
        assert again.next("stop")[1] == {
            "session": again.session, "reason": "emergency stop: a cat", "latch": True
        }  # fmt: skip
        again.send_in_session("cmd", obs=1, **STRAIGHT)
        vehicle.wait_for("refused", reason="not outstanding")
        again.send_in_session("release")
        _, obs, _ = again.next("obs")
        again.drive(obs["seq"], 0.15)
        until(lambda: any(p["actuation"]["twist"]["vx"] == 0.15 for p in published(tmp_path)))


def test_a_decision_from_before_a_stop_is_not_executed_after_its_release(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer = planner.accept().handshake()
        _, before, _ = peer.next("obs")
        peer.send_in_session("stop", reason="a cat", latch=True)
        vehicle.wait_for("hindered")
        peer.send_in_session("release")
        _, after, _ = peer.next("obs")
        assert all(entry.get("reason") != "unanswered" for entry in vehicle.log), "at once, not after 30 s"
        peer.drive(before["seq"], 0.21)
        vehicle.wait_for("refused", reason="not outstanding")
        peer.drive(after["seq"], 0.15)
        until(lambda: any(p["actuation"]["twist"]["vx"] == 0.15 for p in published(tmp_path)))
        assert not any(p["actuation"]["twist"]["vx"] == 0.21 for p in published(tmp_path))


def test_an_unlatched_stop_of_the_planner_ends_only_the_motion(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        peer.send_in_session("stop", reason="enough", latch=False)
        assert peer.next("stop")[1]["latch"] is False
        assert vehicle.wait_for("stands")["reason"] == "planner's stop"
        assert peer.next("obs")[1]["motion"]["reason"] == "planner's stop"


def test_a_stop_set_on_the_vehicle_is_confirmed_and_the_planner_cannot_release_it(
    tmp_path: Path, planner: Listener
) -> None:
    file = settings(tmp_path, planner.port, car=WATCHED, motion_s=1.0)
    with client(file) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        wait_for_motion(tmp_path)
        stop = Process("relay", "--stop", file)
        assert stop.end(0) == 0
        assert not moves(published(tmp_path)[-1])
        stop_frame = peer.next("stop")[1]
        assert stop_frame["latch"] is True and "relay --stop" in stop_frame["reason"]
        peer.send_in_session("release")
        vehicle.wait_for("refused", reason="release refused")
        assert Process("relay", "--release", file).end(0) == 0
        assert peer.next("obs")[1]["motion"]["reason"].startswith("emergency stop")


def test_a_stop_set_before_the_client_starts_holds(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, car=WATCHED)
    assert Process("relay", "--stop", file).end(0) == 0
    with client(file) as vehicle:
        assert "relay --stop" in vehicle.wait_for("begins")["stopped"]
        assert planner.accept().handshake().next("stop")[1]["latch"] is True


def test_a_second_client_is_refused(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, car=WATCHED)
    with client(file) as first:
        planner.accept().handshake().next("obs")
        with client(file) as second:
            assert second.process.wait(60) == 2
            assert "client.lock" in second.wait_for("cannot drive")["why"]
        assert first.process.poll() is None


def test_the_client_refuses_to_start_with_wrong_settings(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port)
    (tmp_path / "token").chmod(0o644)
    with client(file) as refused:
        assert refused.process.wait(60) == 2
        assert "chmod 600" in refused.wait_for("cannot drive")["why"]
    with client(settings(tmp_path, planner.port, backend="ros1")) as refused:
        assert refused.process.wait(60) == 2
        assert "setup.bash" in refused.wait_for("cannot drive")["why"]
    with client(settings(tmp_path, planner.port, backend="support.robots.recorder:Nothing")) as refused:
        assert refused.process.wait(60) == 2
        assert "support.robots.recorder:Nothing" in refused.wait_for("cannot drive")["why"]
    assert not published(tmp_path)


def test_sigint_ends_the_client_while_it_waits_for_a_planner(tmp_path: Path) -> None:
    with listening() as listener:
        port = listener.port
    with client(settings(tmp_path, port, car=WATCHED)) as vehicle:
        vehicle.wait_for("refused", reason="no connection")
        assert vehicle.end(signal.SIGINT) == 0


def test_after_done_the_client_reconnects(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, car=WATCHED)) as vehicle:
        peer: Peer = planner.accept().handshake()
        peer.send_in_session("done", reason="the course is over")
        vehicle.wait_for("refused", reason="planner is done", detail="the course is over")
        peer.wait_until_closed()
        planner.accept().handshake().next("obs")
