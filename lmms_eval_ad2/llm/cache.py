"""Cache of an endpoint's replies, keyed by the content of the request.

One sqlite file in WAL mode, one table `replies`:

    key                 sha256 of the canonical JSON of everything that can change the reply
    text, finish_reason, model      as returned by the endpoint
    prompt_tokens, completion_tokens
    created             unix time

A reply is written before it is used: a process that is killed loses only the requests in flight. Failures are never
written. Several processes may share a file.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.completion import ChatReply
from lmms_eval_ad2.llm.request_body import canonical

_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, finish_reason TEXT, model TEXT,
    prompt_tokens INTEGER, completion_tokens INTEGER, created REAL NOT NULL) WITHOUT ROWID"""
_COLUMNS = "text, finish_reason, model, prompt_tokens, completion_tokens"
_AT_ONCE = 500  # keys in one SELECT; sqlite allows 999 in old builds


def key_of(inputs: Any) -> str:
    """sha256 of the canonical JSON of `inputs` (sorted keys, no spaces)."""
    return hashlib.sha256(canonical(inputs).encode("utf-8", "surrogatepass")).hexdigest()


class ReplyCache:
    """The cache file at `path`, created if absent; may be used by several threads.

    Raises Ad2Error if it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()  # a transaction belongs to the connection, not to a thread
        with self._converted_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_TABLE)

    def get_many(self, keys: Iterable[str]) -> dict[str, ChatReply]:
        """The cached replies among `keys`, by key."""
        wanted = list(keys)
        found: dict[str, ChatReply] = {}
        with self._converted_errors():
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(f"SELECT key, {_COLUMNS} FROM replies WHERE key IN ({marks})", part)
                found |= {
                    key: ChatReply(text, finish, model, prompt_tokens, completion_tokens, cached=True)
                    for key, text, finish, model, prompt_tokens, completion_tokens in rows
                }
        return found

    def put(self, key: str, reply: ChatReply) -> None:
        """Store one reply; after the return it survives the end of this process."""
        self.put_many([(key, reply)])

    def put_many(self, replies: Iterable[tuple[str, ChatReply]]) -> None:
        """Store replies, in one transaction; see `put`."""
        now = time.time()
        rows = [
            (key, r.text, r.finish_reason, r.model, r.prompt_tokens, r.completion_tokens, now) for key, r in replies
        ]
        if not rows:
            return
        with self._converted_errors(), self._db:
            self._db.execute("BEGIN")
            self._db.executemany(
                f"INSERT OR REPLACE INTO replies (key, {_COLUMNS}, created) VALUES (?,?,?,?,?,?,?)", rows
            )

    def __len__(self) -> int:
        with self._converted_errors():
            return int(self._db.execute("SELECT COUNT(*) FROM replies").fetchone()[0])

    @contextmanager
    def _converted_errors(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as exc:
            raise Ad2Error(
                f"the reply cache {self.path} cannot be used: {exc}. "
                "Move the file away to start a new one, or choose another path"
            ) from exc
