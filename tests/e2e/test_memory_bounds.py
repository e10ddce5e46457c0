"""Untrusted bytes need bounded memory: the bounds of docs/security.md, one test for each entry."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from support.peak_memory import peak_of

from lmms_eval_ad2.data.releases.parquet import BATCH_MEMORY
from lmms_eval_ad2.data.releases.stream import LONGEST_ROW
from lmms_eval_ad2.storage.image_files import MOST_PIXELS
from lmms_eval_ad2.storage.untrusted_json import LARGEST_FILE

ROW_MIB, IMAGE_MIB, FILE_MIB, REPLY_MIB = 512, 1024, 2048, 512  # as stated in docs/security.md
JSON_MIB, PAGE_MIB, FRAME_MIB, THREAT_MIB = 4096, 1280, 64, 4
SMALL_MIB = 96  # for input that is refused early
NESTED = b"[" * 60 + b"]" * 60 + b","  # the JSON that needs most memory for its length: a list per two bytes
PARQUET_MIB = (BATCH_MEMORY >> 20) + 128

IMPORT = """
from pathlib import Path
from lmms_eval_ad2.data.home import import_release
import ijson, pyarrow.parquet, PIL.Image

def work(release, path):
    source = Path(path)
    manifest = import_release(release, source, split="val", skip_bad=True, partial=True, images=source.parent)
    return f"{manifest.n} records, {manifest.bad_rows} bad"
"""
GOOD = {
    "id": "1", "image": "a.jpg", "dimension": "relation", "subtask": "spatial", "form": "vqa", "question": "q",
    "answer": "a",
}  # fmt: skip


def many(file: BinaryIO, part: bytes, size: int) -> None:
    """Write `part` repeatedly until `size` bytes are reached."""
    block = part * (1 + (1 << 20) // len(part))
    written = 0
    while written < size:
        written += file.write(block[: min(len(block), size - written) // len(part) * len(part) or len(part)])


def deep(file: BinaryIO) -> None:
    file.write(b"[" * 100_000)


def deep_row(file: BinaryIO) -> None:
    file.write(b'{"id":' + b"[" * 100_000 + b"\n" + json.dumps(GOOD).encode() + b"\n")


def largest_row(file: BinaryIO) -> None:
    """The most memory that a row may need."""
    file.write(b'{"meta":[')
    many(file, NESTED, LONGEST_ROW - 256)
    file.write(b"{}]}\n" + json.dumps(GOOD).encode() + b"\n")


def endless_line(file: BinaryIO) -> None:
    many(file, b'{"id": "x" ', 200 << 20)


def endless_item(file: BinaryIO) -> None:
    file.write(b'[{"meta":[')
    many(file, NESTED, 100 << 20)


def endless_text(file: BinaryIO) -> None:
    file.write(b'[{"id":"')
    many(file, b"x", 200 << 20)


def endless_scene(file: BinaryIO) -> None:
    file.write(b'{"scene":{"key_frames":{')
    many(file, b'"a":' + NESTED, 100 << 20)


@pytest.mark.parametrize(
    ("write", "release", "most", "expected"),
    [
        (deep, "ad2_bench", SMALL_MIB, "nested more than 64 levels deep"),
        (deep_row, "ad2_bench", SMALL_MIB, "1 records, 1 bad"),
        pytest.param(largest_row, "ad2_bench", ROW_MIB, "1 records, 1 bad", marks=pytest.mark.system),
        (endless_line, "ad2_bench", SMALL_MIB, "at most 8 MiB"),
        pytest.param(endless_item, "ad2_bench", ROW_MIB, "a value of more than 8 MiB", marks=pytest.mark.system),
        (endless_text, "ad2_bench", SMALL_MIB, "a value of more than 8 MiB"),
        (endless_scene, "drivelm", ROW_MIB, "a value of more than 8 MiB"),
    ],
)
def test_rows_of_a_release(
    tmp_path: Path, write: Callable[[BinaryIO], None], release: str, most: int, expected: str
) -> None:
    path = tmp_path / "rows.json"
    with path.open("wb") as file:
        write(file)
    peak, outcome = peak_of(IMPORT, release, path)
    assert expected in outcome
    assert peak <= most


@pytest.fixture
def parquet_bomb(tmp_path: Path) -> Path:
    """2 kB; 400 rows of the same 20 MiB."""
    path = tmp_path / "val.parquet"
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), pa.array(["x" * (20 << 20)]))
    names = ("question_id", "segment_id", "images", "question", "answer")
    pq.write_table(pa.table(dict.fromkeys(names, same)), path, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


def test_rows_of_a_parquet_release(parquet_bomb: Path) -> None:
    peak, outcome = peak_of(IMPORT, "lingoqa", parquet_bomb)
    assert "need more than 512 MiB" in outcome
    assert peak <= PARQUET_MIB


DECODE = """
from pathlib import Path
from lmms_eval_ad2.prompts.visual import load_image
from lmms_eval_ad2.storage.image_files import open_image

