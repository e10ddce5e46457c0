"""Image files are opened below the image folder only: regular files in a known format and of bounded size."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest
from PIL import Image, ImageFile
from support.running import REPO

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.data.releases.base import image_fault, size_of
from lmms_eval_ad2.harness.journal import ImageHashes
from lmms_eval_ad2.prompts.visual import is_plain, load_image
from lmms_eval_ad2.storage import image_files
from lmms_eval_ad2.storage.image_files import (
    ImageOutsideError,
    allow_links_to,
    image_sha256,
    locate,
    open_image,
    path_fault,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image folder beside a folder with a picture that is not part of the data."""
    folder, outside = tmp_path / "images", tmp_path / "private"
    for place in (folder, folder / "sub", outside):
        place.mkdir()
    for path in (folder / "a.png", folder / "sub" / "b.png", outside / "secret.png"):
        Image.new("RGB", (8, 6), (1, 2, 3)).save(path)
    (folder / "inside.png").symlink_to("sub/b.png")
    (folder / "out.png").symlink_to(outside / "secret.png")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "fifo.png")
    return folder


@pytest.mark.parametrize("name", ["a.png", "sub/b.png", "inside.png"])
def test_files_inside_are_opened(root: Path, name: str) -> None:
    assert load_image(root, name).size == size_of(root, name) == (8, 6)
    assert is_plain(root, name) and image_fault(root, name, (8, 6)) is None
    assert len(image_sha256(root, name)) == 64


OUTSIDE = ["out.png", "linked/secret.png", "../private/secret.png", "sub/../../private/secret.png"]


@pytest.mark.parametrize("name", [*OUTSIDE, "fifo.png", "sub", "circle", "none.png"])
def test_nothing_else_is_opened_by_any_reader(root: Path, name: str) -> None:
    """Without waiting: opening a FIFO would block until another process writes to it."""
    for opener in (load_image, is_plain):
        with pytest.raises(DataError):
            opener(root, name)
    with pytest.raises(OSError):
        size_of(root, name)
    with pytest.raises(OSError):
        image_sha256(root, name)
    assert image_fault(root, name, None)
    assert ImageHashes()(root, name) == "unreadable"


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_message_names_the_reason(root: Path, name: str) -> None:
    with pytest.raises(ImageOutsideError):
        locate(root, name)
    with pytest.raises(DataError, match="others are not opened"):
        load_image(root, name)


def test_a_socket_and_a_device_are_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("images/s.png")
        with pytest.raises(DataError):
            load_image(root, "s.png")
    (root / "null.png").symlink_to("/dev/zero")
    with pytest.raises(DataError):
        load_image(root, "null.png")


def test_the_folder_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    assert load_image(tmp_path / "link", "a.png").size == (8, 6)


def test_a_user_can_allow_the_target_of_links(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(image_files.ALLOWED_FOLDERS, f"/nowhere{os.pathsep}{root.parent / 'private'}")
    assert load_image(root, "linked/secret.png").size == (8, 6)


def test_linked_folders_of_a_set_are_allowed_for_later_commands(root: Path) -> None:
    allow_links_to(root.parent / "private")
    allow_links_to(root.parent / "private")
    assert load_image(root, "out.png").size == (8, 6)
    assert len((image_files.home() / "image_folders").read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["", " ", "/etc/passwd", "~/a.png", "C:/a.png", "a\\b.png", "http://x/a.png", "../a.png", "a/../../b.png",
             "a\0.png", "a\n.png", "a\x1b.png", "x" * 5_000, "x" * 256, "é" * 128, "a/" * 513, "\ud800.png", 7, None],
)  # fmt: skip
def test_names_that_are_never_opened(name: object) -> None:
    assert path_fault(name)


def test_an_overlong_name_in_a_release_is_a_bad_row(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"id": "1", "benchmark": "b", "question": "q", "answer": "a", "images": ["x" * 5_000]}
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match="1,024 bytes"):
        import_release("records", path, images=root)


def test_no_other_module_opens_images() -> None:
    """The servers of published models run without this package, in environments of their own."""
    opening = re.compile(r"\b(?:PIL\.)?[Ii]mage\.open\(|pillow\.open\(|cv2\.imread|imageio|matplotlib\.image")
    found = {
        path.relative_to(REPO).as_posix()
        for package in ("lmms_eval_ad2", "closedloop_plugin")
        for path in (REPO / package).rglob("*.py")
        if opening.search(path.read_text("utf-8"))
    }
    assert found == {
        "lmms_eval_ad2/storage/image_files.py", "closedloop_plugin/carla/leaderboard_agent/advlm_server.py",
    }  # fmt: skip


def test_bounds_and_formats(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for refused in (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n", b"", b"P6 1 1 255 abc"):
        with pytest.raises(OSError, match="known format"), open_image(refused):
            pass
    monkeypatch.setattr(image_files, "MOST_BYTES", 10)
    with pytest.raises(OSError, match="more than 10"), open_image(root / "a.png"):
        pass
    with pytest.raises(OSError, match="more than 10"), open_image(b"x" * 11):
        pass


def test_too_many_pixels_are_refused_before_decoding(root: Path) -> None:
    with pytest.raises(OSError, match="8x6 pixels, more than 40"), open_image(root / "a.png", most_pixels=40):
        raise AssertionError


def test_a_truncated_file_is_refused_although_another_library_accepts_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms-eval sets it
    Image.effect_noise((64, 64), 50).save(root / "n.png")
    (root / "n.png").write_bytes((root / "n.png").read_bytes()[:-200])
    with pytest.raises(DataError, match="truncated"):
        load_image(root, "n.png")
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def test_images_are_decoded_strictly_in_several_threads(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ends first must not restore the setting while another one still decodes."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    Image.effect_noise((64, 64), 50).save(root / "n.png")
    (root / "n.png").write_bytes((root / "n.png").read_bytes()[:-200])
    first, second = open_image(root / "a.png"), open_image(root / "n.png")
    first.__enter__()
    truncated = second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(OSError, match="truncated"):
        truncated.load()
    second.__exit__(None, None, None)
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def test_a_library_that_changes_the_setting_meanwhile_is_respected_at_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
    with open_image(root / "a.png"):
        ImageFile.LOAD_TRUNCATED_IMAGES = True  # lmms-eval is imported in another thread
        with open_image(root / "sub" / "b.png"):
            assert not ImageFile.LOAD_TRUNCATED_IMAGES
    assert ImageFile.LOAD_TRUNCATED_IMAGES
