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


def test_a_given_file_is_not_downloaded_or_copied(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "one.json").write_bytes(CONTENT)
    sources = FileSources(tmp_path / "out", given, "nowhere:")
    assert sources.find(listed(content=CONTENT), "one") == given / "one.json"
    assert not (tmp_path / "out").exists()


def test_another_version_of_a_given_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b"changed")
    with pytest.raises(Ad2Error, match=rf"one\.json: sha256 is {sha256(b'changed')}, the list has .* another version"):
        FileSources(tmp_path / "out", tmp_path).find(listed(content=CONTENT), "one")


def test_a_given_file_is_recognised_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b"an older version under the name of the list")
    (tmp_path / "merged (2).json").write_bytes(CONTENT)
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    sources = FileSources(tmp_path / "out", tmp_path, "nowhere:")
    assert sources.find(listed(content=CONTENT), "one") == tmp_path / "merged (2).json"
    assert sources.find(listed(content=CONTENT), "routes") == tmp_path / "merged (2).json"


def test_a_folder_with_one_file_per_route_has_the_hash_of_its_listing(tmp_path: Path) -> None:
    file = listed(path=BY_ROUTE, sha256=LISTING)
    (tmp_path / "one").mkdir()
    for route, part in PARTS.items():
        (tmp_path / "one" / f"{route}.json").write_bytes(part)
    assert listing_sha256(tmp_path / "one", file, ROUTES) == LISTING
    assert FileSources(tmp_path / "out", tmp_path).find(file, "one", ROUTES) == tmp_path / "one"
    (tmp_path / "one" / "23.json").unlink()
    with pytest.raises(Ad2Error, match=r"23\.json: missing"):
        FileSources(tmp_path / "out", tmp_path).find(file, "one", ROUTES)


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").mkdir()
    with pytest.raises(Ad2Error, match="expected a file"):
        FileSources(tmp_path / "out", tmp_path).find(listed(), "one")


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
        (404, False, "answered 404 Not Found; get it by another way and give its folder: --files DIR"),
        (500, False, "answered 500"),
        (CONTENT, True, f"the connection ended after {len(CONTENT)} of {len(CONTENT) + 100} bytes"),
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
    with refusing_port() as port, pytest.raises(Ad2Error, match=r"cannot be downloaded \(.*refused") as found:
        FileSources(tmp_path, host=f"http://127.0.0.1:{port}").find(listed(), "one")
    assert "\n" not in str(found.value)


@pytest.mark.integration
def test_the_error_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(b"another file")
    with serving({}) as server:
        sources = FileSources(tmp_path / "out", tmp_path, server.address)
        looked = rf"under any name .*sha256, {sha256(CONTENT)}; none of the 1 file\(s\) of .* has it"
        with pytest.raises(Ad2Error, match=looked):
            sources.find(listed(content=CONTENT), "one")
        with pytest.raises(Ad2Error, match=r"with the name one/1\.json in DIR \(.* has no folder one\)"):
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
def test_redirects_to_other_hosts_are_refused_and_those_within_one_are_followed(tmp_path: Path) -> None:
    with serving({ADDRESS: CONTENT}) as other, serving({"/there": CONTENT}) as server:
        server.files = {**server.files, ADDRESS: f"{other.address}{ADDRESS}"}
        with pytest.raises(Ad2Error, match=rf"it redirects to {other.address}\b.*get it by another way"):
            FileSources(tmp_path, host=server.address).find(listed(content=CONTENT), "one")
        assert other.requests == [] and not (tmp_path / "one.json").exists()
        server.files = {**server.files, ADDRESS: "/there"}
        assert FileSources(tmp_path, host=server.address).find(listed(content=CONTENT), "one").read_bytes() == CONTENT


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
