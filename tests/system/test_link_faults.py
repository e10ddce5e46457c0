"""Random faults of the link between planner and vehicle: after each the wheels stop and stay stopped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.robots.onboard import Listener, Peer, Process, client, listening, moves, published, settings, until
from support.tiers import seeds

from closedloop_plugin.robots.onboard import wire

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"planner": lambda folder, found: listening()}
FAULTS = 8  # of one run
# A motion would end by itself after 1 s, the limits apply after 0.3 s.
LIMITS = {"motion_s": 1.0, "link_silence_s": 0.3, "camera_stall_s": 0.3, "max_age_s": 1.0}


@pytest.fixture
def planner() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def command(peer: Peer, obs: int) -> bytes:
    """A command that would move the wheels."""
    levers = {"steer": 0.0, "throttle": 0.5, "brake": 0.0, "twist": {"vx": 0.9, "vy": 0.0, "wz": 0.0}}
    return bytes(wire.pack("cmd", {"session": peer.session, "obs": obs, "duration_s": 1.0, **levers}))


def close(peer: Peer, folder: Path, dice: random.Random) -> None:
    peer.close()


def cut(peer: Peer, folder: Path, dice: random.Random) -> None:
    """Close the connection within a command."""
    data = command(peer, 1)
    peer.bytes(data[: dice.randrange(1, len(data))])
    peer.close()


def garbage(peer: Peer, folder: Path, dice: random.Random) -> None:
    peer.bytes(b"\0" + dice.randbytes(200))


def silence(peer: Peer, folder: Path, dice: random.Random) -> None:
    """Send nothing more, and keep the connection open."""
    peer.stop_heartbeats()


def stop(peer: Peer, folder: Path, dice: random.Random) -> None:
    peer.send_in_session("stop", reason="test", latch=False)


def camera(peer: Peer, folder: Path, dice: random.Random) -> None:
    (folder / "stall").touch()


def old_commands(peer: Peer, folder: Path, dice: random.Random) -> None:
    """Repeat commands for frames that are answered already, then stop sending: none of them prolongs the motion."""
    for _ in range(20):
        peer.bytes(command(peer, dice.randint(0, 1)))
    peer.stop_heartbeats()


Way = Callable[[Peer, Path, random.Random], None]
REASONS: dict[Way, str] = {
    close: "link lost", cut: "link lost", garbage: "not a frame", silence: "link silent", stop: "planner's stop",
    camera: "camera stalled", old_commands: "link silent",
}  # fmt: skip


def drive(planner: Listener, peer: Peer | None, folder: Path, vx: float) -> Peer:
    """Let the wheels move at `vx`, over a new connection unless `peer` is still connected."""
    while True:
        peer = peer or planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], vx, duration_s=1.0)
        time.sleep(0.05)
        until(lambda peer=peer: moving_at(folder, vx) or not peer.frames.empty())
        if moving_at(folder, vx):
            return peer


def moving_at(folder: Path, vx: float) -> bool:
    return any(entry["actuation"]["twist"]["vx"] == vx for entry in published(folder))


def ends(vehicle: Process) -> list[str]:
    """Why each motion ended."""
    return [line["reason"] for line in list(vehicle.log) if line["event"] == "stands"]


@pytest.mark.parametrize("seed", seeds(100))
def test_after_each_fault_the_wheels_stop_and_move_only_for_a_new_command(
    tmp_path: Path, planner: Listener, record_property: Callable[[str, object], None], seed: int
) -> None:
    dice, done = random.Random(seed), list[str]()
    file = settings(tmp_path, planner.port, car={"watchdog_s": 1.0}, relay=bool(seed % 2), **LIMITS)
    with client(file) as vehicle:
        peer: Peer | None = None
        for number in range(FAULTS):
            way = dice.choice(list(REASONS))
            done.append(way.__name__)
            peer = drive(planner, peer, tmp_path, vx := 0.1 + number / 100)
            ended = len(ends(vehicle))
            time.sleep(dice.uniform(0, 0.2))
            way(peer, tmp_path, dice)
            until(lambda ended=ended: len(ends(vehicle)) > ended, f"the motion continues after {done}")
            assert ends(vehicle)[ended:] == [REASONS[way]], f"the last of {done} ended the motion"
            until(lambda: not any(map(moves, published(tmp_path)[-2:])), f"the wheels move after {done}")
            check_standing(tmp_path, done)
            (tmp_path / "stall").unlink(missing_ok=True)
            if way not in (stop, camera):
                peer.close()
                peer = None
        assert vehicle.end() == 0
    order = [entry["actuation"]["twist"]["vx"] for entry in published(tmp_path) if moves(entry)]
    assert order == sorted(order), f"a command of an earlier motion moved the wheels after {done}"
    assert max(order) <= vx, "the wheels moved for an old command"
    record_property("faults", len(done))


def check_standing(folder: Path, done: list[str]) -> None:
    """Check that the next commands to the wheels are zeros."""
    before = len(published(folder))
    until(lambda: len(published(folder)) >= before + 4, f"no commands to the wheels after {done}")
    assert not any(map(moves, published(folder)[before:])), f"the wheels move again after {done}"
