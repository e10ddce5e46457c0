"""Importing many questions needs hardly more memory than importing 20,000."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiers import count

BYTES_PER_ROW = 130
SCRIPT = """
import resource, sys
from pathlib import Path
from lmms_eval_ad2.data.home import import_release
manifest = import_release("ad2_bench", Path(sys.argv[1]))
print(manifest.n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def write_rows(path: Path, n: int) -> None:
    options = {letter: {"en": f"option {letter} of some length", "zh": f"选项{letter}"} for letter in "ABCDEF"}
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            row = {
                "id": f"q{number:07d}", "image": f"fog/{number // 7:06d}.jpg", "image_size": [1920, 1080],
                "dimension": "relation", "subtask": "spatial", "form": "mc", "options": options, "letter": "C",
                "question": {"en": f"Where is vehicle {number}? " + "x" * 200, "zh": f"车辆{number}在哪里？"},
                "prompt": {"type": "box", "coords": [[number % 900, 5, 1000, 300]]}, "answer": None,
            }  # fmt: skip
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def peak(folder: Path, n: int) -> int:
    """Peak memory of an import of `n` rows, MiB."""
    folder.mkdir()
    write_rows(folder / "rows.jsonl", n)
    environment = {
        **os.environ,
        "AD2_HOME": str(folder / "home"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", SCRIPT, str(folder / "rows.jsonl")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported, mebibytes = map(int, done.stdout.split())
    assert imported == n
    return mebibytes


@pytest.mark.soak
def test_import_memory_does_not_grow_with_the_number_of_rows(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Each row more may cost the hash of its id and its share of the parts' list, not its text (about 1,100 bytes)."""
    few, many = 20_000, count(1_000_000)
    small, large = peak(tmp_path / "small", few), peak(tmp_path / "large", many)
    allowed = 20 + BYTES_PER_ROW * (many - few) / 2**20
    assert large - small < allowed, f"{small} MiB for {few:,} rows, {large} MiB for {many:,}"
    record_property("rows", many)
    record_property(f"most MiB more than for {few:,} rows", large - small)