def work(root, name):
    return load_image(Path(root), name).size
"""


@pytest.mark.parametrize(
    ("side", "most", "expected"),
    [(7_000, IMAGE_MIB, "(7000, 7000)"), (13_000, SMALL_MIB, "13000x13000 pixels, more than")],
)
def test_images(tmp_path: Path, side: int, most: int, expected: str) -> None:
    """The largest image that is decoded (with transparency, which needs another copy), and a larger one."""
    assert 0.95 * MOST_PIXELS < 7_000**2 < MOST_PIXELS
    path = tmp_path / "a.png"
    if side > 10_000:
        Image.fromarray(np.zeros((side, side), np.uint8)).save(path, compress_level=1)
    else:
        Image.new("RGBA", (side, side)).save(path, compress_level=1)
    peak, outcome = peak_of(DECODE, tmp_path, "a.png")
    assert expected in outcome
    assert peak <= most


def tiff_with_large_tiles(path: Path) -> None:
    """64 x 64 pixels in a file of 130 bytes, whose tiles have 26,700 x 26,700."""
    tags = [(256, 3, 64), (257, 3, 64), (258, 3, 8), (259, 3, 5), (262, 3, 1), (322, 3, 26_700), (323, 3, 26_700),
            (324, 4, 8), (325, 4, 20)]  # fmt: skip
    body = b"".join(struct.pack("<HHLL", tag, kind, 1, value) for tag, kind, value in tags)
    path.write_bytes(struct.pack("<2sHLH", b"II", 42, 8, len(tags)) + body + bytes(4))


def jpeg_with_shared_exif_values(path: Path) -> None:
    """1.2 MB of EXIF data in parts that Pillow joins; its 4,000 tags have 1 MB each, the same one."""
    body = b"".join(struct.pack("<HHLL", tag, 7, 1_000_000, 8) for tag in range(4_000))
    exif = struct.pack("<2sHLH", b"II", 42, 8, 4_000) + body + bytes(1_200_000)
    parts = [b"Exif\0\0" + exif[i : i + 65_000] for i in range(0, len(exif), 65_000)]
    Image.new("RGB", (64, 64)).save(path, "JPEG")
    jpeg = path.read_bytes()
    segments = b"".join(b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part for part in parts)
    path.write_bytes(jpeg[:2] + segments + jpeg[2:])


def webp_with_transparency(path: Path) -> None:
    Image.new("RGBA", (7_000, 7_000), (1, 2, 3, 4)).save(path, "WEBP", lossless=True, method=0)


@pytest.mark.parametrize(
    ("write", "most", "expected"),
    [
        (tiff_with_large_tiles, SMALL_MIB, "tiles of 26700x26700"),
        (jpeg_with_shared_exif_values, SMALL_MIB, "EXIF"),
        (webp_with_transparency, IMAGE_MIB, "(7000, 7000)"),
    ],
)
def test_images_with_demanding_headers(tmp_path: Path, write: Callable[[Path], None], most: int, expected: str) -> None:
    write(tmp_path / "a.img")
    peak, outcome = peak_of(DECODE, tmp_path, "a.img")
    assert expected in outcome
    assert peak <= most


READ = """
from pathlib import Path
from lmms_eval_ad2.report import runs
from closedloop_plugin.scoring import official
from lmms_eval_ad2.storage import journal

def summary(path):
    return runs.load([path])

def episodes(path):
    return official.read([path])

def lines(path):
    return [type(line).__name__ for line in journal.scan(path, journal.parse_object)]

def work(reader, path):
    return globals()[reader](Path(path))
