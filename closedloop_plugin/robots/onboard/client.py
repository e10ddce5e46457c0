"""The on-board client: python3 -m closedloop_plugin.robots.onboard.client SETTINGS.json

Connects to the planner through the ssh tunnel, reconnects when the link is lost, and executes the planner's commands
within the limits. Ends on SIGTERM or SIGINT, or when ROS shuts its node down, with the vehicle standing. Logs JSON
lines to stderr. While it runs it publishes at 20 Hz, mostly zeros: stop it before you drive the vehicle by other means.
"""

import signal
import sys
import time
from pathlib import Path
from typing import Any, List, Optional, Union

from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.io import VehicleNotReady, open_io
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import EmergencyStopLatch
from closedloop_plugin.robots.onboard.link import LinkLost, WakePipe, open_link
from closedloop_plugin.robots.onboard.motion import MotionExecutor
from closedloop_plugin.robots.onboard.relay import lock
from closedloop_plugin.robots.onboard.relay_link import RelayLink
from closedloop_plugin.robots.onboard.session import OnboardContext, OnboardSession
from closedloop_plugin.robots.onboard.settings import SettingsError, read_settings, read_token

USAGE = "usage: client SETTINGS.json"
_TICK_S = 0.1


class OnboardClient:
    """The connection loop. `run` returns after `ending` is set and `wake` called; VehicleNotReady: vehicle lost."""

    def __init__(self, context: OnboardContext, token: bytes, wake: WakePipe) -> None:
        self._context, self._token, self._wake = context, token, wake
        self.ending = False

    def run(self) -> None:
        first_s = self._context.settings["reconnect_s"]
        pause_s = 0.0
        while not self.ending:
            end = time.monotonic() + pause_s
            while time.monotonic() < end and not self.ending:
                self._maintain()
                self._wake.wait(min(_TICK_S, max(0.0, end - time.monotonic())))
            welcome = self._connection()
            pause_s = 0.0 if welcome else min(max(first_s, 2 * pause_s), 4 * first_s)

    def _maintain(self) -> None:
        self._context.outlet.repair()
        self._context.io.fault()  # raises VehicleNotReady

    def _connection(self) -> bool:
        """Serve one connection to its end. True if the handshake succeeded: the next attempt needs no pause."""
        planner, journal = self._context.settings["planner"], self._context.journal
        session: Optional[OnboardSession] = None
        try:
            link, name = open_link(
                planner["host"], planner["port"], self._token, self._context.settings["vehicle"]["name"], self._wake
            )
            journal.log("connected", session=name)
            session = OnboardSession(self._context, link, name)
            while not self.ending:
                self._maintain()
                session.turn()
            session.end("the vehicle's client ends")
        except (LinkLost, wire.BadFrame, wire.BadToken) as exc:
            self._context.motion.stop(exc.reason)
            journal.count(exc.reason, str(exc))
            if session is not None:
                link.close()
        return session is not None


def drive(settings_file: Path, journal: OnboardJournal) -> int:
    settings = read_settings(settings_file)
    token = read_token(settings["planner"]["token_file"])
    lock_file = lock(settings["folder"] / "client.lock", 0.5)  # `relay --stop` may be probing it right now
    io = open_io(settings, "ad2_onboard", sees=True)
    wake, latch = WakePipe(), EmergencyStopLatch(settings["folder"])
    io.wake = wake
    own = ActuationGate(io, settings["vehicle"], latch, journal)
    outlet: Union[ActuationGate, RelayLink] = RelayLink(settings_file, own, journal) if settings["relay"] else own

    def ended() -> None:
        journal.log("stands", reason=motion.state.reason, seq=motion.state.seq)
        wake()

    def failed(exc: Exception) -> None:
        journal.count("publishing failed", str(exc))

    motion = MotionExecutor(outlet.publish, own.zero, settings["rate_hz"], failed, ended)
    client = OnboardClient(OnboardContext(settings, io, outlet, motion, latch, journal), token, wake)

    def end(*_: Any) -> None:
        client.ending = True
        wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # survives the end of the ssh session that started it
    journal.log("begins", vehicle=settings["vehicle"]["name"], relay=settings["relay"], stopped=latch.held())
    try:
        client.run()
    finally:
        motion.close()
        outlet.close()
        io.close()
        lock_file.close()
    return 0


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    journal = OnboardJournal("client")
    try:
        return drive(Path(words[0]), journal)
    except (SettingsError, VehicleNotReady) as exc:
        journal.log("cannot drive", why=str(exc))
        return 2
    finally:
        journal.close()


if __name__ == "__main__":
    sys.exit(main())
