"""Watching the ROS master. Connections between nodes outlive it, but nothing new can be connected, and rospy never
registers again with the one that comes after it: a recorder or a restarted base would find no /cmd_vel. So the vehicle
stands while there is no master, and both sides are registered anew when there is one again.
"""

import socket
import threading
import time
import xmlrpc.client
from typing import Callable, Optional, Tuple
from urllib.parse import urlsplit

PATIENCE_S = 2.0
LOOK_S = 1.0  # between two questions to a master that is there
AGAIN_S = 0.1


class _Timed(xmlrpc.client.Transport):
    def make_connection(self, host):
        connection = super().make_connection(host)
        connection.timeout = PATIENCE_S
        return connection


def ask(uri: str, method: str, *arguments: str) -> Tuple[int, object]:
    """(code, value) of a call to a master or a node; OSError where there is no sensible answer in time."""
    try:
        code, _, value = getattr(xmlrpc.client.ServerProxy(uri, transport=_Timed()), method)(*arguments)
        return int(code), value
    except OSError:
        raise
    except Exception as exc:  # http.client's, xmlrpc's, expat's: a stranger at that port
        raise OSError(f"no ROS master: {exc}") from None


class RosMasterMonitor:
    """`fault`: why there is no master at the moment, or None. `register` is called after a restart of it."""

    def __init__(self, uri: str, node: str, register: Callable[[], None], changed: Callable[[], None]) -> None:
        self.fault: Optional[str] = None
        self._uri, self._node, self._register, self._changed = uri, node, register, changed
        self._closed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._hold()
                continue  # it hung up, which may mean nothing
            except OSError as exc:
                self._set(f"no ROS master at {self._uri} ({exc})")
            self._closed.wait(AGAIN_S)

    def _hold(self) -> None:
        """An idle connection: its end is seen at once, where questions would see it a second later."""
        address = urlsplit(self._uri)
        with socket.create_connection((address.hostname or "", address.port or 11311), PATIENCE_S) as held:
            held.settimeout(LOOK_S)
            while not self._closed.is_set():
                if ask(self._uri, "lookupNode", self._node, self._node)[0] != 1:
                    self._register()
                self._set(None)
                begun = time.monotonic()
                try:
                    if not held.recv(1):
                        break
                except socket.timeout:
                    continue
            if not self._closed.is_set() and time.monotonic() - begun < AGAIN_S:
                self._closed.wait(AGAIN_S)  # one that hangs up at once is not asked in a circle

    def _set(self, fault: Optional[str]) -> None:
        if (fault is None) != (self.fault is None):
            self.fault = fault
            self._changed()
