"""Monitors the ROS master. Connections between nodes outlive it, but no new ones can be made, and rospy never
registers with a restarted master: a recorder or a restarted base would find no /cmd_vel. So the vehicle stands while
there is no master, and publishers and subscribers are registered again when there is one.
"""

import socket
import threading
import time
import xmlrpc.client
from typing import Callable, Optional, Tuple
from urllib.parse import urlsplit

TIMEOUT_S = 2.0
CHECK_S = 1.0  # between two checks of a running master
RETRY_S = 0.1


class _Timed(xmlrpc.client.Transport):
    def make_connection(self, host):
        connection = super().make_connection(host)
        connection.timeout = TIMEOUT_S
        return connection


def call(uri: str, method: str, *arguments: str) -> Tuple[int, object]:
    """Call an XML-RPC method of a master or a node; returns (code, value). OSError: no valid answer in time."""
    try:
        code, _, value = getattr(xmlrpc.client.ServerProxy(uri, transport=_Timed()), method)(*arguments)
        return int(code), value
    except OSError:
        raise
    except Exception as exc:  # of http.client, xmlrpc or expat: another program at that port
        raise OSError(f"no ROS master: {exc}") from None


class RosMasterMonitor:
    """`fault`: why there is no master at the moment, or None. `register` is called after the master restarted."""

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
                continue  # the connection was closed; the master may still run
            except OSError as exc:
                self._set(f"no ROS master at {self._uri} ({exc})")
            self._closed.wait(RETRY_S)

    def _hold(self) -> None:
        """Keep an idle connection, whose end is noticed at once; polling would notice it up to a second later."""
        address = urlsplit(self._uri)
        with socket.create_connection((address.hostname or "", address.port or 11311), TIMEOUT_S) as held:
            held.settimeout(CHECK_S)
            while not self._closed.is_set():
                if call(self._uri, "lookupNode", self._node, self._node)[0] != 1:
                    self._register()
                self._set(None)
                begun = time.monotonic()
                try:
                    if not held.recv(1):
                        break
                except socket.timeout:
                    continue
            if not self._closed.is_set() and time.monotonic() - begun < RETRY_S:
                self._closed.wait(RETRY_S)  # no busy loop with a master that closes connections at once

    def _set(self, fault: Optional[str]) -> None:
        if (fault is None) != (self.fault is None):
            self.fault = fault
            self._changed()
