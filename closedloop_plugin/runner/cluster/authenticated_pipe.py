"""Pipes over the network whose two ends have proved to each other that they have the same key.

The messages are pickled, therefore nothing is unpickled before both proofs (HMAC challenges of
multiprocessing.connection). The key is made by the process that runs episodes and reaches the actors through Ray, in a
cluster with a token. Messages are neither encrypted nor signed: as for Ray itself, the network between the nodes is
trusted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

HANDSHAKE_S = 10
ACCEPT_PAUSE_S = 0.05
HANDSHAKES = 64  # at a time; a further connection displaces the oldest: a peer with the key needs a round trip
RETRY_S = 30.0  # of opening a pipe, which others may displace
RETRY_PAUSE_S = 0.1
LONGEST_NAME = 100  # bytes
# A peer whose machine is gone is noticed after a minute.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class PipeListener:
    """Accepts the pipes of expected peers, which name themselves. `host`: the address to listen on."""

    def __init__(self, host: str) -> None:
        self.key = secrets.token_bytes(32)
        self._expected: dict[str, Callable[[Connection], None]] = {}
        self._handshakes: list[Connection] = []  # that are not complete, oldest first
        self._lock = threading.Lock()
        self._socket = socket.create_server((host, 0), backlog=128)
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="ad2-pipes", daemon=True).start()

    def expect(self, accepted: Callable[[Connection], None]) -> str:
        """A name for a peer; `accepted` is called in another thread with its pipe, at most once."""
        name = secrets.token_hex(16)
        self._expected[name] = accepted
        return name

    def forget(self, name: str) -> None:
        self._expected.pop(name, None)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()

    def _accept(self) -> None:
        while self._socket.fileno() >= 0:  # not closed
            try:
                peer, _ = self._socket.accept()
            except OSError:  # closed, or too many open files, or the peer is gone
                time.sleep(ACCEPT_PAUSE_S)
                continue
            try:
                pipe = _pipe(peer, HANDSHAKE_S)
            except OSError:  # it has left
                peer.close()
                continue
            with self._lock:
                if len(self._handshakes) >= HANDSHAKES:
                    end_pipe(self._handshakes.pop(0))
                self._handshakes.append(pipe)
            threading.Thread(target=self._greet, args=(pipe,), daemon=True).start()

    def _greet(self, pipe: Connection) -> None:
        accepted = None
        # The time limit of the pipe is that of each read: a peer may send byte by byte.
        limit = threading.Timer(HANDSHAKE_S, end_pipe, (pipe,))
        limit.daemon = True
        limit.start()
        try:
            deliver_challenge(pipe, self.key)
            answer_challenge(pipe, self.key)
            accepted = self._expected.pop(pipe.recv_bytes(LONGEST_NAME).decode("ascii", "replace"), None)
        except Exception:  # a foreign peer may send anything; nothing of it is kept
            accepted = None
        finally:
            limit.cancel()
            with self._lock:
                if pipe in self._handshakes:  # not displaced
                    self._handshakes.remove(pipe)
        if accepted is None:
            pipe.close()
            return
        _set_timeout(pipe, 0)
        accepted(pipe)


def open_pipe(address: tuple[str, int], key: bytes, name: str) -> Connection:
    """Connect to a PipeListener under the `name` that it expects. Raises OSError, EOFError or AuthenticationError.

    Tries again for RETRY_S, unless the other end has another key.
    """
    deadline = time.monotonic() + RETRY_S
    while True:
        try:
            return _open_once(address, key, name)
        except (OSError, EOFError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_PAUSE_S)


def _open_once(address: tuple[str, int], key: bytes, name: str) -> Connection:
    pipe = _pipe(socket.create_connection(address, timeout=HANDSHAKE_S), HANDSHAKE_S)
    try:
        answer_challenge(pipe, key)
        deliver_challenge(pipe, key)
        pipe.send_bytes(name.encode())
    except BaseException:
        pipe.close()
        raise
    _set_timeout(pipe, 0)
    return pipe


def end_pipe(pipe: Connection) -> None:
    """End a pipe for a thread that reads from it; the reader closes it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def _pipe(peer: socket.socket, timeout_s: int) -> Connection:
    peer.settimeout(None)  # Connection reads the file descriptor
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a message is two writes: length, content
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for option, value in _KEEPALIVE.items():
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    pipe = Connection(peer.detach())
    _set_timeout(pipe, timeout_s)
    return pipe


def _set_timeout(pipe: Connection, seconds: int) -> None:
    """Time limit of each read and write; 0: none. Of the system, since Connection bypasses socket.settimeout."""
    with socket.socket(fileno=os.dup(pipe.fileno())) as own:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            own.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))
