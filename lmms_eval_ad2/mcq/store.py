"""The output folder of a build: its files and the order in which they are written.

    OUT/lock                 held by the process that builds into OUT
    OUT/settings.json        everything that can change a question; compared at every start
    OUT/journal.jsonl        append only, the source of truth; the last line of a question counts:
                               {"source", "id", "status": "made" | "rejected" | "passing", "task", "subtask", ...}
                             and the resources used by a start so far: {"start": number, "account": {...}}
    OUT/transcripts/<source>/<hh>/<id>.json   requests and replies of a question; only if a model was used
    OUT/replies.sqlite       the replies, by content (llm/cache.py), unless the key `cache` names another file
    OUT/images/<source>      a link to the source's image folder, created again at every start

    Derived from the journal at the end of every start, in this order, each written atomically:
    OUT/questions.jsonl      rows of `ad2 data list autodrive_qa --layout`, in the plan's order
    OUT/rejected.jsonl       rejected questions, with their reasons
    OUT/card.json            contents, sources, settings, and what was left out

A "start" is one run of the command. The transcript of a question is written before its line, so that a line implies a
transcript. Lines are passed to the operating system at once (kill -9 loses none) and reach the disk within SYNC_S, see
storage/journal.py. "passing" is a failure of the endpoint: the next start retries the question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, remove_leftovers
from lmms_eval_ad2.storage.identity import refuse_differences
from lmms_eval_ad2.storage.image_files import allow_links_to
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.untrusted_json import load

Key = tuple[str, str]  # (source, id)
STATUSES = ("made", "rejected", "passing")
SYNC_S = 0.5
_LONGEST_NAME = 100
_MOST_STARTS = 10**6
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class QuestionStore:
    """OUT, opened for writing. A context manager that holds the folder's lock.

    Raises Ad2Error if the folder belongs to another build or is in use, DataError for a corrupt journal.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self._lock = lock_folder(folder)
        try:
            self._status: dict[Key, str] = {}
            self._place: dict[Key, int] = {}
            self._accounts: list[dict[str, Any]] = []
            remove_leftovers(folder, *folder.glob("transcripts/*/*"))
            self._read()
            # As long as every question failed with the endpoint, the settings may still change.
            _check_settings(folder, settings, begun=bool(self.keys("made", "rejected")))
            self._accounts.append({})
            self._lines = JournalFile(self.journal, sync_s=SYNC_S)
        except BaseException:
            self._lock.close()
            raise

    def status(self, source: str, name: str) -> str | None:
        """One of STATUSES, or None if the question has no outcome yet."""
        return self._status.get((source, name))

    def save(self, line: Mapping[str, Any], transcript: Mapping[str, Any] | None = None) -> None:
        """Write one outcome: its transcript, then its journal line (with source, id and status)."""
        key = (line["source"], line["id"])
        if transcript is not None:
            atomic_write_json(transcript_path(self.folder, *key), transcript, errors="backslashreplace")
        self._place[key] = self._append(line)
        self._status[key] = line["status"]

    def save_account(self, account: Mapping[str, Any]) -> None:
        """Write the resources used by this start so far; the last such line of a start counts."""
        self._accounts[-1] = dict(account)
        self._append({"start": len(self._accounts), "account": account})

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """The resources used by each start, the current one last."""
        return list(self._accounts)

    def lines(self, keys: Iterable[Key]) -> Iterator[dict[str, Any]]:
        """The last journal line of each question, in the order of `keys`; questions without a line are skipped."""
        with self.journal.open("rb") as handle:
            for key in keys:
                if key in self._place:
                    handle.seek(self._place[key])
                    yield json.loads(handle.readline())

    def keys(self, *statuses: str) -> list[Key]:
        """The questions with one of these statuses, in the order of their first outcomes."""
        return [key for key, status in self._status.items() if status in statuses]

    def link_images(self, roots: Mapping[str, Path]) -> None:
        """Link OUT/images/<source> to the image folder, and allow it; not a copy, since nuScenes has 400 GB."""
        for name, root in roots.items():
            link = self.folder / "images" / name
            link.parent.mkdir(exist_ok=True)
            if link.is_symlink():
                link.unlink()
            elif link.exists():
                raise Ad2Error(f"{link}: expected a link to {root}; move the existing file or folder away")
            link.symlink_to(root.absolute(), target_is_directory=True)
            allow_links_to(root)

    def _append(self, line: Mapping[str, Any]) -> int:
        """Append one line; its offset in the file."""
        return self._lines.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace"))

    def _read(self) -> None:
        hint = "Remove the line; the same command asks that question again."
        for line in read(self.journal, _entry, expected="an outcome", hint=hint):
            entry = line.value
            if "start" in entry:
                self._accounts += [{} for _ in range(entry["start"] - len(self._accounts))]
                self._accounts[entry["start"] - 1] = entry["account"]
            else:
                self._status[entry["source"], entry["id"]] = entry["status"]
                self._place[entry["source"], entry["id"]] = line.start

    def close(self) -> None:
        self._lines.close()
        self._lock.close()

    def __enter__(self) -> QuestionStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write a JSONL file atomically; its sha256."""
    digest = hashlib.sha256()
    with atomic_write(path, errors="backslashreplace") as handle:
        for row in rows:
            text = json.dumps(row, ensure_ascii=False) + "\n"
            handle.write(text)
            digest.update(text.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def transcript_path(folder: Path, source: str, name: str) -> Path:
    """Path of a transcript. Ids are untrusted: unsafe characters are replaced, and a hash keeps the name unique."""
    return folder / "transcripts" / _safe(source) / _digest(name)[:2] / f"{_safe(name)}.json"


def _safe(name: str) -> str:
    safe = _UNSAFE.sub("_", name)[:_LONGEST_NAME]
    # Some file systems are not case-sensitive.
    return safe if safe == name == name.lower() else f"{safe}-{_digest(name)[:12]}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _entry(content: bytes) -> dict[str, Any]:
    """A line of the journal, with checks of the fields that output_files.py reads; it checks the rows itself."""
    entry = parse_object(content)
    if "start" in entry:
        valid = type(entry["start"]) is int and 1 <= entry["start"] <= _MOST_STARTS
        valid = valid and isinstance(entry["account"], dict)
    else:
        valid = entry["status"] in STATUSES and all(isinstance(entry[key], str) for key in ("source", "id"))
        valid = valid and all(type(count) is int for count in dict(entry["notes"]).values())
        made = entry["status"] == "made"
        valid = valid and (isinstance(entry["row"], dict) if made else isinstance(entry["reason"], str))
    if not valid:
        raise ValueError("a field is missing or of the wrong type")
    return entry


def _check_settings(folder: Path, settings: Mapping[str, Any], begun: bool) -> None:
    """Write settings.json, or compare with the settings of a previous start that has made or rejected a question."""
    path = folder / "settings.json"
    here = json.loads(json.dumps(settings))
    if not (begun and path.exists()):
        atomic_write_json(path, here, errors="backslashreplace")
        return
    try:
        there = dict(load(path))
    except (OSError, ValueError, TypeError) as exc:
        raise Ad2Error(f"{path}: not the settings of a build ({exc}); choose another --out") from exc
    refuse_differences(folder, there, here, "questions made", "settings")
