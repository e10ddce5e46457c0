"""The client's end of the relay: starts it, feeds it, and stands in for it with zeros where it is lost.

A vehicle without a watchdog keeps its last command. So the client keeps a publisher of its own, silent while the relay
answers; once the relay is dead or silent for 200 ms it is ended for good (two publishers would contradict each other),
zeros go out from here, and a new relay is started.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Optional

from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.relay import MESSAGE_MAX, ORPHAN_S

SILENT_S = 0.2
_UNANSWERED = 4  # commands too: where this process was held up itself, the relay has done no wrong
START_S = 20.0  # a Jetson takes seconds to import rospy
AGAIN_S = 1.0  # between two starts
_ROOT = Path(__file__).resolve().parents[3]  # the folder that holds closedloop_plugin


class RelayLink:
    """Used like a Gate. `publish` is the motion thread's and never blocks; `mend` and `close` are the main thread's."""

    def __init__(self, settings_file: Path, own: ActuationGate, journal: OnboardJournal) -> None:
        self._file, self._own, self._journal = settings_file, own, journal
        self.zero = own.zero
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._starting: Optional[socket.socket] = None  # to a relay that is not ready yet
        self._channel: Optional[socket.socket] = None  # to one that is
        self._heard_at, self._number, self._unanswered, self._start_at = 0.0, 0, 0, 0.0
        self._fault: Optional[str] = "the relay is not ready yet"

    def publish(self, actuation: Dict[str, Any], until: float) -> bool:
        with self._lock:
            if self._channel is not None:
                self._number, self._unanswered = self._number + 1, self._unanswered + 1
                now = time.monotonic()
                message = {"n": self._number, "sent": now, "until": until, "actuation": actuation}
                try:
                    self._hear(self._channel)
                    self._channel.send(json.dumps(message).encode("ascii"))
                    if now - self._heard_at > SILENT_S and self._unanswered > _UNANSWERED:
                        raise OSError(f"silent for {now - self._heard_at:.3f} s")
                    return True
                except OSError as exc:
                    self._lose(f"the relay is lost ({exc or type(exc).__name__})")
        return self._own.publish(self._own.zero, 0.0)

    def fault(self) -> Optional[str]:
        return self._fault

    def mend(self) -> None:
        """See to it that a relay runs: start one, once a second at most, and look whether it is ready."""
        if self._starting is not None:
            self._look(self._starting)
        elif self._channel is None and time.monotonic() >= self._start_at:
            self._start()

    def close(self) -> None:
        with self._lock:
            channel, self._channel = self._channel or self._starting, None
        if channel is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # it may be gone before us
            channel.send(json.dumps({"end": True}).encode("ascii"))
        try:
            self._process.wait(ORPHAN_S + 1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
        channel.close()

    def _hear(self, channel: socket.socket) -> None:
        """What the relay has answered since; OSError where it has ended."""
        while True:
            try:
                data = channel.recv(MESSAGE_MAX)
            except BlockingIOError:
                return
            if not data:
                raise OSError("ended")
            self._fault = json.loads(data.decode("ascii")).get("fault")
            self._heard_at, self._unanswered = time.monotonic(), 0

    def _lose(self, why: str) -> None:
        """With the lock held. It is killed before anything of ours is published."""
        channel, self._channel, self._fault = self._channel, None, why
        self._journal.count("relay lost", why)
        if self._process is not None:
            self._process.kill()
        if channel is not None:
            channel.close()

    def _start(self) -> None:
        self._start_at = time.monotonic() + AGAIN_S
        if self._process is not None:
            self._process.wait()  # it was killed
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.relay", str(self._file), "--channel", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # what ends the client's terminal must not end the relay
                env=dict(os.environ, PYTHONPATH=path),
            )
        ours.setblocking(False)
        self._starting = ours

    def _look(self, channel: socket.socket) -> None:
        assert self._process is not None
        try:
            answer = json.loads(channel.recv(MESSAGE_MAX).decode("ascii") or "{}")
        except BlockingIOError:
            if time.monotonic() < self._start_at + START_S:
                return
            answer = {"failed": f"it said nothing within {START_S:g} s"}
        except OSError:
            answer = {}
        self._starting = None
        if "ready" in answer:
            self._journal.say("relay", pid=self._process.pid)
            with self._lock:
                self._heard_at, self._unanswered = time.monotonic(), 0
                self._channel = channel  # the fault stays until its first answer: nobody may listen to it yet
            return
        self._process.kill()
        channel.close()
        self._fault = f"the relay does not start: {answer.get('failed', 'it ended at once')}"
        self._journal.count("relay not started", self._fault)
