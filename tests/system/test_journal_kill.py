"""Journals under kill -9: every line that append() has returned for is there, and the next writer goes on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
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


def writer(path: Path, who: str, sync_s: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, str(sync_s)], stdout=subprocess.PIPE, text=True
    )


def killed(process: subprocess.Popen[str], after_s: float) -> int:
    """Kill it after it has begun and so long; how many lines it was told of."""
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after_s)
    process.kill()
    told = 1 + sum(line.endswith("\n") for line in process.stdout)
    process.wait()
    return told


@pytest.mark.parametrize("sync_s", [0.0, float("inf")])
def test_a_killed_writer_loses_no_line_that_it_was_told_of(tmp_path: Path, sync_s: float) -> None:
    path, dice, told = tmp_path / "j.jsonl", random.Random(7), {}
    rounds = count(50)
    for round_ in range(rounds):
        told[f"{round_}"] = killed(writer(path, f"{round_}", sync_s), dice.uniform(0, 0.2))
        with JournalFile(path) as journal:
            journal.append(json.dumps({"who": "next", "number": round_}).encode())
    found: dict[str, list[int]] = {}
    for line in read(path, parse_object):
        found.setdefault(line.value["who"], []).append(line.value["number"])
    assert found.pop("next") == list(range(rounds))
    for who, numbers in found.items():
        assert numbers == list(range(len(numbers)))
        assert told[who] <= len(numbers) <= told[who] + 1, "at most the line whose return was cut off is there besides"


def test_a_killed_writer_harms_no_other(tmp_path: Path) -> None:
    path, dice = tmp_path / "j.jsonl", random.Random(8)
    steady = writer(path, "steady", 0.0)
    told = {f"{k}": killed(writer(path, f"{k}", 0.0), dice.uniform(0, 0.2)) for k in range(count(30))}
    told["steady"] = killed(steady, 0.0)
    JournalFile(path).close()
    found: dict[str, list[int]] = {}
    for line in read(path, parse_object):
        found.setdefault(line.value["who"], []).append(line.value["number"])
    for who, number in told.items():
        assert found[who] == list(range(len(found[who])))
        assert number <= len(found[who]) <= number + 1
