"""Maps from a CARLA server: addresses, and ports where no CARLA server answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from closedloop_plugin.carla.maps.from_server import address, fetch_town
from lmms_eval_ad2.core.errors import Ad2Error


@contextmanager
def port(answer: bytes | None) -> Iterator[str]:
    """A socket that accepts and answers with these bytes; None: it accepts and stays silent."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    stop = threading.Event()
    connections: list[socket.socket] = []

    def serve() -> None:
        while not stop.is_set():
            try:
                connection, _ = server.accept()
                connections.append(connection)
                if answer is not None:
                    connection.sendall(answer)
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        for connection in (*connections, server):
            connection.close()


@pytest.mark.integration
@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\x00\xc1garbage" * 50])
def test_a_port_without_a_carla_server_is_reported_in_one_line(tmp_path: Path, answer: bytes | None) -> None:
    pytest.importorskip("carla")
    with port(answer) as server, pytest.raises(Ad2Error, match=server) as caught:
        fetch_town(server, tmp_path, timeout_s=1.0)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_a_closed_port_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("carla")
    with socket.create_server(("127.0.0.1", 0)) as s:
        free = s.getsockname()[1]
    with pytest.raises(Ad2Error, match="no CARLA server answers there"):
        fetch_town(f"127.0.0.1:{free}", tmp_path, timeout_s=1.0)


@pytest.mark.parametrize("wrong", ["localhost", ":2000", "host:", "host:99999", "host:port"])
def test_an_invalid_address_is_refused(wrong: str) -> None:
    with pytest.raises(Ad2Error, match="expected host:port"):
        address(wrong)
    assert address("localhost:2000") == ("localhost", 2000)
