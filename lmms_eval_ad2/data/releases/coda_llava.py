"""CODA-LM in LLaVA format (KaiChen1998/coda-lm-llava-format): parquet files that contain the images.

A snapshot has the folders English and Chinese, whose rows have the same ids; they become one record with both answers.
The format has neither boxes nor categories, and the task follows only from its three fixed questions: region asks about
a red rectangle, suggestion for driving suggestions, general about the influences on driving. A row with any other
question is a bad row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Lang, Record
from lmms_eval_ad2.data.releases import parquet
from lmms_eval_ad2.data.releases.base import BadRow, Item, OpenedRelease, existing, read_bytes
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.storage.files import atomic_write_bytes

MOST_MERGED = 64 << 20  # characters of the Chinese rows, which are in memory together
_ROW = 500  # characters counted for a row beside its texts
_SPLIT = re.compile(r"(?:^|[^a-z])(mini|test|val|train)(?:[^a-z]|$)")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CUES = (
    ("region", re.compile(r"rectangle", re.IGNORECASE)),
    ("suggestion", re.compile(r"suggestion", re.IGNORECASE)),
    ("general", re.compile(r"influence|affect", re.IGNORECASE)),
)


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    source = existing(source, "parquet file")
    for given, flag in ((images, "--images"), (options.get("metadata"), "--config metadata")):
        if given is not None:
            raise Ad2Error(f"coda_lm, format llava: the files have images but no file names of them: omit {flag}")
    split = (split or _split_of(source)).lower()
    files = [source]
    if source.is_dir():
        files = sorted(p for p in source.rglob("*.parquet") if _SPLIT.search(p.stem.lower()) and _split_of(p) == split)
        if not files:
            raise Ad2Error(f"coda_lm, format llava: no parquet file of split '{split}' below {source}")
    folder = Path(options["extract_to"]) / split
    folder.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and (by_language := _by_language(files, source)):
        return OpenedRelease(split, folder, lambda: _merged(by_language, split, folder), files, {})
    return OpenedRelease(split, folder, lambda: _read(files, split, folder), files, {})


def _by_language(files: list[Path], source: Path) -> dict[Lang, list[Path]]:
    """The files of the snapshot's language folders; empty if it does not have both. Raises Ad2Error for other files."""
    found: dict[Lang, list[Path]] = {"en": [], "zh": []}
    folders: dict[str, Lang] = {"english": "en", "chinese": "zh"}
    others: list[Path] = []
    for path in files:
        parts = path.relative_to(source).parts[:-1]
        lang = next((folders[part.lower()] for part in parts if part.lower() in folders), None)
        (found[lang] if lang else others).append(path)
    if not all(found.values()):
        return {}
    if others:
        raise Ad2Error(f"coda_lm, format llava: {others[0]} is neither in English nor in Chinese below {source}")
    return found


def _merged(files: Mapping[Lang, list[Path]], split: str, folder: Path) -> Iterator[Item]:
    """The English records with the Chinese answers of the same ids, then the Chinese records without an English one."""
    chinese: dict[str, Record] = {}
    characters = 0
    for item in _read(files["zh"], split, folder, "zh"):
        if isinstance(item, Record) and item.id not in chinese:
            characters += len(item.id) + len(item.question.en) + len(item.answer.zh) + _ROW
            if characters > MOST_MERGED:
                raise Ad2Error(
                    f"coda_lm, format llava: the Chinese rows have more than {MOST_MERGED >> 20} Mi characters"
                )
            chinese[item.id] = item
        else:
            yield item
    yield from _read(files["en"], split, folder, "en", chinese)
    yield from chinese.values()


def _split_of(path: Path) -> str:
    found = _SPLIT.search(path.stem.lower())
    if found is None:
        raise Ad2Error(f"coda_lm, format llava: the file name {path.name} does not contain the split: give --split")
    return found[1]


def _read(
    files: list[Path], split: str, folder: Path, lang: Lang | None = None, others: dict[str, Record] | None = None
) -> Iterator[Item]:
    """Yield the items of the files.

    lang: the language of the answers; None: by their characters. others: records to merge, by id; removed if used.
    """
    for path in files:
        for number, data in enumerate(parquet.read_rows(path, ("id", "image", "conversations"), batch=16), 1):
            row = UntrustedRow(data, path, number)
            try:
                record = _record(row, split, folder, lang)
                other = others.pop(record.id, None) if others else None
                yield _with_both(row, record, other) if other else record
            except DataError as exc:
                yield BadRow(exc)


def _with_both(row: UntrustedRow, record: Record, other: Record) -> Record:
    """The record with the other language's answer; raises DataError if it is about another image or task."""
    if (record.task, record.images) != (other.task, other.images):
        same = f"the image and task of the Chinese row with this id ({other.task})"
        raise row.fail("id", same, f"{record.id} ({record.task})", "Import one language alone: its folder as SOURCE.")
    return replace(record, answer=BilingualText(en=record.answer.en, zh=other.answer.zh))


def _record(row: UntrustedRow, split: str, folder: Path, lang: Lang | None) -> Record:
    question, answer = _turns(row)
    task = next((name for name, cue in _CUES if cue.search(question)), None)
    if task is None:
        raise row.fail("conversations", "one of CODA-LM's three questions", question)
    image, size = _extract(row, folder)
    name = row.data["id"]
    if name is None or not str(name).strip():
        raise row.fail("id", "an id", name)
    # Question texts are English even if the answers are Chinese.
    chinese = lang == "zh" if lang else _CHINESE.search(answer)
    text = BilingualText(zh=answer) if chinese else BilingualText(en=answer)
    meta: dict[str, Any] = {"split": split, "format": "llava", "without": ["box", "category_name"]}
    return Record(
        id=f"{split}/{name}", benchmark="coda_lm", task=task, subtask=task, form="vqa", images=(image,),
        question=BilingualText(en=question), answer=text, image_size=size, cluster=image, meta=meta,
    )  # fmt: skip


def _turns(row: UntrustedRow) -> tuple[str, str]:
    """The human's question without its image token, and the reference answer."""
    turns: dict[str, str] = {}
    for turn in row.inners("conversations"):
        turns.setdefault(turn.choice("from", ("human", "gpt", "system")), turn.string("value"))
    if "human" not in turns or "gpt" not in turns:
        raise row.fail("conversations", "a turn of 'human' and one of 'gpt'", sorted(turns))
    question = turns["human"].replace("<image>", "").strip()
    if not question:
        raise row.fail("conversations", "a question", turns["human"])
    return question, turns["gpt"]


def _extract(row: UntrustedRow, folder: Path) -> tuple[str, tuple[int, int]]:
    """Write the row's image into `folder`, named by its content; returns its file name and size in pixels."""
    value = row.get("image")
    data = value.get("bytes") if isinstance(value, Mapping) else value
    if not isinstance(data, bytes):
        raise row.fail("image", "encoded image bytes", value)
    try:
        suffix, size = read_bytes(data)
    except OSError as exc:
        raise row.fail("image", "a readable JPEG or PNG", str(exc)) from exc
    path = folder / f"{hashlib.sha256(data).hexdigest()[:24]}{suffix}"
    if not (path.is_file() and path.stat().st_size == len(data)):
        atomic_write_bytes(path, data, durable=False)
    return path.name, size
