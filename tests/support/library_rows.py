"""Records and a source that can pause, for tests of the data home. As a script it imports, and tests kill it.

python library_rows.py HOME N ROW        before row number ROW it waits for a line on standard input
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.data.releases.base import BadRow, Item, OmittedRow

SOURCE = {"release": "test", "files": []}


def row(number: int, **changes: Any) -> Record:
    data: dict[str, Any] = {
        "id": f"r{number}", "benchmark": "ad2_bench", "task": ("relation", "cot")[number % 2], "subtask": "social",
        "form": "vqa", "images": ("a.jpg",), "question": BilingualText(f"question {number}?"),
        "answer": BilingualText(f"answer {number}"),
    }  # fmt: skip
    return Record(**{**data, **changes})


def items(n: int, wait_at: int | None = None) -> Iterator[Item]:
    """`n` records; for every ten also a bad and an omitted row. Waits for standard input before row `wait_at`."""
    for number in range(n):
        if number == wait_at:
            sys.stdin.readline()
        if number % 10 == 3:
            yield BadRow(DataError("rows.jsonl", number, "answer", "a text", None))
        if number % 10 == 7:
            yield OmittedRow("empty question")
        yield row(number)


def store(home: Path, n: int, wait_at: int | None = None, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "image_root": home, "source": SOURCE, "skip_bad": True, "home": home, "part_size": 20, **changes,
    }  # fmt: skip
    return write_dataset("d", "test", items(n, wait_at), **arguments)


if __name__ == "__main__":
    store(Path(sys.argv[1]), *map(int, sys.argv[2:]))
