"""The vehicle's end of the connection: it never blocks, its buffers are limited, no frame is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from support.robots.onboard import PATIENCE_S, TOKEN, listening, until

from closedloop_plugin.robots.onboard import link as linking
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.onboard.link import LinkLost, PlannerLink, WakePipe, open_link

OBS = {"session": "s", "seq": 1, "stamp": 1.0, "odom": None, "status": None, "motion": None}


@pytest.fixture
def pair() -> Iterator[tuple[PlannerLink, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield PlannerLink(ours, WakePipe()), theirs


def test_buffered_data_is_limited_if_the_planner_never_reads(pair: tuple[PlannerLink, socket.socket]) -> None:
    link, _ = pair
    sent = 0
    with pytest.raises(LinkLost, match="link stuck"):
        for _ in range(100):
            link.send("obs", bytes(1 << 20), **OBS)
            sent += 1
    assert link.busy and sent < 20


def test_a_large_frame_is_sent_while_the_planner_reads(pair: tuple[PlannerLink, socket.socket]) -> None:
    link, theirs = pair
    link.send("obs", bytes(1 << 20), **OBS)
    assert link.busy, "a socket holds less than that"
    reader = wire.FrameReader()
    found: list[wire.Frame] = []
    while not found:
        assert link.wait(0.0) == []
        found = reader.feed(theirs.recv(1 << 16))
    assert found[0][0] == "obs" and len(found[0][2]) == 1 << 20 and not link.busy


def test_a_wait_ends_with_a_wake() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wake = WakePipe()
        link = PlannerLink(ours, wake)
        for _ in range(100_000):  # more than a pipe holds
            wake()
        assert link.wait(PATIENCE_S) == []
        until(lambda: not link.wait(0.0))


@pytest.mark.integration
def test_frames_sent_together_with_the_welcome_are_not_lost() -> None:
    """A stopped planner sends its stop directly after the welcome."""

    def play() -> None:
        peer = planner.accept()
        peer.send("hello", **peer.hello)
        welcome = wire.server_welcome(TOKEN, peer.hello, peer.next("auth")[1])
        name = welcome["session"]
        stop = wire.pack("stop", {"session": name, "reason": "é" * 500, "latch": True})
        peer.bytes(wire.pack("welcome", welcome) + stop + wire.pack("heartbeat", {"session": name, "n": 0}))

    with listening() as planner:
        thread = threading.Thread(target=play)
        thread.start()
        link, _ = open_link("127.0.0.1", planner.port, TOKEN, "limo", WakePipe())
        kinds: list[str] = []
        while len(kinds) < 2:
            kinds += [kind for kind, _, _ in link.wait(PATIENCE_S)]
        assert kinds == ["stop", "heartbeat"]
        thread.join()
        link.close()


@pytest.mark.integration
def test_a_handshake_with_a_silent_peer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tunnel accepts connections even if the planner is dead."""
    monkeypatch.setattr(linking, "HANDSHAKE_S", 0.05)
    with listening() as planner:
        with pytest.raises(LinkLost, match="no handshake"):
            open_link("127.0.0.1", planner.port, TOKEN, "limo", WakePipe())
        planner.accept().wait_until_closed()


def test_a_picture_from_a_planner_is_refused(pair: tuple[PlannerLink, socket.socket]) -> None:
    link, theirs = pair
    theirs.sendall(wire.pack("heartbeat", {"session": "s", "n": 0}, b"x"))
    with pytest.raises(wire.BadFrame, match="oversized"):
        link.wait(PATIENCE_S)
