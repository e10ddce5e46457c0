"""kill -9 at any moment of a command, from its start to its last file: the same command then gives the same results.

Half of the kills come after a random time, half before a random operation on a file (support/killed.py), which also
hits short moments: between a file and its index, or while the summary is written. One kill has its place: between two
drives of a target in a round of a generation.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import killed
from support.closedloop.runs import comparable
from support.running import BIN, environment, run, run_lmms_eval, tables
from support.tiers import seeds

from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

TASKS = "ad2demo_perception_base,ad2demo_coda_suggestion"
MAIN = "lmms_eval_ad2.cli.main"
ROWS, ITEMS = 3000, 300
KILLS = {"import": 24, "evaluation": 16, "judging": 20, "driving": 24, "generation": 16}  # 100
TRIES = 10  # of a kill that comes too late
TIMES = re.compile(r'("(?:seconds|imported|created|date|wall_s)": )("[^"]*"|[-\d.e]+)')


@dataclass(frozen=True)
class InterruptedCommand:
    """A command that writes below a folder. `module`: program; `words`: arguments; `results`: what must be equal."""

    module: str
    words: Callable[[Path], list[str]]
    results: Callable[[Path], Any]

    def start(self, folder: Path, number: int = 0, below: str = "") -> subprocess.Popen[bytes]:
        """Start it in a new process group, to be killed before operation `number` on a file in `below`, if not 0."""
        folder.mkdir(parents=True)
        counted = str(folder / below)
        command = [sys.executable, killed.__file__, counted, str(number), self.module, *self.words(folder)]
        with (folder.parent / f"{folder.name}.log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=folder.parent, env=environment(**variables(folder)), stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def resume(self, folder: Path) -> None:
        """Run the same command to its end."""
        if self.module == MAIN:
            run(BIN / "ad2", *self.words(folder), cwd=folder.parent, **variables(folder))
        else:
            run_lmms_eval(*self.words(folder), cwd=folder.parent, **variables(folder))


def variables(folder: Path) -> dict[str, str]:
    return {"AD2_HOME": str(folder / "home"), "OPENAI_API_KEY": "none"}


# -- the commands ------------------------------------------------------------------------------------------------------


def release(folder: Path) -> Path:
    """A release of ROWS rows, one in 50 of them bad."""
    row = {"image": "a.jpg", "dimension": "relation", "subtask": "spatial", "form": "vqa", "question": "Where?"}
    path = folder / "rows.jsonl"
    with path.open("w") as file:
        for number in range(ROWS):
            answer = {} if number % 50 == 7 else {"answer": f"at gate {number}"}
            file.write(json.dumps({"id": f"q{number}", **row, **answer}) + "\n")
    return path


def imported(folder: Path) -> dict[str, Any]:
    """All files of the dataset; the manifest without times."""
    (data,) = (folder / "home/data").glob("*/test")
    return {file.name: _without_times(file) for file in sorted(data.rglob("*")) if file.is_file()}


def evaluated(folder: Path) -> dict[str, Any]:
    samples = {file.name: file_sha256(file) for file in folder.glob("out/ad2/*/samples/*.jsonl")}
    return {"tables": tables(folder / "out"), "samples": samples}


def driven(folder: Path) -> dict[str, Any]:
    """The records without times, and the files of each episode."""
    records = read_records(folder / "out")
    results = json.loads((folder / "out/results.json").read_text("utf-8"))["_checkpoint"]
    scores = sorted((r["route_id"], r["status"], r["scores"], r["infractions"]) for r in results["records"])
    tracks = {file.name: file_sha256(file) for file in sorted((folder / "out/metric_info").glob("*.json"))}
    return {"records": comparable(records), "scores": scores, "files": tracks}


def generated(folder: Path) -> dict[str, Any]:
    """Programs, frames, transcripts, verdicts and index, without times; the records of each run (of the target and of
    the check), and the files of each episode."""
    runs = [file.parent for file in sorted(folder.rglob("episodes.jsonl"))]
    run_files = {f for run in runs for f in run.rglob("*") if f.parent.name not in ("drives", "metric_info", "moments")}
    files = (f for f in sorted(folder.glob("out/**/*")) if f.is_file() and f.name != "lock" and f not in run_files)
    records = {str(run.relative_to(folder)): comparable(read_records(run)) for run in runs}
    return {"records": records, **{str(file.relative_to(folder)): _without_times(file) for file in files}}


def _without_times(file: Path) -> str:
    """The text of a JSON file without times; the hash of another file."""
    return TIMES.sub(r"\1 0", file.read_text("utf-8")) if file.suffix == ".json" else file_sha256(file)


def judged_items(folder: Path) -> Path:
    path = folder / "items.jsonl"
    common = {"rubric": "coda_region", "reference": "a truck"}
    rows = [{"id": f"s{i}", "answer": f"car {i}", **common} for i in range(ITEMS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def commands(folder: Path, server: FakeEndpointServer) -> Mapping[str, InterruptedCommand]:
    rows, items = release(folder), judged_items(folder)
    model = f"model_version=fake,base_url={server.url},api_key=none,num_concurrent=4,max_retries=1"
    judge = f"openai:model=fake,base_url={server.url},concurrency=4"
    return {
        "import": InterruptedCommand(
            MAIN, lambda out: ["data", "import", "ad2_bench", str(rows), "--skip-bad", "--partial"], imported
        ),
        "evaluation": InterruptedCommand(
            "lmms_eval",
            lambda out: ["--model", "openai", "--model_args", model, "--tasks", TASKS,
                         "--output_path", str(out / "out")],
            evaluated,
        ),
        "judging": InterruptedCommand(
            MAIN,
            lambda out: ["judge", "rate", str(items), "--judge", judge, "--out", str(out / "ratings.jsonl")],
            lambda out: (out / "ratings.jsonl").read_bytes(),
        ),
        "driving": InterruptedCommand(
            MAIN,
            lambda out: ["drive", "run", "--suite", "demo", "--agent", "straight", "--workers", "2", "--world",
                         "closedloop_plugin.worlds.testing.fake_world:FakeWorld", "--out", str(out / "out")],
            driven,
        ),
        "generation": InterruptedCommand(
            MAIN,
            lambda out: ["threats", "generate", "--suite", "demo", "--routes-ids", "101,102,103", "--agent", "still",
                         "--fuser", "rules", "--size", "160x90", "--no-check", "--out", str(out / "out")],
            generated,
        ),
        "rounds": InterruptedCommand(
            MAIN,
            lambda out: ["threats", "generate", "--suite", "demo", "--routes-ids", "102,104", "--agent", "steer-only",
                         "--fuser", "rules", "--config", "reflect=2", "--config", "others=1", "--config", "share=0",
                         "--workers", "1",
                         "--size", "160x90", "--out", str(out / "out")],
            generated,
        ),
    }  # fmt: skip


# -- the test ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UndisturbedCommand:
    """Duration, operations on files, and results of a command that is not killed."""

    seconds: float
    operations: int
    results: Any


def reply(body: dict[str, Any]) -> str:
    """Depends on the question alone; a rating for texts to be judged."""
    return f"Rating: [[{1 + len(fake_replies.asked(body)) % 10}]] ({'ABCD'[len(fake_replies.asked(body)) % 4]})."


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, InterruptedCommand]]:
    with serve(reply=reply, latency_s=0.01) as server:
        yield commands(tmp_path_factory.mktemp("inputs"), server)


@pytest.fixture(scope="module")
def undisturbed(
    cases: Mapping[str, InterruptedCommand], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], UndisturbedCommand]:
    """A function that runs a command without a kill, once."""
    known: dict[str, UndisturbedCommand] = {}

    def once(kind: str) -> UndisturbedCommand:
        if kind not in known:
            folder = tmp_path_factory.mktemp("calm") / "run"
            start = time.monotonic()
            assert cases[kind].start(folder).wait() == 0, folder.with_name("run.log").read_text("utf-8")[-3000:]
            seconds, operations = time.monotonic() - start, int(folder.with_name("run.operations").read_text("utf-8"))
            known[kind] = UndisturbedCommand(seconds, operations, cases[kind].results(folder))
        return known[kind]

    return once


def kill(case: InterruptedCommand, calm: UndisturbedCommand, folder: Path, dice: random.Random, by_time: bool) -> float:
    """Kill the command once; the moment as a share of the undisturbed command."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        share = dice.random()
        process = case.start(folder, 0 if by_time else 1 + int(share * calm.operations))
        try:
            process.wait(share * calm.seconds if by_time else None)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            return share
    raise AssertionError(f"the command ended before each of {TRIES} kills")


