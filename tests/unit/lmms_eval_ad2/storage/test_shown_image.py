"""A file of any mode, depth and orientation is shown as a person would see it, or refused in one line."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, PngImagePlugin
from support.tiers import examples

from lmms_eval_ad2.data.releases.base import image_fault, read_bytes, size_of
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import read_header, shown_rgb

GREY = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1_000  # 16 bits per value


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def shown(content: bytes) -> Image.Image:
    with open_image(content) as image:
        result = shown_rgb(image)
    assert result.mode == "RGB"
    assert result.size == read_header(content).size
    assert ImageOps.exif_transpose(result).tobytes() == result.tobytes(), "no later step turns it again"
    return result


def turned(orientation: int, form: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.repeat((GREY // 256).astype(np.uint8)[..., None], 3, axis=2)
    options = {"lossless": True} if form == "WEBP" else {"quality": 100} if form == "JPEG" else {}
    return encoded(Image.fromarray(pixels), form, exif=exif, **options)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations(orientation: int, form: str) -> None:
    content = turned(orientation, form)
    with Image.open(io.BytesIO(content)) as image:
        expected = ImageOps.exif_transpose(image)
    assert shown(content).tobytes() == expected.tobytes()
    header = read_header(content)
    assert header.orientation == orientation
    assert header.plain == (orientation == 1)
    if orientation > 1:
        assert f"EXIF orientation {orientation}" in str(header)
        assert "stored: 8x6" in str(header)


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_unknown_orientations_have_no_effect(orientation: int) -> None:
    assert read_header(turned(orientation, "JPEG")).size == (8, 6)
    assert str(read_header(turned(orientation, "PNG"))) == "8x6"


DAMAGED = [
    b"Exif\0\0",
    b"Exif\0\0garbage",
    b"Exif\0\0II*\0\x08\0\0\0\xff\xff",
    b"Exif\0\0II*\0" + b"\xff" * 60,
    b"MM\0*",
]


@pytest.mark.filterwarnings("ignore")  # of Pillow
@pytest.mark.parametrize("exif", DAMAGED)
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_data_have_no_effect(exif: bytes, form: str) -> None:
    content = encoded(Image.new("RGB", (8, 6)), form, exif=exif)
    assert read_header(content).orientation == 1
    assert shown(content).size == (8, 6)


@pytest.mark.parametrize("key", ["exif", "Raw profile type exif", "XML:com.adobe.xmp"])
def test_texts_in_place_of_exif_data_have_no_effect(key: str) -> None:
    texts = PngImagePlugin.PngInfo()
    texts.add_itxt(key, "\nexif\n12\nnot hexadecimal")
    content = encoded(Image.new("RGB", (8, 6)), "PNG", pnginfo=texts)
    assert read_header(content).orientation == 1
    assert shown(content).size == (8, 6)


def test_sizes_of_a_data_set_are_those_shown(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(turned(6, "JPEG"))
    assert size_of(tmp_path, "a.jpg") == (6, 8)
    assert read_bytes(turned(6, "JPEG")) == (".jpg", (6, 8))
    assert image_fault(tmp_path, "a.jpg", (6, 8)) is None
    fault = image_fault(tmp_path, "a.jpg", (8, 6))
    assert fault == "size 6x8 as its EXIF orientation 6 shows it (stored: 8x6), but 8x6 in the record"


@pytest.mark.parametrize(("form", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_values_of_16_bits_keep_their_upper_half(form: str, order: str) -> None:
    content = encoded(Image.fromarray(GREY.astype(order)), form)
    assert np.asarray(shown(content))[..., 0].tolist() == (GREY // 256).tolist()
    assert not read_header(content).plain


def test_white_is_zero_is_inverted() -> None:
    content = encoded(Image.fromarray(GREY), "TIFF", tiffinfo={262: 0})
    with Image.open(io.BytesIO(content)) as image:
        assert image.tag_v2[262] == 0, "PhotometricInterpretation"
    assert np.asarray(shown(content))[..., 0].tolist() == (255 - GREY // 256).tolist()


@pytest.mark.parametrize(
    ("image", "form", "options"),
    [
        (Image.new("RGBA", (8, 6), (255, 0, 0, 0)), "PNG", {}),
        (Image.new("RGBA", (8, 6), (255, 0, 0, 0)), "WEBP", {"lossless": True, "exact": True}),
        (Image.new("RGBA", (8, 6), (255, 0, 0, 0)), "TIFF", {}),
        (Image.new("LA", (8, 6), (0, 0)), "PNG", {}),
        (Image.new("RGB", (8, 6), (1, 2, 3)), "PNG", {"transparency": (1, 2, 3)}),
        (Image.new("L", (8, 6), 7), "PNG", {"transparency": 7}),
        (Image.new("1", (8, 6), 0), "PNG", {"transparency": 0}),
        (Image.fromarray(np.full((6, 8), 300, np.uint16)), "PNG", {"transparency": 300}),
        (Image.new("P", (8, 6), 0), "GIF", {"transparency": 0}),
        (Image.new("P", (8, 6), 0), "PNG", {"transparency": 0}),
    ],
)
def test_transparent_pixels_are_white(image: Image.Image, form: str, options: dict[str, Any]) -> None:
    if image.mode == "P":
        image.putpalette([255, 0, 0])
    content = encoded(image, form, **options)
    assert set(shown(content).getdata()) == {(255, 255, 255)}
    assert not read_header(content).plain


def test_half_transparent_pixels_are_mixed_with_white() -> None:
    assert shown(encoded(Image.new("RGBA", (1, 1), (255, 0, 0, 128)), "PNG")).getpixel((0, 0)) == (255, 127, 127)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "RGBX"])
def test_other_modes_keep_their_colours(mode: str) -> None:
    image = Image.new("RGB", (8, 6), (255, 255, 255)).convert(mode)
    content = encoded(image, "TIFF")
    assert shown(content).getpixel((0, 0)) == (255, 255, 255)
    assert read_header(content).plain


@pytest.mark.parametrize("mode", ["I", "F", "LAB"])
def test_modes_without_a_known_range_are_refused(mode: str, tmp_path: Path) -> None:
    content = encoded(Image.new(mode, (8, 6)), "TIFF")
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(OSError, match=f"pixels of mode {mode}"):
        shown(content)
    assert f"pixels of mode {mode}" in str(image_fault(tmp_path, "a.tif", None))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_picture_of_several_is_shown(form: str) -> None:
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if form == "WEBP" else {}
    content = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
    assert shown(content).getpixel((4, 3)) == (255, 0, 0)


WHOLE = [
    *(turned(6, form) for form in ("JPEG", "PNG", "WEBP", "TIFF")),
    encoded(Image.effect_noise((8, 6), 50), "TIFF", compression="tiff_lzw"),
    encoded(Image.effect_noise((8, 6), 50).convert("P"), "GIF", transparency=1),
    encoded(Image.effect_noise((8, 6), 50).convert("CMYK"), "JPEG", progressive=True),
    encoded(Image.fromarray(GREY), "PNG"),
    encoded(Image.new("P", (8, 6)), "BMP"),
]


@pytest.mark.filterwarnings("ignore")  # of Pillow
@settings(max_examples=examples(400), deadline=None)
@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 300), st.binary(min_size=1, max_size=4)), max_size=6),
    st.none() | st.integers(0, 300),
)
def test_a_damaged_file_is_shown_or_refused(whole: bytes, changes: list[tuple[int, bytes]], end: int | None) -> None:
    content = bytearray(whole)
    for place, new in changes:
        content[place : place + len(new)] = new
    with contextlib.suppress(OSError):
        read_header(bytes(content[:end]))
        with open_image(bytes(content[:end])) as image:
            assert shown_rgb(image).mode == "RGB"
