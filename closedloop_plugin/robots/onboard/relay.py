"""The process that publishes to the wheels, apart from the client, so that they stop when the client dies.

    python3 -m closedloop_plugin.robots.onboard.relay --stop SETTINGS.json       emergency stop, until released
    python3 -m closedloop_plugin.robots.onboard.relay --release SETTINGS.json

The client starts it (relay_link.py) in its own session, with one end of a socket pair whose other end only the client
holds: no other process can send to it, and the stream ends whenever the client ends, for whatever reason. Zeros are
published then, and whenever no fresh message has arrived for 120 ms; 2 s after the client it ends too. A lock file
keeps a new relay from publishing before the old one has ended.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, TextIO

from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.io import VehicleIO, VehicleNotReady, open_io
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import VEHICLE, EmergencyStopLatch
from closedloop_plugin.robots.onboard.settings import SettingsError, read_settings

FRESH_S = 0.12  # 2.4 messages at 20 Hz; 3.6 cm at 0.3 m/s
ORPHAN_S = 2.0
MESSAGE_MAX = 4096  # bytes
USAGE = "usage: relay [--stop | --release] SETTINGS.json"


class ActuationRelay:
    """Publishes the client's actuations until the client ends. Exceptions of the backend end `run`: the client notices
    that the process has ended and starts another."""

    def __init__(
        self, channel: socket.socket, gate: ActuationGate, io: VehicleIO, rate_hz: float, journal: OnboardJournal
    ) -> None:
        self._channel, self._gate, self._io, self._journal = channel, gate, io, journal
        self._period = 1.0 / rate_hz
        self._actuation, self._until = gate.zero, 0.0
        self._received = -1  # number of the last message
        self._orphan: Optional[float] = None
        self.ending = False

    def run(self) -> None:
        due, moved = 0.0, False
        while not self.ending and (self._orphan is None or time.monotonic() < self._orphan + ORPHAN_S):
            received = self._receive(min(due, self._until) if moved else due)
            now = time.monotonic()
            if received or now >= due or (moved and now >= self._until):
                moved = self._publish()
                due = now + self._period
        for _ in range(3):
            self._until = 0.0
            self._publish()
            time.sleep(self._period / 2)

    def _receive(self, end: float) -> bool:
        """Wait for messages until `end`; True if the client has sent one or has ended."""
        wait_s = max(0.0, end - time.monotonic())
        if self._orphan is not None:
            time.sleep(wait_s)
            return False
        if not select.select([self._channel], [], [], wait_s)[0]:
            return False
        while self._orphan is None:
            try:
                data = self._channel.recv(MESSAGE_MAX)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._journal.log("orphaned")
                self._orphan, self._until = time.monotonic(), 0.0
                break
            self._handle(json.loads(data.decode("ascii")))
        return True

    def _handle(self, message: Dict[str, Any]) -> None:
        """A message of our client, which may be old if this process was suspended."""
        if message.get("end"):
            self.ending = True
            return
        self._received, self._actuation = message["n"], message["actuation"]
        self._until = min(message["until"], message["sent"] + FRESH_S)

    def _publish(self) -> bool:
        moved, fault = self._gate.publish(self._actuation, self._until), self._io.fault()
        if self._orphan is None:
            with contextlib.suppress(OSError):  # full or closed: the next read shows which
                self._channel.send(json.dumps({"n": self._received, "fault": fault and fault[:500]}).encode("ascii"))
        return moved


def lock(file: Path, patience_s: float) -> TextIO:
    """Lock the file until it is closed. VehicleNotReady: another process holds it."""
    end = time.monotonic() + patience_s
    stream = file.open("a")
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return stream
        except OSError:
            if time.monotonic() >= end:
                raise VehicleNotReady(f"another process holds {file}: end that one first") from None
        time.sleep(0.02)


def is_held(file: Path) -> bool:
    try:
        lock(file, 0.0).close()
    except VehicleNotReady:
        return True
    return False


def serve(settings: Dict[str, Any], channel: socket.socket) -> int:
    """Run as the client's child process, until the client ends."""
    journal = OnboardJournal("relay")
    channel.setblocking(False)
    try:
        lock_file = lock(settings["folder"] / "relay.lock", ORPHAN_S + 3.0)
        io = open_io(settings, "ad2_relay", sees=False)
    except VehicleNotReady as exc:
        channel.send(json.dumps({"failed": str(exc)[:1000]}).encode("ascii"))
        return 2
    latch = EmergencyStopLatch(settings["folder"])
    relay = ActuationRelay(
        channel, ActuationGate(io, settings["vehicle"], latch, journal), io, settings["rate_hz"], journal
    )

    def end(*_: Any) -> None:
        relay.ending = True

    signal.signal(signal.SIGTERM, end)
    for number in (signal.SIGINT, signal.SIGHUP):  # sent by the terminal, for the client
        signal.signal(number, signal.SIG_IGN)
    channel.send(json.dumps({"ready": os.getpid()}).encode("ascii"))
    try:
        relay.run()
    except Exception as exc:
        journal.log("failed", why=f"{type(exc).__name__}: {exc}")
        return 3
    finally:
        journal.close()
    io.close()
    lock_file.close()
    return 0


def stop(settings: Dict[str, Any]) -> int:
    """Set the emergency stop and wait until the publishing process confirms it. Returns the exit code."""
    folder, latch = settings["folder"], EmergencyStopLatch(settings["folder"])
    run = latch.set(VEHICLE, "relay --stop")
    end = time.monotonic() + 1.0
    while not latch.confirmed(run):
        if not is_held(folder / "relay.lock") and not is_held(folder / "client.lock"):
            print("the emergency stop is set; nothing of ours is running on this vehicle")
            return 0
        if time.monotonic() > end:
            print("THE STOP IS NOT CONFIRMED: switch the vehicle off", file=sys.stderr)
            return 1
        time.sleep(0.01)
    print("stopped, until released with --release")
    return 0


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    channel: Optional[socket.socket] = None
    if len(words) == 3 and words[1] == "--channel" and words[2].isdigit():
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(words[2]))
        words = words[:1]
    if len(words) != (1 if channel else 2) or (channel is None and words[0] not in ("--stop", "--release")):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        settings = read_settings(Path(words[-1]))
    except SettingsError as exc:
        print(exc, file=sys.stderr)
        return 2
    if channel is not None:
        return serve(settings, channel)
    if words[0] == "--stop":
        return stop(settings)
    EmergencyStopLatch(settings["folder"]).release(VEHICLE)
    print("released")
    return 0


if __name__ == "__main__":
    sys.exit(main())
