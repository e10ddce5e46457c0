"""The folder that a build owns: what lies in it, and in which order it is written.

    OUT/lock                 held (flock) by the one process that builds into OUT
    OUT/settings.json        everything that can change a question; compared at every start
    OUT/journal.jsonl        append only, the only truth; of two lines for one question the later counts:
                               {"source", "id", "status": "made" | "rejected" | "passing", "task", "subtask", ...}
                             and what a start has spent so far: {"start": number, "account": {...}}
    OUT/transcripts/<source>/<hh>/<id>.json   what was said to a model and by it; only where one was asked
    OUT/replies.sqlite       the replies, by content (llm/cache.py), unless --cache names another file
    OUT/images/<source>      a link to the source's image folder, made anew at every start

    Made of the journal at the end of every start, in this order, each whole or not at all:
    OUT/questions.jsonl      rows of `ad2 data schema autodrive_qa`, in the plan's order
    OUT/rejected.jsonl       what is no question, with its reason
    OUT/card.json, OUT/card.md

Of one question the transcript comes first, then its line: a line implies its transcript. Lines reach the operating
system at once (so kill -9 loses none) and the disk within SYNC_S. Half a line at the end, after a crash, is cut off
when the folder is next opened. "passing" is a fault of the endpoint: the question is asked again at the next start.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.files import append_whole, cut_torn_line, whole_file
from lmms_eval_ad2.folders import differences, locked

Key = tuple[str, str]  # (source, id)
STATUSES = ("made", "rejected", "passing")
SYNC_S = 0.5
_LONGEST_NAME = 100
_MOST_STARTS = 10**6
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Store:
    """OUT, opened for writing. Use as a context manager: it holds the folder's lock.

    Raises Ad2Error where the folder is another build's or in use, DataError for a spoilt journal.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self._lock = locked(folder)
        try:
            cut_torn_line(self.journal)
            self._status: dict[Key, str] = {}
            self._place: dict[Key, int] = {}
            self._accounts: list[dict[str, Any]] = []
            self._read()
            # A start whose every question met a fault of the endpoint binds nobody to its settings.
            _check_settings(folder, settings, begun=bool(self.keys("made", "rejected")))
            self._accounts.append({})
            self._handle = self.journal.open("ab", buffering=0)
            self._synced = time.monotonic()
        except BaseException:
            self._lock.close()
            raise

    def status(self, source: str, name: str) -> str | None:
        """One of STATUSES, or None where the question was not asked yet."""
        return self._status.get((source, name))

    def save(self, line: Mapping[str, Any], transcript: Mapping[str, Any] | None = None) -> None:
        """Keep one outcome: its transcript, then its journal line (with source, id and status)."""
        key = (line["source"], line["id"])
        if transcript is not None:
            _write_json(transcript_path(self.folder, *key), transcript)
        self._place[key] = self._append(line)
        self._status[key] = line["status"]

    def save_account(self, account: Mapping[str, Any]) -> None:
        """What this start has spent so far; the last line of a start counts."""
        self._accounts[-1] = dict(account)
        self._append({"start": len(self._accounts), "account": account})

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """What every start has spent, this one last."""
        return list(self._accounts)

    def lines(self, keys: Iterable[Key]) -> Iterator[dict[str, Any]]:
        """The last line of each question of `keys` that has one, in the order of `keys`."""
        with self.journal.open("rb") as handle:
            for key in keys:
                if key in self._place:
                    handle.seek(self._place[key])
                    yield json.loads(handle.readline())

    def keys(self, *statuses: str) -> list[Key]:
        """The questions of these statuses, in the order in which they were first finished."""
        return [key for key, status in self._status.items() if status in statuses]

    def link_images(self, roots: Mapping[str, Path]) -> None:
        """OUT/images/<source> -> image folder. Links, not copies: nuScenes has 400 GB."""
        for name, root in roots.items():
            link = self.folder / "images" / name
            link.parent.mkdir(exist_ok=True)
            if link.is_symlink():
                link.unlink()
            elif link.exists():
                raise Ad2Error(f"{link}: expected a link to {root}; move what lies there away")
            link.symlink_to(root.absolute(), target_is_directory=True)

    def _append(self, line: Mapping[str, Any]) -> int:
        """One whole line; its place in the file."""
        content = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        return append_whole(self._handle, self.journal, content, self._sync_in_time)

    def _sync_in_time(self) -> None:
        if time.monotonic() - self._synced > SYNC_S:
            self.sync()

    def sync(self) -> None:
        os.fsync(self._handle.fileno())
        self._synced = time.monotonic()

    def _read(self) -> None:
        if not self.journal.exists():
            return
        place = 0
        with self.journal.open("rb") as handle:
            for number, content in enumerate(handle, 1):
                line = _line(self.journal, number, content)
                if "start" in line:
                    self._accounts += [{} for _ in range(line["start"] - len(self._accounts))]
                    self._accounts[line["start"] - 1] = line["account"]
                else:
                    self._status[line["source"], line["id"]] = line["status"]
                    self._place[line["source"], line["id"]] = place
                place += len(content)

    def close(self) -> None:
        self.sync()
        self._handle.close()
        self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """JSON lines that appear whole or not at all; their sha256."""
    digest = hashlib.sha256()
    with whole_file(path, errors="backslashreplace") as handle:
        for row in rows:
            text = json.dumps(row, ensure_ascii=False) + "\n"
            handle.write(text)
            digest.update(text.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def transcript_path(folder: Path, source: str, name: str) -> Path:
    """Ids come from files of others: the name keeps what is harmless of one, and stays unique."""
    return folder / "transcripts" / _safe(source) / _digest(name)[:2] / f"{_safe(name)}.json"


def _safe(name: str) -> str:
    plain = _UNSAFE.sub("_", name)[:_LONGEST_NAME]
    # Some file systems take A and a for the same.
    return plain if plain == name == name.lower() else f"{plain}-{_digest(name)[:12]}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _line(path: Path, number: int, content: bytes) -> dict[str, Any]:
    hint = "Remove the line, and the same command asks that question again."
    try:
        line = json.loads(content)
        good = _is_account(line) if "start" in line else _is_outcome(line)
    except (ValueError, KeyError, TypeError, RecursionError):
        good = False
    if not good:
        raise DataError(path, number, "line", "an outcome", content[:80].decode(errors="replace"), hint)
    return dict(line)


def _is_account(line: Mapping[str, Any]) -> bool:
    return type(line["start"]) is int and 1 <= line["start"] <= _MOST_STARTS and isinstance(line["account"], dict)


def _is_outcome(line: Mapping[str, Any]) -> bool:
    """What the end of a start reads; whether a row can be imported is looked at there (finish.py)."""
    good = line["status"] in STATUSES and all(isinstance(line[key], str) for key in ("source", "id"))
    good = good and all(type(count) is int for count in dict(line["notes"]).values())
    return good and (isinstance(line["row"], dict) if line["status"] == "made" else isinstance(line["reason"], str))


def _check_settings(folder: Path, settings: Mapping[str, Any], begun: bool) -> None:
    """Write settings.json, or compare with what a former start that has begun the set has written there."""
    path = folder / "settings.json"
    here = json.loads(json.dumps(settings))
    if not (begun and path.exists()):
        _write_json(path, here)
        return
    try:
        there = dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError, RecursionError) as exc:
        raise Ad2Error(f"{path}: not the settings of a build ({exc}); choose another --out") from exc
    if differ := differences(there, here):
        raise Ad2Error(
            f"{folder} holds questions made with other settings: {'; '.join(differ)}. Choose another --out, or the "
            "same settings"
        )


def _write_json(path: Path, value: Any) -> None:
    with whole_file(path, errors="backslashreplace") as handle:
        json.dump(value, handle, ensure_ascii=False, indent=1)
        handle.write("\n")
