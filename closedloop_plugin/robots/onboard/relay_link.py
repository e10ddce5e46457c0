"""The client's end of the relay: starts it, sends it actuations, and publishes zeros itself if it is lost.

A vehicle without a watchdog keeps executing its last command. So the client has its own publisher, unused while the
relay answers. A relay that has ended or been silent for 200 ms is killed (two publishers would contradict each other),
the client publishes zeros, and a new relay is started.
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
_UNANSWERED = 4  # commands: silence alone may also mean that this process was suspended, not the relay
START_S = 20.0  # a Jetson takes seconds to import rospy
RESTART_S = 1.0  # between two starts
_ROOT = Path(__file__).resolve().parents[3]  # the folder that holds closedloop_plugin


class RelayLink:
    """Same interface as ActuationGate. `publish` is called from the motion thread and never blocks; `repair` and
    `close` are called from the main thread."""

    def __init__(self, settings_file: Path, own: ActuationGate, journal: OnboardJournal) -> None:
        self._file, self._own, self._journal = settings_file, own, journal
        self.zero = own.zero
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._starting: Optional[socket.socket] = None  # channel of a relay that is not ready yet
        self._channel: Optional[socket.socket] = None  # channel of a relay that is ready
        self._heard_at, self._number, self._unanswered, self._start_at = 0.0, 0, 0, 0.0
        self._fault: Optional[str] = "the relay is not ready yet"

    def publish(self, actuation: Dict[str, Any], until: float) -> bool:
        with self._lock:
            if self._channel is not None:
                self._number, self._unanswered = self._number + 1, self._unanswered + 1
                now = time.monotonic()
                message = {"n": self._number, "sent": now, "until": until, "actuation": actuation}
                try:
                    self._receive(self._channel)
                    self._channel.send(json.dumps(message).encode("ascii"))
                    if now - self._heard_at > SILENT_S and self._unanswered > _UNANSWERED:
                        raise OSError(f"silent for {now - self._heard_at:.3f} s")
                    return True
                except OSError as exc:
                    self._lose(f"the relay is lost ({exc or type(exc).__name__})")
        return self._own.publish(self._own.zero, 0.0)

    def fault(self) -> Optional[str]:
        return self._fault

    def repair(self) -> None:
        """Start a relay if there is none, at most once a second, and check whether it is ready."""
        if self._starting is not None:
            self._check_ready(self._starting)
        elif self._channel is None and time.monotonic() >= self._start_at:
            self._start()

    def close(self) -> None:
        with self._lock:
            channel, self._channel = self._channel or self._starting, None
        if channel is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # the relay may have ended already
            channel.send(json.dumps({"end": True}).encode("ascii"))
        try:
            self._process.wait(ORPHAN_S + 1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
        channel.close()

    def _receive(self, channel: socket.socket) -> None:
        """Read the relay's answers. OSError if it has ended."""
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
        """Kill the relay, before the client publishes anything itself. Called with the lock held."""
        channel, self._channel, self._fault = self._channel, None, why
        self._journal.count("relay lost", why)
        if self._process is not None:
            self._process.kill()
        if channel is not None:
            channel.close()

    def _start(self) -> None:
        self._start_at = time.monotonic() + RESTART_S
        if self._process is not None:
            self._process.wait()  # killed before; reap it
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.relay", str(self._file), "--channel", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # signals of the client's terminal must not end the relay
                env=dict(os.environ, PYTHONPATH=path),
            )
        ours.setblocking(False)
        self._starting = ours

    def _check_ready(self, channel: socket.socket) -> None:
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
            self._journal.log("relay", pid=self._process.pid)
            with self._lock:
                self._heard_at, self._unanswered = time.monotonic(), 0
                self._channel = channel  # the fault stays until its first answer: the base may not be connected yet
            return
        self._process.kill()
        channel.close()
        self._fault = f"the relay does not start: {answer.get('failed', 'it ended at once')}"
        self._journal.count("relay not started", self._fault)