"""


def largest_file(file: BinaryIO) -> None:
    file.write(b'{"schema":[')
    many(file, NESTED, LARGEST_FILE - 256)
    file.write(b"[]]}\n")


def too_large_file(file: BinaryIO) -> None:
    many(file, b"[],", LARGEST_FILE + 64)


@pytest.mark.parametrize(
    ("write", "name", "reader", "most", "expected"),
    [
        pytest.param(
            largest_file, "summary.json", "summary", FILE_MIB, "field 'schema'", marks=pytest.mark.system, id="largest"
        ),
        (too_large_file, "summary.json", "summary", 2 * SMALL_MIB, "more than 32 MiB"),
        (deep, "summary.json", "summary", SMALL_MIB, "nested more than 64 levels deep"),
        (too_large_file, "a.json", "episodes", 2 * SMALL_MIB, "more than 32 MiB"),
        (deep, "a.json", "episodes", SMALL_MIB, "nested more than 64 levels deep"),
        (too_large_file, "episodes.jsonl", "episodes", 2 * SMALL_MIB, "at most 32 MiB"),
        (deep_row, "rank0.jsonl", "lines", SMALL_MIB, "['BrokenLine', 'JournalLine']"),
    ],
)
def test_result_files(
    tmp_path: Path, write: Callable[[BinaryIO], None], name: str, reader: str, most: int, expected: str
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        write(file)
    peak, outcome = peak_of(READ, reader, path)
    assert expected in outcome
    assert peak <= most


JUDGE = """
from lmms_eval_ad2.judge.backends import llm
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.judge.rubrics import load
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.settings import EndpointSampling

RUBRICS = load()

def work(url):
    judge = llm.LLMJudge(EndpointConfig(url, max_retries=0, concurrency=8), EndpointSampling("m"), RUBRICS)
    items = [JudgeItem(str(i), "coda_region", f"answer {i}", reference="a car") for i in range(2)]
    return sorted({f"{r.reason}: {r.detail}" for r in judge.rate(items, progress=False)})
"""


def endless() -> Iterator[bytes]:
    while True:
        yield b" " * (1 << 20)


def objects() -> Iterator[bytes]:
    """The most memory that a reply may need."""
    yield b'{"choices":[' + NESTED * ((8 << 20) // len(NESTED) - 1)
    yield b"{}]}"


PACKED = zlib.compress(bytes(100 << 20), 1)


def packed() -> Iterator[bytes]:
    """400 kB that unpack to 100 MiB."""
    yield PACKED


@pytest.fixture
def reply_server() -> Iterator[Callable[[Callable[[], Iterator[bytes]], str], str]]:
    """A function that starts an endpoint with these bodies; it returns the base URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(body: Callable[[], Iterator[bytes]], coding: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Encoding", coding)
                self.end_headers()
                with suppress(OSError):  # the client ends the connection
                    for part in body():
                        self.wfile.write(part)

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[0].server_address[1]}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "coding", "most", "expected"),
    [
        (endless, "identity", REPLY_MIB, "too_long"),
        pytest.param(objects, "identity", REPLY_MIB, "invalid_reply", marks=pytest.mark.system),
        (packed, "deflate", SMALL_MIB, "which was not requested"),
    ],
)
def test_replies_of_a_judge(
    body: Callable[[], Iterator[bytes]], coding: str, most: int, expected: str, reply_server: Callable[..., str]
) -> None:
    peak, outcome = peak_of(JUDGE, reply_server(body, coding))
    assert expected in outcome
    assert peak <= most


LOAD = """
from pathlib import Path
from lmms_eval_ad2.annotate.blank_records import read_boxes
from lmms_eval_ad2.cli import score

def work(reader, path):
    read = {"boxes": read_boxes, "answers": score._load}[reader]
    return type(read(Path(path))).__name__
"""


def largest_boxes(file: BinaryIO) -> None:
    file.write(b'{"a":[')
    many(file, NESTED, (64 << 20) - 256)
    file.write(b"{}]}")


def too_large_boxes(file: BinaryIO) -> None:
    many(file, b"[],", (64 << 20) + 64)


@pytest.mark.system  # 3 GiB and 20 s
@pytest.mark.parametrize("reader", ["boxes", "answers"])
@pytest.mark.parametrize(("write", "most", "expected"), [
    (largest_boxes, JSON_MIB, ("field 'a", "dict")), (too_large_boxes, 3 * SMALL_MIB, ("64 MiB", "64 MiB")),
])  # fmt: skip
def test_files_of_boxes_and_answers(
    tmp_path: Path, write: Callable[[BinaryIO], None], reader: str, most: int, expected: tuple[str, str]
) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        write(file)
    peak, outcome = peak_of(LOAD, reader, path)
    assert expected[reader == "answers"] in outcome
    assert peak <= most


