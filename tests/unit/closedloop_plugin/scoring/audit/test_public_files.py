"""Files from folders and from a server: checked by hash, in one attempt, never half written."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from pathlib import Path

import pytest
from support.closedloop.audits import COMMIT, listed, serving, sha256
from support.running import refusing_port

from closedloop_plugin.scoring.audit.public_files import FileSources, listing_sha256
from lmms_eval_ad2.core.errors import Ad2Error

ROOT = f"/group/project/{COMMIT}"
ADDRESS = f"{ROOT}/results/one.json"
CONTENT = b'{"_checkpoint": {}}'
ROUTES = ("1", "23")
PARTS = {"1": b"first", "23": b"second"}
BY_ROUTE = "r/{route}/end point.json"
LISTING = hashlib.sha256(
    "".join(sorted(f"{sha256(part)}  r/{route}/end point.json\n" for route, part in PARTS.items())).encode()
).hexdigest()
PART_ADDRESSES = {f"{ROOT}/r/{route}/end%20point.json": part for route, part in PARTS.items()}


def test_a_stored_file_is_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(CONTENT)
    assert FileSources(tmp_path, "nowhere:").find(listed(content=CONTENT), "one") == tmp_path / "one.json"


def test_another_version_of_a_stored_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b"changed")
    with pytest.raises(Ad2Error, match=rf"one\.json: sha256 is {sha256(b'changed')}, the list has .* another version"):
        FileSources(tmp_path, "nowhere:").find(listed(content=CONTENT), "one")


def test_a_folder_with_one_file_per_route_has_the_hash_of_its_listing(tmp_path: Path) -> None:
    file = listed(path=BY_ROUTE, sha256=LISTING)
    (tmp_path / "one").mkdir()
    for route, part in PARTS.items():
        (tmp_path / "one" / f"{route}.json").write_bytes(part)
    assert listing_sha256(tmp_path / "one", file, ROUTES) == LISTING
    assert FileSources(tmp_path, "nowhere:").find(file, "one", ROUTES) == tmp_path / "one"
    (tmp_path / "one" / "23.json").unlink()
    with pytest.raises(Ad2Error, match=r"23\.json: missing"):
        FileSources(tmp_path, "nowhere:").find(file, "one", ROUTES)


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").mkdir()
    with pytest.raises(Ad2Error, match="expected a file"):
        FileSources(tmp_path, "nowhere:").find(listed(), "one")


def test_only_http_addresses_are_opened(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="not an address that begins with https://"):
        FileSources(tmp_path, host="file:///etc").find(listed(), "one")


@pytest.mark.integration
def test_a_download_is_stored_once(tmp_path: Path) -> None:
    with serving({ADDRESS: CONTENT}) as server:
        sources = FileSources(tmp_path / "out", host=server.address + "/")
        for _ in range(2):
            assert sources.find(listed(content=CONTENT), "one").read_bytes() == CONTENT
    assert server.requests == [ADDRESS]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("answer", "cut", "message"),
    [
        (b"other bytes", False, "another version of the file"),
        (404, False, "answered 404 Not Found; get it by another way and store it as "),
        (500, False, "answered 500"),
        (CONTENT, True, r"cannot be downloaded \(.*not completed"),
        (b"x" * 1001, False, "larger than 1000 bytes"),
    ],
)
def test_a_failed_download_leaves_nothing_and_is_not_repeated(
    tmp_path: Path, answer: bytes | int, cut: bool, message: str
) -> None:
    with serving({ADDRESS: answer}, frozenset({ADDRESS} if cut else ())) as server:
        sources = FileSources(tmp_path / "out", host=server.address, most_bytes=1000)
        with pytest.raises(Ad2Error, match=message) as found:
            sources.find(listed(content=CONTENT), "one")
    assert server.requests == [ADDRESS]
    assert ADDRESS in str(found.value) and "\n" not in str(found.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.integration
def test_no_server_is_one_line(tmp_path: Path) -> None:
    with refusing_port() as port, pytest.raises(Ad2Error, match=r"cannot be downloaded \(Cannot connect") as found:
        FileSources(tmp_path, host=f"http://127.0.0.1:{port}").find(listed(), "one")
    assert "\n" not in str(found.value)


@pytest.mark.integration
def test_the_error_has_the_path_and_the_hash_of_the_file(tmp_path: Path) -> None:
    with serving({}) as server:
        sources = FileSources(tmp_path, server.address)
        with pytest.raises(Ad2Error, match=rf"store it as {tmp_path}/one\.json \(its sha256 is {sha256(CONTENT)}\)"):
            sources.find(listed(content=CONTENT), "one")
        with pytest.raises(Ad2Error, match=rf"store it as {tmp_path}/one/1\.json$"):
            sources.find(listed(path=BY_ROUTE), "one", ROUTES)


@pytest.mark.integration
def test_files_by_route_continue_after_a_failure(tmp_path: Path) -> None:
    file = listed(path=BY_ROUTE, sha256=LISTING)
    first, second = PART_ADDRESSES
    with serving({first: PARTS["1"], second: 503}) as server:
        sources = FileSources(tmp_path, host=server.address)
        with pytest.raises(Ad2Error, match="answered 503"):
            sources.find(file, "one", ROUTES)
        assert not (tmp_path / "one").exists()
        server.files = PART_ADDRESSES
        folder = sources.find(file, "one", ROUTES)
    assert server.requests == [first, second, second]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"1.json": b"first", "23.json": b"second"}
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.integration
def test_files_by_route_of_another_version_are_removed(tmp_path: Path) -> None:
    with serving(PART_ADDRESSES) as server, pytest.raises(Ad2Error, match="another version"):
        FileSources(tmp_path, host=server.address).find(listed(path=BY_ROUTE), "one", ROUTES)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("route", ["../../escaped", "/escaped", "..", ""])
def test_a_route_id_with_a_path_leaves_the_folder_alone(tmp_path: Path, route: str) -> None:
    """The download is refused before the first request (the address would be refused later)."""
    with pytest.raises(Ad2Error, match="cannot be part of a file name"):
        FileSources(tmp_path / "out", host="nowhere:").find(listed(path=BY_ROUTE), "one", [route])
    assert not list(tmp_path.iterdir())


@pytest.mark.integration
def test_redirects_are_refused(tmp_path: Path) -> None:
    """Their address is not the one that the user was shown."""
    with serving({ADDRESS: "/there", "/there": CONTENT}) as server:
        with pytest.raises(Ad2Error, match="the server answered 302"):
            FileSources(tmp_path, host=server.address).find(listed(content=CONTENT), "one")
        assert server.requests == [ADDRESS] and not list(tmp_path.iterdir())


@pytest.mark.integration
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
def test_a_server_that_sends_slowly_has_a_deadline(head: bytes, tmp_path: Path) -> None:
    """A byte arrives before each time limit of the connection, in the head or in the content, without an end."""
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(head)
            while not ended.wait(0.01):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        sources = FileSources(tmp_path, host=f"http://127.0.0.1:{listener.getsockname()[1]}", deadline_s=0.3)
        try:
            with pytest.raises(Ad2Error, match=r"cannot be downloaded \(not complete after 0.3 s\); get it by another"):
                sources.find(listed(content=CONTENT), "one")
        finally:
            ended.set()
            thread.join()
