"""Headers that would make a decoder need much memory or time are refused before Pillow reads them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence

import pytest
from PIL import Image

from lmms_eval_ad2.storage import decoder_bounds
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

SCAN = b"\xff\xda\x00\x08\x01\x01\x00\x01\x05\x00"  # without data: a pass over the picture that changes nothing
SIZE = (64, 48)
LONG, SHORT, BYTE, UNDEFINED = 4, 3, 1, 7


def encoded(form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise(SIZE, 50).convert("RGB").save(buffer, form, **options)
    return buffer.getvalue()


def segment(code: int, content: bytes) -> bytes:
    return bytes([0xFF, code]) + struct.pack(">H", len(content) + 2) + content


def with_segments(*segments: bytes) -> bytes:
    jpeg = encoded("JPEG")
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def with_scans(number: int, **options: object) -> bytes:
    jpeg = encoded("JPEG", **options)
    assert jpeg.endswith(b"\xff\xd9")
    return jpeg[:-2] + number * SCAN + b"\xff\xd9"


def directory(*tags: tuple[int, int, int, int], further: bytes = b"") -> bytes:
    """TIFF data of one directory with tags (number, type, count, value or place)."""
    body = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHLL", *tag) for tag in tags)
    return struct.pack("<2sHL", b"II", 42, 8) + body + struct.pack("<L", 0) + further


def tiff(*changed: tuple[int, int, int, int], compression: int = 5) -> bytes:
    """A picture of 64 x 64 pixels in one strip, with some tags replaced or added."""
    tags = {256: (SHORT, 1, 64), 257: (SHORT, 1, 64), 258: (SHORT, 1, 8), 259: (SHORT, 1, compression),
            262: (SHORT, 1, 1), 273: (LONG, 1, 8), 279: (LONG, 1, 20)}  # fmt: skip
    tags |= {number: (kind, count, value) for number, kind, count, value in changed}
    return directory(*((number, *tag) for number, tag in sorted(tags.items())))


def png(width: int, height: int, further: bytes = b"") -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, 8, 0, 0, 0, 0)) + further


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">L", len(content)) + kind + content + struct.pack(">L", zlib.crc32(kind + content))


def gif(before_picture: bytes) -> bytes:
    image = encoded("GIF")
    place = 13 + (3 << (image[10] & 7) + 1 if image[10] & 128 else 0)
    return image[:place] + before_picture + image[place:]


def opens(content: bytes) -> Image.Image:
    with open_image(content) as image:
        return shown_rgb(image)


def refused(content: bytes, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        opens(content)


# -- JPEG ----------------------------------------------------------------------------------------------------------


def test_scans_of_a_progressive_jpeg_are_counted_before_decoding() -> None:
    assert opens(encoded("JPEG", progressive=True)).size == SIZE
    assert opens(with_scans(50, progressive=True)).size == SIZE
    refused(with_scans(101, progressive=True), "more than 100 scans")


def test_scans_of_one_component_each_are_counted() -> None:
    """A sequential file whose first scan does not have all components has several scans, too."""
    jpeg = encoded("JPEG")
    scan = jpeg.index(b"\xff\xda")
    first = jpeg[:scan] + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"\x00" * 8
    refused(first + 101 * SCAN + b"\xff\xd9", "scans")


def test_bytes_like_scans_elsewhere_are_not_counted() -> None:
    """In a comment, and after the end of the picture (as in motion photos)."""
    progressive = encoded("JPEG", progressive=True)
    comment = segment(0xFE, 200 * b"\xff\xda\x00\x02")
    assert opens(progressive[:2] + comment + progressive[2:] + 200 * SCAN).size == SIZE
    refused(with_scans(200), "broken data stream")  # libjpeg: no scan may follow one of all components


def test_joined_exif_data_are_bounded() -> None:
    assert opens(with_segments(segment(0xE1, b"Exif\0\0" + directory((270, 2, 4, 0)))))
    refused(with_segments(*5 * [segment(0xE1, b"Exif\0\0" + bytes(65_000))]), "EXIF")


@pytest.mark.parametrize("head", [b"Exif\0\0", b"Exif\0\0Exif\0\0"])
def test_exif_tags_that_share_their_bytes_are_refused(head: bytes) -> None:
    """Pillow keeps a copy for each tag: 64 kB would need 350 MB."""
    tags = [(number, UNDEFINED, 40_000, 8) for number in range(1000, 3000)]
    exif = head + directory(*tags, further=bytes(30_000))
    refused(with_segments(segment(0xE1, exif)), "same bytes")
    refused(png(*SIZE, chunk(b"eXIf", exif) + chunk(b"IDAT", b"")), "same bytes")


def test_directories_within_exif_data_are_checked_too() -> None:
    inner = struct.pack("<H", 2000) + b"".join(struct.pack("<HHLL", n, UNDEFINED, 20_000, 8) for n in range(2000))
    exif = b"Exif\0\0" + directory((34665, LONG, 1, 26), further=inner + bytes(10_000))
    refused(with_segments(segment(0xE1, exif)), "same bytes")


def test_an_index_of_several_pictures_is_checked() -> None:
    tags = [(number, UNDEFINED, 40_000, 8) for number in range(1000, 3000)]
    refused(with_segments(segment(0xE2, b"MPF\0" + directory(*tags, further=bytes(30_000)))), "same bytes")


def test_a_damaged_exif_value_is_no_reason_to_refuse_a_picture() -> None:
    exif = b"Exif\0\0" + directory((271, 2, 4_000_000_000, 99), (274, SHORT, 1, 6))
    with pytest.warns(UserWarning, match="Truncated"):
        assert opens(with_segments(segment(0xE1, exif))).size in (SIZE, SIZE[::-1])


@pytest.mark.parametrize(
    "between", [decoder_bounds.MOST_PARTS * segment(0xEF, b""), bytes(300_000), 300_000 * b"\xff", 150_000 * b"\xff\0"]
)
def test_segments_and_padding_are_bounded(between: bytes) -> None:
    refused(with_segments(between), "too many segments")


# -- PNG, GIF ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(1, 39_000_000), (39_000_000, 1), (65_501, 10)])
def test_sides_are_bounded(width: int, height: int) -> None:
    refused(png(width, height, chunk(b"IDAT", b"")), "a side of more than 65,500")


def test_the_longest_side_is_accepted() -> None:
    buffer = io.BytesIO()
    Image.new("L", (65_500, 1)).save(buffer, "PNG")
    assert opens(buffer.getvalue()).size == (65_500, 1)


def test_chunks_of_a_png_are_counted() -> None:
    refused(png(8, 8, decoder_bounds.MOST_PARTS * chunk(b"prIv")), "chunks")


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt"])
def test_compressed_chunks_are_bounded(kind: bytes) -> None:
    """By Pillow: 1 MB unpacked."""
    image = encoded("PNG")
    place = image.index(b"IDAT") - 4
    refused(image[:place] + chunk(kind, b"a\0\0" + zlib.compress(bytes(50_000_000))) + image[place:], "too large")


@pytest.mark.parametrize(
    "block", [b"!\xfe" + 2_000 * (b"\xff" + 255 * b"x") + b"\0", 200_000 * b"\x07", b"!\x01" + 200_000 * b"\1x" + b"\0"]
)
def test_blocks_before_the_picture_of_a_gif_are_bounded(block: bytes) -> None:
    assert opens(gif(b"!\xfe\x05hello\x00")).size == SIZE
    refused(gif(block), "before its picture")


# -- TIFF ----------------------------------------------------------------------------------------------------------


def test_tiles_larger_than_any_picture_are_refused() -> None:
    tile = (324, LONG, 1, 8), (325, LONG, 1, 20)
    refused(tiff((322, SHORT, 1, 26_700), (323, SHORT, 1, 26_700), *tile), "tiles of 26700x26700")
    refused(tiff((322, LONG, 1, 8), (323, LONG, 1, 40_000_000), *tile), "tiles of 8x40000000")


def test_a_tag_that_readers_understand_differently_is_refused() -> None:
    """Pillow uses the last of two tags, and libtiff, which allocates the memory, the first."""
    tags = [(256, SHORT, 1, 64), (257, SHORT, 1, 64), (322, LONG, 1, 30_000), (322, LONG, 1, 64)]
    refused(directory(*tags), "tag 322 is given twice")
    refused(directory((256, SHORT, 1, 64), (322, 17, 1, 30_000)), "unknown type")
    refused(b"MM\0+" + bytes(60), "BigTIFF")


def test_tags_of_a_tiff_are_counted() -> None:
    refused(directory(*((number, SHORT, 1, 64) for number in range(256, 5_000))), "more than 4,096 tags")


def test_lists_of_strips_are_bounded() -> None:
    further = bytes(1_200_000)
    content = tiff((273, BYTE, 1_100_000, 200), compression=1) + further
    refused(content, "1,100,000 values")
    refused(tiff((279, LONG, 1, 200_000_000)), "strips")


@pytest.mark.parametrize("options", [{}, {"compression": "tiff_lzw"}, {"big_tiff": True}, {"compression": "jpeg"}])
def test_usual_files_are_opened(options: dict[str, object]) -> None:
    assert opens(encoded("TIFF", **options)).size == SIZE


FORMATS: Sequence[tuple[str, dict[str, object]]] = (
    ("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("GIF", {"comment": b"hello"}), ("BMP", {}),
    ("WEBP", {}),
)  # fmt: skip


@pytest.mark.parametrize(("form", "options"), FORMATS)
def test_truncated_headers_raise_no_other_error(form: str, options: dict[str, object]) -> None:
    content = encoded(form, **options)
    assert opens(content).size == SIZE
    for length in [*range(60), *range(60, len(content), max(len(content) // 40, 1))]:
        decoder_bounds.check_header(io.BytesIO(content[:length]))