PAGE = """
import asyncio, json
from lmms_eval_ad2.annotate import page_server

BODY = b'{"a":[' + (b"[" * 60 + b"]" * 60 + b",") * (page_server.MOST_VALUES // 61 - 1) + b'"'
BODY += b"x" * (page_server.MOST_BODY - len(BODY) - 3) + b'"]}'

async def request(number, everybody):
    parts = [{"type": "http.request", "body": BODY[i : i + 65536], "more_body": i + 65536 < len(BODY)}
             for i in range(0, len(BODY), 65536)]
    statuses = []

    async def app(scope, receive, send):
        found = json.loads((await receive())["body"])
        await everybody.wait()
        await send({"type": "http.response.start", "status": 200 + len(found["a"]) * 0})

    async def receive():
        await asyncio.sleep(0)
        return parts.pop(0)

    async def send(message):
        statuses.append(message.get("status"))

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"127.0.0.1")]}
    await page_server.PageGuard(app, "127.0.0.1")(scope, receive, send)
    return statuses[0]

async def all_requests():
    everybody = asyncio.Barrier(page_server.MOST_CONNECTIONS)
    return await asyncio.gather(*(request(i, everybody) for i in range(page_server.MOST_CONNECTIONS)))

def work():
    return sorted(set(asyncio.run(all_requests())))
"""


@pytest.mark.system  # 1 GiB and 5 s
def test_requests_to_the_annotation_page() -> None:
    """As many as there may be connections, each with the largest body, all parsed before one is answered."""
    peak, outcome = peak_of(PAGE)
    assert outcome == "[200]"
    assert peak <= PAGE_MIB


VEHICLE = """
import io, json, struct
from PIL import Image
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner import decision_cycle

def largest():
    header = {"kind": "obs", "session": "s", "seq": 1, "stamp": 1.0, "odom": None, "status": {"a": []}, "motion": None}
    part = [{"": 0}]
    header["status"]["a"] = part * ((wire.HEADER_MAX - 200) // 8)
    text = json.dumps(header, separators=(",", ":")).encode()
    picture = io.BytesIO()
    Image.effect_noise((2000, 2000), 60).convert("RGB").save(picture, "JPEG", quality=75)
    blob = picture.getvalue()
    assert len(text) <= wire.HEADER_MAX and len(blob) <= wire.BLOB_MAX
    blob += bytes(wire.BLOB_MAX - len(blob))
    return wire._PREFIX.pack(wire.MAGIC, wire.VERSION, len(text), len(blob)) + text + blob

FRAME = largest()
Image.open(io.BytesIO(FRAME[-wire.BLOB_MAX:])).size

def work(change):
    reader = wire.FrameReader()
    frames = []
    data = FRAME if change == "largest" else FRAME[:9] + struct.pack(">I", 1 << 31) + FRAME[13:]
    for start in range(0, len(data), 65536):
        frames += reader.feed(data[start : start + 65536])
    (kind, header, blob), = frames
    wire.check(kind, header)
    return kind, decision_cycle.LazyCameraImages(blob)(decision_cycle.CAMERA).shape
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("change", "most", "expected"),
    [("largest", FRAME_MIB, "('obs', (2000, 2000, 3))"), ("longer", 8, "BadFrame: oversized")],
)
def test_frames_of_a_vehicle(change: str, most: int, expected: str) -> None:
    peak, outcome = peak_of(VEHICLE, change)
    assert expected in outcome
    assert peak <= most


THREAT = """
import json
from support.threats.threat_requests import site, valid_spec
from closedloop_plugin.threats import spec_parsing

SITE = site()
LONGEST = spec_parsing.LONGEST
REPLIES = {
    "nested": '{"a":[' + "[[[[[]]]]]," * (LONGEST // 11 - 2) + "{}]}",
    "keys": "{" + ",".join(f'"{i}":0' for i in range(LONGEST // 10)) + "}",
    "longer": json.dumps(valid_spec()) + "x" * (8 << 20),
    "open": "{" * (8 << 20),
}
spec_parsing.read_spec(json.dumps(valid_spec(a=1)), SITE)

def work(kind):
    read = spec_parsing.read_spec(REPLIES[kind], SITE)
    return read.spec is not None, read.problems
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("reply", "expected"),
    [("nested", "Extra inputs"), ("keys", "Extra inputs"), ("longer", "True"), ("open", "brackets")],
)
def test_replies_with_a_threat(reply: str, expected: str) -> None:
    peak, outcome = peak_of(THREAT, reply)
    assert expected in outcome
    assert peak <= THREAT_MIB
