"""Journals under kill -9: every line for which append() has returned is in the file, and the next writer continues."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiers import count

from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

pytestmark = pytest.mark.soak

WRITER = """
import json, sys
from pathlib import Path
from lmms_eval_ad2.storage.journal import JournalFile
with JournalFile(Path(sys.argv[1]), sync_s=float(sys.argv[3])) as journal:
    for number in range(10**9):
        size = 10 ** (number % 6)  # up to 100 kB: writes that take long enough to be hit
        journal.append(json.dumps({"who": sys.argv[2], "number": number, "text": "x" * size}).encode())
        print(number, flush=True)
"""


def writer(path: Path, name: str, sync_s: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(sync_s)], stdout=subprocess.PIPE, text=True
    )


def killed(process: subprocess.Popen[str], after_s: float) -> int:
    """Kill it `after_s` after its first line; return the number of lines for which append() returned."""
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after_s)
    process.kill()
    acknowledged = 1 + sum(line.endswith("\n") for line in process.stdout)
    process.wait()
    return acknowledged


@pytest.mark.parametrize("sync_s", [0.0, float("inf")])
def test_a_killed_writer_loses_no_acknowledged_line(
    tmp_path: Path, record_property: Callable[[str, object], None], sync_s: float
) -> None:
    path, rng, acknowledged = tmp_path / "j.jsonl", random.Random(7), {}
    rounds = count(50)
    for round_ in range(rounds):
        acknowledged[f"{round_}"] = killed(writer(path, f"{round_}", sync_s), rng.uniform(0, 0.2))
        with JournalFile(path) as journal:
            journal.append(json.dumps({"who": "next", "number": round_}).encode())
    found: dict[str, list[int]] = {}
    for line in read(path, parse_object):
        found.setdefault(line.value["who"], []).append(line.value["number"])
    assert found.pop("next") == list(range(rounds))
    for name, numbers in found.items():
        assert numbers == list(range(len(numbers)))
        assert acknowledged[name] <= len(numbers) <= acknowledged[name] + 1, (
            "at most the line whose return was cut off is there besides"
        )
    record_property("kills", rounds)
    record_property("acknowledged lines", sum(acknowledged.values()))


def test_a_killed_writer_does_not_affect_another(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path, rng = tmp_path / "j.jsonl", random.Random(8)
    steady = writer(path, "steady", 0.0)
    acknowledged = {f"{k}": killed(writer(path, f"{k}", 0.0), rng.uniform(0, 0.2)) for k in range(count(30))}
    acknowledged["steady"] = killed(steady, 0.0)
    JournalFile(path).close()
    found: dict[str, list[int]] = {}
    for line in read(path, parse_object):
        found.setdefault(line.value["who"], []).append(line.value["number"])
    for name, number in acknowledged.items():
        assert found[name] == list(range(len(found[name])))
        assert number <= len(found[name]) <= number + 1
    record_property("kills", len(acknowledged))
    record_property("acknowledged lines", sum(acknowledged.values()))
