"""Bounds of what the header of an image file may demand, checked before Pillow and its libraries read the file.

The sizes of a file and of its picture do not bound the work of a decoder. A JPEG can list any number of empty scans,
each of which is a pass over the whole picture; a TIFF names the size of its tiles, for which memory is allocated, and
its tags, or those of EXIF data, may all refer to the same bytes; some parts of a header are joined in quadratic time.

Each check raises OSError. What is malformed in other ways is left to Pillow, which refuses it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

MOST_BYTES = 64 << 20  # of a file
MOST_PIXELS = 50_000_000
MOST_SIDE = 65_500  # pixels; the largest side of a JPEG
MOST_SCANS = 100  # of a JPEG; encoders write up to 12
MOST_PARTS = 100_000  # segments of a JPEG, chunks of a PNG, blocks before the picture of a GIF
MOST_TEXT = 256 << 10  # bytes of a JPEG's EXIF data, of a GIF's comments, and of padding between a JPEG's segments
MOST_TAGS = 4_096  # of a directory of a TIFF
MOST_COPIED = 16 << 20  # bytes of all values of tags, or twice the data; beyond it tags refer to the same bytes
MOST_VALUES = 1_000_000  # of a tag, unless these are bytes that are not interpreted

_PNG = b"\x89PNG\r\n\x1a\n"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"II\0*", b"MM*\0")
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # 0xFF00 is the byte 0xFF of a scan, 0xD0 to 0xD7 are restarts in it
_EOI, _SOS = 0xD9, 0xDA
_NO_SEGMENT = frozenset({0, 1, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE), 0xFF})  # after 0xFF: no length follows
_SEQUENTIAL = (0xC0, 0xC1, 0xC9)  # frames: baseline, extended, extended with arithmetic coding
_FRAMES = tuple(code for code in range(0xC0, 0xD0) if code not in (0xC4, 0xC8, 0xCC))
_UNIT = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}  # bytes, by type
_OPAQUE = (1, 2, 7)  # types of bytes and texts
_OFFSETS, _COUNTS = (273, 324), (279, 325)  # tags: places and bytes of the strips and tiles
_SUBDIRECTORIES = (34665, 34853, 40965)  # tags: EXIF, GPS, interoperability


def check_header(file: BinaryIO) -> None:
    """Check the file before Pillow opens it; `file` is read from its start and left there."""
    magic = file.read(8)
    if magic.startswith(b"\xff\xd8"):
        _check_jpeg(file)
    elif magic == _PNG:
        _check_png(file)
    elif magic.startswith(_TIFF):
        _check_directories(file, whole_file=True)
    elif magic.startswith(b"GIF8"):
        _check_gif(file)
    file.seek(0)


def check_opened(image: Any, most_pixels: int) -> None:
    """Check a PIL image whose header Pillow has read, before it is decoded or its orientation is read."""
    if image.width * image.height > most_pixels:
        raise OSError(f"{image.width}x{image.height} pixels, more than {most_pixels:,}")
    if max(image.size) > MOST_SIDE:
        raise OSError(f"{image.width}x{image.height} pixels, a side of more than {MOST_SIDE:,}")
    check_exif(image.info.get("exif"))
    if "Raw profile type exif" in image.info:  # of a PNG, as older programs write it
        with contextlib.suppress(ValueError):  # not hexadecimal: no orientation is read
            check_exif(bytes.fromhex("".join(image.info["Raw profile type exif"].split("\n")[3:])))
    if image.format == "TIFF":
        _check_tiles(image.tag_v2)


def check_exif(exif: Any) -> None:
    """Check what Pillow reads as EXIF data. Damaged data, or text in their place, are no reason to refuse a picture."""
    if not isinstance(exif, bytes):
        return
    while exif.startswith(b"Exif\0\0"):
        exif = exif[6:]
    if exif.startswith(_TIFF):
        _check_directories(io.BytesIO(exif), whole_file=False)


# -- JPEG ----------------------------------------------------------------------------------------------------------


def _check_jpeg(file: BinaryIO) -> None:
    """Segments up to the first scan; of a file with several scans also the others."""
    file.seek(2)
    exif, frame = b"", (0, 0)  # frame: its marker, its number of components
    for code in _segments(file):
        segment = file.read(max(int.from_bytes(file.read(2), "big") - 2, 0))
        if code == 0xE1 and segment.startswith(b"Exif\0\0"):  # Pillow joins the parts
            exif += segment[6:] if exif else segment
            if len(exif) > MOST_TEXT:
                raise OSError(f"more than {MOST_TEXT:,} bytes of EXIF data")
        elif code == 0xE2 and segment.startswith(b"MPF\0"):
            check_exif(segment[4:])
        elif code in _FRAMES and len(segment) > 5:
            frame = code, segment[5]
        elif code == _SOS:
            all_components = frame[0] in _SEQUENTIAL and segment[:1] == bytes([frame[1]])
            if not all_components:  # else the decoder ends after this scan
                _count_scans(file.read())
            break
    check_exif(exif)


def _segments(file: BinaryIO) -> Iterator[int]:
    """The markers of segments with a length, in the order in which Pillow reads them."""
    parts = between = 0
    previous = b""
    while byte := file.read(1):
        if previous == b"\xff" and byte[0] not in _NO_SEGMENT:
            parts += 1
            yield byte[0]
            previous = b""
        else:
            between += 1
            previous = byte
        if parts > MOST_PARTS or between - parts > MOST_TEXT:
            raise OSError("a JPEG with too many segments, or too much between them")


def _count_scans(data: bytes) -> None:
    """Count the scans up to the end of the picture. `data`: what follows the header of the first one."""
    place, scans, parts = 0, 1, 0
    while found := _MARKER.search(data, place):
        code, place = data[found.start() + 1], found.end()
        if code == _EOI:
            return
        parts += 1
        scans += code == _SOS
        if scans > MOST_SCANS or parts > MOST_PARTS:
            raise OSError(f"a JPEG with more than {MOST_SCANS} scans, or too many segments")
        if code not in _NO_SEGMENT:
            place += int.from_bytes(data[place : place + 2], "big")


# -- PNG, GIF ------------------------------------------------------------------------------------------------------


def _check_png(file: BinaryIO) -> None:
    file.seek(8)
    for _ in range(MOST_PARTS):
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            return
        file.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)
    raise OSError(f"a PNG with more than {MOST_PARTS:,} chunks")


def _check_gif(file: BinaryIO) -> None:
    """Blocks up to the first picture."""
    file.seek(6)
    flags = file.read(7)[4:5]
    file.seek(3 << (flags[0] & 7) + 1 if flags and flags[0] & 128 else 0, os.SEEK_CUR)
    blocks = comments = 0
    while (kind := file.read(1)) and kind not in b",;":
        label = file.read(1) if kind == b"!" else b""
        size = file.read(1) if label else b""
        while size and size[0]:
            blocks, comments = blocks + 1, comments + size[0] * (label == b"\xfe")
            if blocks > MOST_PARTS or comments > MOST_TEXT:
                raise OSError("a GIF with too many blocks, or too long comments, before its picture")
            file.seek(size[0], os.SEEK_CUR)
            size = file.read(1)
        blocks += 1
        if blocks > MOST_PARTS:
            raise OSError("a GIF with too many blocks before its picture")


# -- TIFF, EXIF ----------------------------------------------------------------------------------------------------


def _check_directories(data: BinaryIO, *, whole_file: bool) -> None:
    """Check the first directory and those for EXIF data; values that lie beyond the end are not read by Pillow."""
    end = data.seek(0, os.SEEK_END)
    data.seek(0)
    head = data.read(16)
    if head.startswith(b"MM\0+"):
        raise OSError("a big-endian BigTIFF, which Pillow does not read")
    order, big = "<" if head[:2] == b"II" else ">", head[2:3] == b"+"
    if len(head) < (16 if big else 8):
        return
    waiting, visited, total = [struct.unpack(order + "Q", head[8:])[0] if big else
                               struct.unpack(order + "L", head[4:8])[0]], set[int](), 0  # fmt: skip
    while waiting:
        place = waiting.pop()
        if place in visited or place >= end:
            continue
        visited.add(place)
        tags: set[int] = set()
        for number, (tag, kind, count, value) in enumerate(_entries(data, place, order, big)):
            if whole_file and number >= MOST_TAGS:
                raise OSError(f"a TIFF with more than {MOST_TAGS:,} tags")
            if whole_file and len(visited) == 1 and (tag in tags or (tag < 340 and kind not in _UNIT)):
                raise OSError(f"a TIFF whose tag {tag} is given twice, or in an unknown type")  # readers would differ
            tags.add(tag)
            size = count * _UNIT.get(kind, 0)
            offset = int.from_bytes(value, "little" if order == "<" else "big")
            if size > len(value):
                if offset + size > end:
                    continue
                total += size
            if total > max(2 * end, MOST_COPIED):
                raise OSError("tags that refer to the same bytes again and again")
            if count > MOST_VALUES and (kind not in _OPAQUE or tag in _OFFSETS + _COUNTS):
                raise OSError(f"a tag with {count:,} values, more than {MOST_VALUES:,}")
            if tag in _SUBDIRECTORIES and len(visited) + len(waiting) < 8:
                waiting.append(struct.unpack(order + "L", value[:4])[0])


def _entries(data: BinaryIO, place: int, order: str, big: bool) -> Iterator[tuple[int, int, int, bytes]]:
    """(tag, type, number of values, value or its place) of a directory."""
    data.seek(place)
    head, entry = (8, order + "HHQ8s") if big else (2, order + "HHL4s")
    number = int.from_bytes(data.read(head), "little" if order == "<" else "big")
    length = struct.calcsize(entry)
    for raw in iter(lambda: data.read(length), b""):
        if number == 0 or len(raw) < length:
            return
        number -= 1
        yield struct.unpack(entry, raw)


def _check_tiles(tags: Any) -> None:
    """`tags`: of a TIFF, as Pillow has read them. Memory is allocated for a whole tile, also in a smaller picture."""
    tile = [tags.get(tag, 1) for tag in (322, 323, 277)]  # width, length, samples per pixel
    if not all(isinstance(number, int) for number in tile) or tile[0] * tile[1] * tile[2] > MOST_PIXELS:
        raise OSError(f"a TIFF with tiles of {tile[0]}x{tile[1]}, {tile[2]} samples each: more than {MOST_PIXELS:,}")
    for tag in _COUNTS:
        sizes = tags.get(tag, ())
        if not isinstance(sizes, (tuple, bytes)) or sum(sizes) > 2 * MOST_BYTES:
            raise OSError("a TIFF whose strips or tiles have more bytes than a file may have")
