"""Accepts and authenticates vehicle connections, and reads their frames until a connection is lost."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.session import PlannerHandshake, SessionLost, VehicleRefused, VehicleSession

RETRY_S = 0.1
HANDSHAKES_MAX = 32  # connections in their handshake at once
HANDSHAKES_PER_ADDRESS = 8


@dataclass(eq=False)
class _Handshake:
    """A connection that is not authenticated yet. displaced: closed in favour of a newer one."""

    sock: socket.socket
    peer: str
    displaced: bool = False


class _Handshakes:
    """The connections in their handshake, oldest first. A new one always finds room: a vehicle is authenticated within
    one round trip, so that the oldest connection of an address that fills its places is hardly the vehicle's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[_Handshake] = []

    def add(self, new: _Handshake) -> None:
        with self._lock:
            by_address = Counter(one.peer for one in self._open)
            if by_address[new.peer] >= HANDSHAKES_PER_ADDRESS:
                self._displace(new.peer)
            elif len(self._open) >= HANDSHAKES_MAX:
                self._displace(by_address.most_common(1)[0][0])
            self._open.append(new)

    def remove(self, one: _Handshake) -> bool:
        """False if it was displaced meanwhile."""
        with self._lock:
            if not one.displaced:
                self._open.remove(one)
            return not one.displaced

    def _displace(self, peer: str) -> None:
        oldest = next(one for one in self._open if one.peer == peer)
        self._open.remove(oldest)
        oldest.displaced = True
        with suppress(OSError):
            oldest.sock.shutdown(socket.SHUT_RDWR)  # wakes its thread


class ConnectionHandler(Protocol):
    """Implemented by PlannerServer. Called from the connections' threads."""

    def admit(self, make: Callable[[], VehicleSession]) -> VehicleSession:
        """Open a session with `make` for an authenticated vehicle. VehicleRefused if another one is connected."""
        ...

    def on_frame(self, session: VehicleSession, kind: str, header: wire.Header, blob: bytes) -> None:
        """A valid frame of this session was received."""
        ...

    def on_closed(self, session: VehicleSession, why: str) -> None:
        """The connection of this session has ended."""
        ...


class ConnectionListener:
    """Listens until `close`. One thread accepts, and each connection has its own thread."""

    def __init__(
        self, server: socket.socket, token: bytes, vehicle: str, handler: ConnectionHandler, journal: PlannerJournal
    ) -> None:
        """`vehicle`: the vehicle name that a client must send."""
        self._server, self._token, self._vehicle, self._handler, self._journal = (
            server,
            token,
            vehicle,
            handler,
            journal,
        )
        self._handshakes = _Handshakes()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="ad2-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self._thread.join()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._server.accept()
            except OSError as exc:  # out of file descriptors, for example: retry, some may be freed
                if self._closing.wait(RETRY_S):
                    return
                self._journal.event("refused", "cannot accept", detail=str(exc))
                continue
            handshake = _Handshake(sock, str(peer[0]))
            self._handshakes.add(handshake)
            threading.Thread(target=self._serve, args=[handshake], name="ad2-vehicle", daemon=True).start()

    def _serve(self, handshake: _Handshake) -> None:
        session, refused = None, ("", "")
        try:
            session = self._authenticate(handshake.sock)
        except VehicleRefused as exc:
            refused = exc.reason, str(exc)[:300]
        except OSError as exc:  # closed while the welcome was sent
            refused = "no handshake", str(exc)
        finally:
            stayed = self._handshakes.remove(handshake)
            if session is None:
                handshake.sock.close()
        if session is not None:
            self._read_frames(session)
            return
        reason, detail = refused if stayed else ("displaced", "a newer connection took its place")
        self._journal.event("refused", reason, detail=detail, peer=handshake.peer)

    def _authenticate(self, sock: socket.socket) -> VehicleSession:
        handshake = PlannerHandshake(sock)
        try:
            welcome = handshake.welcome(self._token, self._vehicle)
            return self._handler.admit(lambda: VehicleSession(sock, welcome))
        except VehicleRefused as exc:
            if exc.peer_reason:
                handshake.refuse(exc.peer_reason)
            raise

    def _read_frames(self, session: VehicleSession) -> None:
        why = "internal error"
        try:
            for kind, header, blob in session.frames():
                wire.check(kind, header)
                if header.get("session") != session.id:
                    raise VehicleRefused("other session", kind)
                self._handler.on_frame(session, kind, header, blob)
        except SessionLost as exc:
            why = str(exc)
        except (wire.BadFrame, VehicleRefused) as exc:
            why = f"refused: {exc.reason}"
            self._journal.event("refused", exc.reason, detail=str(exc)[:300], session=session.id)
        finally:
            session.close()
            self._handler.on_closed(session, why)
