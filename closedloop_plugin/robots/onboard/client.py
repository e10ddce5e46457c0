"""What runs on the vehicle: python3 -m closedloop_plugin.robots.onboard.client SETTINGS.json

Connects to the planner (through the ssh tunnel), again and again, and drives what it says, within the limits. Ends on
SIGTERM or SIGINT, or where ROS has shut its node down, and leaves the vehicle standing. Its log: JSON lines on stderr.
While it runs it publishes at 20 Hz, zeros mostly: end it before you drive by other means.
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
    """`run` returns once `ending` is set and the wake called. VehicleNotReady: the vehicle is lost for good."""

    def __init__(self, car: OnboardContext, token: bytes, wake: WakePipe) -> None:
        self._car, self._token, self._wake = car, token, wake
        self.ending = False

    def run(self) -> None:
        first_s = self._car.settings["reconnect_s"]
        pause_s = 0.0
        while not self.ending:
            end = time.monotonic() + pause_s
            while time.monotonic() < end and not self.ending:
                self._look_after()
                self._wake.wait(min(_TICK_S, max(0.0, end - time.monotonic())))
            welcome = self._connection()
            pause_s = 0.0 if welcome else min(max(first_s, 2 * pause_s), 4 * first_s)

    def _look_after(self) -> None:
        self._car.outlet.mend()
        self._car.io.fault()  # VehicleNotReady comes from here

    def _connection(self) -> bool:
        """One connection, to its end. True: it was welcome, so that the next try may come at once."""
        planner, journal = self._car.settings["planner"], self._car.journal
        session: Optional[OnboardSession] = None
        try:
            link, name = open_link(
                planner["host"], planner["port"], self._token, self._car.settings["vehicle"]["name"], self._wake
            )
            journal.say("connected", session=name)
            session = OnboardSession(self._car, link, name)
            while not self.ending:
                self._look_after()
                session.turn()
            session.end("the vehicle's client ends")
        except (LinkLost, wire.BadFrame, wire.BadToken) as exc:
            self._car.motion.stop(exc.reason)
            journal.count(exc.reason, str(exc))
            if session is not None:
                link.close()
        return session is not None


def drive(settings_file: Path, journal: OnboardJournal) -> int:
    settings = read_settings(settings_file)
    token = read_token(settings["planner"]["token_file"])
    kept = lock(settings["folder"] / "client.lock", 0.5)  # `relay --stop` may be trying it just now
    io = open_io(settings, "ad2_onboard", sees=True)
    wake, latch = WakePipe(), EmergencyStopLatch(settings["folder"])
    io.wake = wake
    own = ActuationGate(io, settings["vehicle"], latch, journal)
    outlet: Union[ActuationGate, RelayLink] = RelayLink(settings_file, own, journal) if settings["relay"] else own

    def ended() -> None:
        journal.say("stands", reason=motion.state.reason, seq=motion.state.seq)
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
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the ssh that started it may go
    journal.say("begins", vehicle=settings["vehicle"]["name"], relay=settings["relay"], stopped=latch.held())
    try:
        client.run()
    finally:
        motion.close()
        outlet.close()
        io.close()
        kept.close()
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
        journal.say("cannot drive", why=str(exc))
        return 2
    finally:
        journal.close()


if __name__ == "__main__":
    sys.exit(main())
