"""On-board camera images: size of a JPEG, and raw images encoded by Pillow or OpenCV."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from closedloop_plugin.robots.onboard import jpeg, ros_messages

PACKERS = [jpeg._with_pillow, jpeg._with_opencv]
RED, BLUE = (200, 20, 10), (10, 20, 200)


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(["RGB", "L"]), st.booleans(), st.binary(max_size=40))
def test_the_size_is_read_without_unpacking(
    width: int, height: int, mode: str, progressive: bool, comment: bytes
) -> None:
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, "JPEG", progressive=progressive, comment=comment)
    assert jpeg.size(out.getvalue()) == (width, height)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_refused_or_have_a_valid_size(data: bytes, begun: bool) -> None:
    try:
        width, height = jpeg.size(b"\xff\xd8" + data if begun else data)
    except jpeg.InvalidCameraImage:
        return
    assert 0 < width * height <= jpeg.PIXELS_MAX


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8", "mono8"])
def test_raw_images_keep_their_colours(pack: jpeg.Packer, encoding: str) -> None:
    """Left half red, right half blue; each row ends with six bytes of padding."""
    picture = np.zeros((16, 32, 3), np.uint8)
    picture[:, :16], picture[:, 16:] = RED, BLUE
    if encoding.startswith("bgr"):
        picture = picture[..., ::-1]
    if encoding.endswith("a8"):
        picture = np.dstack([picture, np.full((16, 32), 255, np.uint8)])
    if encoding == "mono8":
        picture = picture[..., :1]
    rows = picture.reshape(16, -1)
    padded = np.hstack([rows, np.full((16, 6), 99, np.uint8)])
    data = pack(32, 16, padded.shape[1], encoding, padded.tobytes(), 95)
    found = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert found.shape == (16, 32, 3) and jpeg.size(data) == (32, 16)
    expected = [(200,) * 3, (10,) * 3] if encoding == "mono8" else [RED, BLUE]
    for x, colour in zip((6, 26), expected, strict=True):
        assert np.abs(found[8, x] - colour).max() < 20, encoding


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    ("width", "height", "row", "encoding", "size"),
    [
        (32, 16, 96, "yuv422", 1536), (32, 16, 95, "rgb8", 1536), (32, 16, 96, "rgb8", 1535),
        (0, 16, 0, "rgb8", 0), (10**6, 10**6, 3 * 10**6, "rgb8", 10), (-4, -4, 0, "mono8", 10),
    ],
)  # fmt: skip
def test_inconsistent_image_dimensions_are_refused(
    pack: jpeg.Packer, width: int, height: int, row: int, encoding: str, size: int
) -> None:
    with pytest.raises(jpeg.InvalidCameraImage):
        pack(width, height, row, encoding, bytes(size), 80)


def test_the_packer_uses_pillow_else_opencv_else_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jpeg.packer() is jpeg._with_pillow
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert jpeg.packer() is jpeg._with_opencv
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert jpeg.packer() is None
    from closedloop_plugin.robots.onboard.io import VehicleNotReady

    with pytest.raises(VehicleNotReady, match="python3-pil"):
        ros_messages.LatestCameraFrame(camera_settings("raw"))


def camera_settings(camera: str, most: int = 10**6) -> dict[str, Any]:
    topics = {"camera_type": camera}
    return {"vehicle": {"topics": topics}, "jpeg_quality": 80, "frame_max_bytes": most}


def raw(encoding: str = "rgb8") -> SimpleNamespace:
    return SimpleNamespace(width=4, height=2, step=12, encoding=encoding, data=bytes(24))


def test_an_image_is_packed_once_and_a_bad_one_is_a_fault_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = ros_messages.LatestCameraFrame(camera_settings("raw"))
    assert pictures.get() is None and pictures.fault is None and pictures.heard_at is None
    pictures.put(1.0, raw())
    packed = pictures.get()
    assert packed is not None and packed[0] == 1.0 and packed[2:] == (4, 2) and pictures.get() is packed
    pictures.put(2.0, raw("yuv422"))
    assert pictures.get() is None and pictures.fault and "yuv422" in pictures.fault
    pictures.put(3.0, raw())
    assert pictures.get() and pictures.fault is None


def test_compressed_frames_pass_unchanged_if_they_are_jpeg_and_not_too_large() -> None:
    out = io.BytesIO()
    Image.new("RGB", (8, 4)).save(out, "JPEG")
    pictures = ros_messages.LatestCameraFrame(camera_settings("compressed", len(out.getvalue())))
    pictures.put(1.0, SimpleNamespace(data=out.getvalue()))
    assert pictures.get() == (1.0, out.getvalue(), 8, 4)
    pictures.put(2.0, SimpleNamespace(data=out.getvalue() + b"x"))
    assert pictures.get() is None and pictures.fault and "frame_max_bytes" in pictures.fault
    pictures.put(3.0, SimpleNamespace(data=b"\x89PNG"))
    assert pictures.get() is None and pictures.fault and "no JPEG" in pictures.fault


def test_odometry_and_status_are_plain_finite_numbers() -> None:
    half = 2**-0.5
    pose = SimpleNamespace(
        position=SimpleNamespace(x=1.0, y=2.0), orientation=SimpleNamespace(x=0.0, y=0.0, z=half, w=half)
    )
    twist = SimpleNamespace(linear=SimpleNamespace(x=0.3), angular=SimpleNamespace(z=-0.1))
    message = SimpleNamespace(pose=SimpleNamespace(pose=pose), twist=SimpleNamespace(twist=twist))
    found = ros_messages.odometry(message)
    assert found is not None and found.pop("yaw") == pytest.approx(np.pi / 2)
    assert found == {"x": 1.0, "y": 2.0, "v": 0.3, "w": -0.1}
    twist.linear.x = float("nan")
    assert ros_messages.odometry(message) is None and ros_messages.odometry(None) is None
    status = SimpleNamespace(header=object(), motion_mode=1, battery_voltage=float("inf"), error_code=0)
    names = ["header", "motion_mode", "battery_voltage", "error_code", "absent"]
    assert ros_messages.status(status, names) == {"motion_mode": 1, "error_code": 0, "mode": 1}
    assert ros_messages.status(None, names) is None
