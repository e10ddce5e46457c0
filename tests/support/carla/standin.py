"""Stand-in for CarlaUE4.sh: a script in a folder, which a test controls by files in that folder.

mode    reply to a request: a version, "version-only X" (the simulation hangs), "hang", "http"; absent: 0.9.16
starts  written: a line with the server's pid for each start
die     the first server that finds it removes it and exits with 7
stillborn  every server exits with 7 before it listens
listen  if a file `wait` exists, the server listens only when this file exists
"""

from __future__ import annotations

import os
import random
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
WORKERS = 8  # most workers of pytest-xdist among which the ports are divided
_returned: set[int] = set()


def until(condition: Callable[[], T], bound_s: float = 60.0) -> T:
    """Call `condition` until its result is true; returns it. The bound counts calls, so a stall does not use it up."""
    for _ in range(int(bound_s / 0.05)):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("the condition was not met in time")


def free_ports(number: int = 1) -> list[int]:
    """Ports that are free and were not returned before, here or in another pytest worker: they are bound only later."""
    from closedloop_plugin.carla.servers.record import ALL_PORTS, taken

    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % WORKERS
    found: list[int] = []
    while len(found) < number:
        port = 12000 + 4 * (worker + WORKERS * random.SystemRandom().randrange(1500 // WORKERS))
        if port not in _returned and not taken(port, ALL_PORTS):
            found.append(port)
            _returned.add(port)
    return found


def _script(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def binary(folder: Path) -> Path:
    """A CarlaUE4.sh, which like the real one starts the simulator as a child and waits for it."""
    folder.mkdir(exist_ok=True)
    call = f'"{sys.executable}" -S -E "{Path(__file__).resolve()}" server "{folder}" "$@"'
    return _script(folder / "CarlaUE4.sh", f"#!/bin/sh\necho the stand-in starts\n{call}\nexit $?\n")


def answering(mode: str) -> Iterator[Any]:
    """A server in this process, for tests of the probe; yields its port."""
    sock = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_listen, args=(sock, lambda: mode), daemon=True)
    thread.start()
    yield sock.getsockname()[1]
    # Else the thread would keep waiting, and accept for the next socket with this file descriptor.
    sock.shutdown(socket.SHUT_RDWR)
    thread.join()
    sock.close()


def _listen(sock: socket.socket, mode: Callable[[], str]) -> None:
    while True:
        try:
            peer, _ = sock.accept()
        except OSError:
            return
        threading.Thread(target=_answer_client, args=(peer, mode), daemon=True).start()


def _answer_client(peer: socket.socket, mode: Callable[[], str]) -> None:
    """msgpack-rpc as in CARLA: [0, id, method, arguments] -> [1, id, nil, [[1, value]]], in bytes."""
    with peer:
        while request := peer.recv(4096):
            reply = mode()
            if reply == "http":
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            if reply == "hang" or (reply.startswith("version-only") and b"version" not in request):
                continue
            text = reply.removeprefix("version-only ").encode()
            value = bytes([0xA0 | len(text)]) + text if b"version" in request else b"\x90"
            peer.sendall(bytes([0x94, 1, request[2], 0xC0, 0x91, 0x92, 1]) + value)


def _text(file: Path) -> str:
    """The text of `file`; empty if it does not exist."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def _serve(folder: Path, words: list[str]) -> None:
    (port,) = (int(w.split("=")[1]) for w in words if w.startswith("-carla-rpc-port="))
    with (folder / "starts").open("a") as out:
        out.write(f"{os.getpid()} {' '.join(words)}\n")
    while (folder / "wait").exists() and not (folder / "listen").exists():
        time.sleep(0.05)
    if (folder / "stillborn").exists():
        print("no GPU for the stand-in", flush=True)
        sys.exit(7)
    mode = folder / "mode"
    sock = socket.create_server(("0.0.0.0", port))
    thread = threading.Thread(target=_listen, args=(sock, lambda: _text(mode) or "0.9.16"), daemon=True)
    thread.start()
    while not (folder / "die").exists():
        time.sleep(0.05)
    (folder / "die").unlink()
    sys.exit(7)


if __name__ == "__main__":
    _serve(Path(sys.argv[2]), sys.argv[3:])
