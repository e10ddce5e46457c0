"""Who comes to the planner: accepted, asked for proof, let in or refused; then heard until the connection is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.session import PlannerHandshake, SessionLost, VehicleRefused, VehicleSession

AGAIN_S = 0.1
STRANGERS = 8  # connections that may be in their handshake at once


class ConnectionHandler(Protocol):
    """The planner. Called from the threads of connections."""

    def admit(self, make: Callable[[], VehicleSession]) -> VehicleSession:
        """The session that `make` opens for somebody who knows the token; Refused where there is no room."""
        ...

    def hear(self, session: VehicleSession, kind: str, header: wire.Header, blob: bytes) -> None:
        """A frame of its kind's form, of this session."""
        ...

    def gone(self, session: VehicleSession, why: str) -> None: ...


class ConnectionListener:
    """Open until `close`. A thread accepts, and each connection has one of its own."""

    def __init__(
        self, server: socket.socket, token: bytes, vehicle: str, host: ConnectionHandler, journal: PlannerJournal
    ) -> None:
        """`vehicle`: the name that its client must give."""
        self._server, self._token, self._vehicle, self._host, self._journal = server, token, vehicle, host, journal
        self._strangers = threading.Semaphore(STRANGERS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="ad2-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
        self._thread.join()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._server.accept()
            except OSError as exc:  # out of file descriptors, say: those of others may come free
                if self._closing.wait(AGAIN_S):
                    return
                self._journal.event("refused", "cannot accept", detail=str(exc))
                continue
            if not self._strangers.acquire(blocking=False):
                self._journal.event("refused", "too many strangers")
                sock.close()
                continue
            threading.Thread(target=self._meet, args=[sock, str(peer[0])], name="ad2-vehicle", daemon=True).start()

    def _meet(self, sock: socket.socket, peer: str) -> None:
        session = None
        try:
            session = self._greet(sock)
        except VehicleRefused as exc:
            self._journal.event("refused", exc.reason, detail=str(exc)[:300], peer=peer)
        except OSError as exc:  # gone with the welcome on its way
            self._journal.event("refused", "no handshake", detail=str(exc), peer=peer)
        finally:
            self._strangers.release()
            if session is None:
                sock.close()
        if session is not None:
            self._attend(session)

    def _greet(self, sock: socket.socket) -> VehicleSession:
        greeting = PlannerHandshake(sock)
        try:
            welcome = greeting.welcome(self._token, self._vehicle)
            return self._host.admit(lambda: VehicleSession(sock, welcome))
        except VehicleRefused as exc:
            if exc.told:
                greeting.refuse(exc.told)
            raise

    def _attend(self, session: VehicleSession) -> None:
        why = "an error of ours"
        try:
            for kind, header, blob in session.frames():
                wire.check(kind, header)
                if header.get("session") != session.id:
                    raise VehicleRefused("other session", kind)
                self._host.hear(session, kind, header, blob)
        except SessionLost as exc:
            why = str(exc)
        except (wire.BadFrame, VehicleRefused) as exc:
            why = f"refused: {exc.reason}"
            self._journal.event("refused", exc.reason, detail=str(exc)[:300], session=session.id)
        finally:
            session.close()
            self._host.gone(session, why)
