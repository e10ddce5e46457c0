"""Records and a slow source for the tests of the library; run as a script, it imports and can be killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.library import write_dataset
from lmms_eval_ad2.records import Record, Text
from lmms_eval_ad2.releases.base import BadRow, Item, LeftOut

SOURCE = {"release": "test", "files": []}


def row(number: int, **changes: Any) -> Record:
    data: dict[str, Any] = {
        "id": f"r{number}", "benchmark": "ad2_bench", "task": ("relation", "cot")[number % 2], "subtask": "social",
        "form": "vqa", "images": ("a.jpg",), "question": Text(f"question {number}?"),
        "answer": Text(f"answer {number}"),
    }  # fmt: skip
    return Record(**{**data, **changes})


def items(n: int, pause: float = 0.0) -> Iterator[Item]:
    """`n` records with a bad row and a left-out one among each ten."""
    for number in range(n):
        if number % 10 == 3:
            yield BadRow(DataError("rows.jsonl", number, "answer", "a text", None))
        if number % 10 == 7:
            yield LeftOut("empty question")
        time.sleep(pause)
        yield row(number)


def store(home: Path, n: int, pause: float = 0.0, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "image_root": home, "source": SOURCE, "skip_bad": True, "home": home, "part_size": 20, **changes,
    }  # fmt: skip
    return write_dataset("d", "test", items(n, pause), **arguments)


if __name__ == "__main__":
    store(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