MOMENTS = [
    pytest.param(kind, *moment.values, marks=moment.marks, id=f"{kind}-{moment.id}")
    for kind, kills in KILLS.items()
    for moment in seeds(kills)
]


def test_there_are_a_hundred_kills() -> None:
    assert sum(KILLS.values()) == 100


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize(("kind", "seed"), MOMENTS)
def test_a_command_that_is_killed_at_any_moment_gives_the_same_results(
    kind: str, seed: int, tmp_path: Path, cases: Mapping[str, InterruptedCommand],
    undisturbed: Callable[[str], UndisturbedCommand], record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    case, calm = cases[kind], undisturbed(kind)
    share = kill(case, calm, tmp_path / "run", random.Random(f"{kind} {seed}"), by_time=seed % 2 == 0)
    case.resume(tmp_path / "run")
    assert not list((tmp_path / "run").rglob(".*.tmp")) or kind == "judging", "files of the killed process are removed"
    assert case.results(tmp_path / "run") == calm.results, f"killed after {share:.0%}"
    record_property(f"{kind}: kills", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_kill_within_a_round_of_the_target_repeats_no_stored_drive(
    tmp_path: Path, cases: Mapping[str, InterruptedCommand], undisturbed: Callable[[str], UndisturbedCommand]
) -> None:
    case, folder = cases["rounds"], tmp_path / "run"
    # Of an atomic write in the folder (storage/files.py) are two removals, two openings, one renaming; the episode's
    # record follows it. So the sixth operation begins to store the second episode.
    process = case.start(folder, 6, below="out/target/round1/metric_info")
    assert process.wait() == -signal.SIGKILL
    before = {file: file.read_bytes() for file in folder.rglob("episodes.jsonl")}
    count = {file.parent.name: len(read_records(file.parent)) for file in before}
    assert (count["standard"], count["round1"]) == (2, 1)
    case.resume(folder)
    for file, stored in before.items():  # a repeated drive would have another time
        assert file.read_bytes().startswith(stored)
    assert case.results(folder) == undisturbed("rounds").results
