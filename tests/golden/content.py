"""Compact forms of files and values for recordings: small values unchanged, large ones as digests of their parts.

A difference names the file, the row and the key; the values themselves are kept if they are short. Clocks, versions
and the encoding of pictures are left out.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

from PIL import Image
from workspace import Workspace

Json = dict[str, Any]
DROPPED = {
    "system_s", "duration_system", "seconds", "thinking_s", "overhead_s", "waited_s", "latency_s", "timing", "date",
    "created", "started", "start_time", "end_time", "total_evaluation_time_seconds", "version", "versions", "commit",
    "git_hash", "git_branch", "lmms_eval", "lmms_eval_version", "statement",
}  # fmt: skip
KEY_OF_CONTENT = re.compile(r"[0-9a-f]{32,}(:\d+)?")  # of a reply in a journal, of imported data: contains the version
OF_A_LIBRARY = {"sha256", "bytes"}  # of parquet files, in manifests
CONCURRENT = ("episodes", "rank", "journal", "replies", "pre", "runs")  # files whose rows have no fixed order
NAME_ONLY = (".log", ".bag", ".mp4", ".webm", ".pid", "")
PASSING = ("lock", "-shm", "-wal")
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
TEXT, LINE, SHORT_JSON, MANY, BLOCK, BLOCKS = 100, 240, 72, 16, 20, 40
ENTRIES, LONG_JSON, ENTRY_BLOCKS = 40, 2000, 12  # of an object: more entries in more characters are kept as blocks
ALIKE = 12  # files of one kind in one folder that are listed by name


def digest(content: bytes | str, digits: int = 8) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:digits]


def canonical(value: Any) -> str:
    """JSON with sorted keys. Floats in their shortest exact form, so equal means bit-equal."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def brief(value: Any, depth: int) -> Any:
    """The value with digests in place of long texts, long lists, and what is more than `depth` levels below."""
    if isinstance(value, str):
        return shortened(value)
    if not isinstance(value, dict | list) or len(text := canonical(value)) <= SHORT_JSON:
        return value
    if depth <= 0:
        return f"#{len(value)} {digest(text)}"
    if isinstance(value, dict):
        return {key: brief(item, depth - 1) for key, item in value.items()}
    if len(value) <= MANY:
        return [brief(item, depth - 1) for item in value]
    step = -(-len(value) // BLOCKS)
    parts = [digest(canonical(value[i : i + step]), 6) for i in range(0, len(value), step)]
    return {"items": len(value), f"each {step}": parts}


def blocked(value: Any) -> Any:
    """The value with digests of blocks in place of the entries of long objects; a block is named by its first key."""
    if isinstance(value, list):
        return [blocked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) <= ENTRIES or len(canonical(value)) <= LONG_JSON:
        return {key: blocked(item) for key, item in value.items()}
    entries = sorted(value.items())
    step = -(-len(entries) // ENTRY_BLOCKS)
    parts = [entries[i : i + step] for i in range(0, len(entries), step)]
    return {f"{part[0][0]} and {len(part) - 1} more": digest(canonical(part), 6) for part in parts}


def shortened(text: str, limit: int = TEXT) -> str:
    return text if len(text) <= limit else f"{text[: limit - 20]}… {len(text)} {digest(text)}"


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in names}
        if KEY_OF_CONTENT.fullmatch(str(kept.get("key"))):
            del kept["key"]
        return {key: without(item, names) for key, item in kept.items()}
    return [without(item, names) for item in value] if isinstance(value, list) else value


class Reader:
    """Reads files of a workspace. `depth`: levels of JSON that are kept as values."""

    def __init__(self, work: Workspace, depth: int = 3) -> None:
        self.work, self.depth = work, depth

    def path(self, path: Path) -> Any:
        return self.folder(path) if path.is_dir() else self.file(path)

    def folder(self, folder: Path) -> Json:
        """File name -> content. More than ALIKE files of a kind are one entry with a digest of each."""
        kinds: dict[str, list[Path]] = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(PASSING)):
            name = PurePath(_stable(str(path.relative_to(folder))))
            kinds.setdefault(f"{name.parent}/*{''.join(name.suffixes[-2:])}", []).append(path)
        content: Json = {}
        for kind, paths in kinds.items():
            if len(paths) > ALIKE:
                content[kind] = self._many(paths)
                continue
            for path in paths:
                name = _stable(str(path.relative_to(folder)))
                while name in content:
                    name += "+"
                content[name] = self.file(path)
        return content

    def _many(self, paths: Sequence[Path]) -> Json:
        parts = [digest(f"{_stable(path.name)} {canonical(self.file(path))}", 6) for path in paths]
        return {"files": len(parts), "each": parts}

    def file(self, path: Path) -> Any:
        suffix = path.suffix
        if suffix in NAME_ONLY:
            return "file"
        if suffix in PICTURES:
            return pixels(path.read_bytes())
        reader: Callable[[Path], Any] = {
            ".json": self._json, ".jsonl": self._rows, ".gz": self._rows, ".sqlite": cached, ".html": self._page,
            ".parquet": self._table,
        }.get(suffix, self._text)  # fmt: skip
        return reader(path)

    def value(self, value: Any, depth: int | None = None) -> Any:
        return brief(self.work.scrub(without(value, DROPPED)), self.depth if depth is None else depth)

    def _json(self, path: Path) -> Any:
        value = json.loads(path.read_text("utf-8"))
        return self.value(without(value, OF_A_LIBRARY) if path.name == "manifest.json" else value)

    def _rows(self, path: Path) -> Json:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        if path.name.startswith("journal"):  # a line of its account every few seconds
            rows = [row for row in rows if "start" not in row]
        return self.rows(rows, path.name)

    def rows(self, rows: Sequence[Any], name: str = "") -> Json:
        """Rows by their identifier. Of many rows, or rows without one, only digests."""
        plain = [self.work.scrub(without(row, DROPPED)) for row in rows]
        keys = [_identifier(row) for row in plain]
        concurrent = name.startswith(CONCURRENT)
        if len(set(keys)) < len(keys) or None in keys:
            texts = [canonical(row) for row in plain]
            return brief({"rows": sorted(texts) if concurrent else texts}, 1)
        named = {str(key): row for key, row in zip(keys, plain, strict=True)}
        order = {} if concurrent else {"order": digest(" ".join(named))}
        if self.depth > 3 or len(named) <= MANY:
            return {**order, **{key: brief(row, max(1, self.depth - 2)) for key, row in named.items()}}
        return {**order, "rows": {key[-40:]: digest(canonical(row), 6) for key, row in named.items()}}

    def _table(self, path: Path) -> Json:
        import pyarrow.parquet as pq

        rows = pq.read_table(path).to_pylist()
        return self.rows([json.loads(row["record"]) if "record" in row else row for row in rows])

    def _text(self, path: Path) -> Any:
        try:
            return self.text(path.read_text("utf-8"))
        except UnicodeDecodeError:
            return digest(path.read_bytes())

    def output(self, text: str) -> Any:
        """What a command prints: JSON, or lines."""
        try:
            return self.value(json.loads(text))
        except json.JSONDecodeError:
            return self.text(text)

    def text(self, text: str) -> Any:
        """The lines of a short text, digests of blocks of lines of a long one."""
        lines = [re.sub(r" {2,}", "  ", line.rstrip()) for line in self.work.scrub_output(text).splitlines()]
        if sum(map(len, lines)) <= (800 if self.depth <= 3 else 8000):
            return [shortened(line, LINE) for line in lines]
        step = max(BLOCK, -(-len(lines) // BLOCKS))
        blocks = [digest("\n".join(lines[i : i + step]), 6) for i in range(0, len(lines), step)]
        return {"lines": len(lines), f"each {step}": blocks, "first": shortened(lines[0], LINE)}

    def _page(self, path: Path) -> Json:
        """A page: its pictures, and the numbers of drawings, tables, and links that fetch something."""
        text = path.read_text("utf-8")
        pictures = re.findall(r"data:image/(?:jpeg|png|webp);base64,([A-Za-z0-9+/=]+)", text)
        return {
            "pictures": [pixels(base64.b64decode(picture)) for picture in pictures],
            "counts": {name: len(re.findall(rf"<{name}\b", text)) for name in ("svg", "table", "tr", "h2", "section")},
            "fetches": len(re.findall(r"(?:src|href)=\"https?:", text)),
        }


def _stable(name: str) -> str:
    """A file's name without hashes, times, and the name of this machine."""
    name = re.sub(r"\d{8}_\d{6}_", "<time>_", name)
    name = re.sub(r"(?<![0-9a-f])[0-9a-f]{8,}(?![0-9a-f])", "<hash>", name)
    return re.sub(r"/[0-9a-f]{2}/(?=<hash>)", "/<hh>/", name)


def _identifier(row: Any) -> Any:
    if not isinstance(row, dict):
        return None
    if "route_id" in row:
        return f"{row['route_id']}_rep{row.get('repetition', 0)}"
    if "segment" in row:
        return f"{row['segment']}_run{row.get('run')}"
    return next((row[name] for name in ("id", "save_name", "number", "draw", "tick", "run") if name in row), None)


def pixels(picture: bytes) -> str:
    """Size and digest of the pixels of a picture file, independent of its encoding."""
    with Image.open(io.BytesIO(picture)) as image:
        rgb = image.convert("RGB")
        return f"{rgb.width}x{rgb.height} {digest(rgb.tobytes())}"


def cached(path: Path) -> Json:
    """The replies of a cache file by key: digest of the text, reason to end, model, tokens. Without times."""
    with closing(sqlite3.connect(path)) as database:
        columns = "key, text, finish_reason, model, prompt_tokens, completion_tokens"
        rows = database.execute(f"SELECT {columns} FROM replies ORDER BY key").fetchall()
    return {key[:10]: " ".join(map(str, (digest(text, 6), *others))) for key, text, *others in rows}
