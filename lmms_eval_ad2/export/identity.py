"""By what a question is known again: its id, the question that it was made of, its words, its pictures, its scene.

Names that anybody may give ("0001.jpg", scene "3") say nothing across folders and benchmarks; long ones (nuScenes'
tokens and time stamps) do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lmms_eval_ad2.records import Record

TELLING = 20  # characters from which a file's or scene's name is taken to be the same thing everywhere


def item_keys(record: Record) -> Iterator[bytes]:
    """The question itself and, where it was made of another (AutoDrive-QA), that one."""
    yield _key("item", record.benchmark, record.id)
    if source_id := record.meta.get("source_id"):
        yield _key("item", origin(record), str(source_id))


def origin(record: Record) -> str:
    """The benchmark that the evidence comes from."""
    return str(record.meta.get("source") or record.benchmark)


def words_key(record: Record) -> bytes:
    """Question, options and answer, whatever case and spaces."""
    options = sorted(o.text.get("en") for o in record.options)
    parts = (record.question.en, record.question.zh, record.answer.en, record.answer.zh, *options)
    return _key("words", *(" ".join(part.casefold().split()) for part in parts))


def image_key(path: Path) -> bytes:
    """A picture by its name; by its place where the name is short."""
    name = PurePosixPath(path).name
    return _key("image", name) if len(PurePosixPath(name).stem) >= TELLING else _key("image", str(path.resolve()))


def scene_key(record: Record) -> bytes | None:
    """What the question shares its evidence with; None where that is its own picture."""
    scene = record.cluster.removeprefix(f"{origin(record)}:")
    if not scene or scene in record.images:
        return None
    return _key("scene", scene) if len(scene) >= TELLING else _key("scene", origin(record), scene)


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
