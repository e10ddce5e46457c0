"""Names of the files that commands leave in their folders and in the data home; contents are in other sections.

Replaced: hashes, <time> of lmms-eval's result files, this machine's name. More than MOST files of one kind in one
folder are only counted. `ad2 serve` and `ad2 robot plan` without --out write no files.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from pathlib import Path, PurePath
from typing import Any

from command_lines import FAKE_WORLD, CommandResult, in_workspace, programs, run_in_process
from recording_endpoint import serve
from workspace import Workspace, file_names

COST = "minutes"
MOST = 12  # files of one kind in one folder that are listed by name
REPLY = "Slow down and keep the lane, because a pedestrian may step out. Rating: [[7]]"
PORT = "23450"
FAKE = ("--world", FAKE_WORLD)
# Command lines, in order; {url}: an endpoint that answers REPLY, {asked}: a model there.
OPEN_LOOP = (
    "data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --split train",
    "data import records own.jsonl --images . --split test --as own --skip-bad",
    "mcq build --source drivelm:train --llm rules --out mcq_rules --total 8 --no-progress",
    "mcq check mcq_rules --no-progress --out mcq_rules.json",
    "mcq split mcq_rules/questions.jsonl --out mcq_rules_split --test 0.5",
    "mcq build --source drivelm:train --llm {asked} --out mcq_asked --total 2 --no-progress",
    "judge rate items.jsonl --judge {asked} --out judged/rated.jsonl",
    "judge rate items.jsonl --judge lexical --out judged/lexical.jsonl",
    "annotate sample_coda_lm --out notes --no-page --limit 2 --reviewer anna",
    "annotate sample_coda_lm --out notes_drafted --no-page --limit 1 --pre {asked}",
    "annotate export notes --out exported/none.jsonl",
    "data import autodrive_qa mcq_rules/questions.jsonl --images mcq_rules/images --split train",
    "export swift --tasks ad2_mcq_perception --split train --out swift/rows.jsonl",
)
CLOSED_LOOP = (
    "drive run --suite demo --routes-ids 101 --agent straight {fake} --out driven --frames --video",
    "drive run --suite demo --routes-ids 101 --agent endpoint:m@{url} --size 64x36 {fake} --out driven_asked",
    "drive run --suite demo --agent straight {fake} --limit 4 --shard 1/2 --out shard1",
    "drive run --suite demo --agent straight {fake} --limit 4 --shard 2/2 --out shard2",
    "merge merged shard1 shard2",
    "drive show driven:101 --out shown/picture.png",
    "drive routes add {data}/bench2drive/bench2drive_dev10.xml",
    "drive map --routes {data}/bench2drive/bench2drive_dev10.xml --route 3514 --out map",
    "drive map --routes {data}/bench2drive/bench2drive_dev10.xml --route 3514 --out map_alone --no-picture",
    "threats generate --suite demo --routes-ids 101 --agent endpoint:m@{url} --fuser rules --size 64x36 --out threats",
    "threats check {repo}/configs/scenarios/lost_load.scenic --out threat_check --tries 1",
    "threats search {repo}/configs/scenarios/lost_load.scenic --agent still --budget 2 --no-expert --out threat_search",
    "drive run --suite threats --agent steer-only --out threat_run",
    "threats gallery threats --runs threat_run --out gallery/page.html",
    "threats gallery threats",
    "robot run --agent track-expert --segments route1 --runs 1 --out course",
    "carla up --binary carla/CarlaUE4.sh --ports {port} --wait 1",
    "carla down",
)


def record(work: Workspace) -> dict[str, Any]:
    _prepare(work)
    with serve(lambda body: REPLY) as endpoint:
        open_loop = _run(work, OPEN_LOOP, endpoint.url)
        closed_loop = _run(work, CLOSED_LOOP, endpoint.url)
    work.run("ad2", "demo", "--tasks", "ad2demo_mcq_planning", "--out", "demo")
    work.run("ad2", "report", "demo", "--html", "report/page.html")
    work.run("ad2", "rescore", "demo/ad2", "--judge", "fake", code=2)
    (run,) = work.folder.glob("demo/ad2/ad2_oracle-*")
    work.run("ad2", "rescore", run, "--judge", "fake")
    folders = sorted(path for path in work.folder.iterdir() if path.is_dir() and path != work.home)
    return {
        "exit codes": open_loop | closed_loop,
        "folders": {path.name: _names(path) for path in folders},
        "home": _names(work.home),
        "beside": sorted(path.name for path in work.folder.iterdir() if path.is_file()),
    }


def _prepare(work: Workspace) -> None:
    (work.folder / "own.jsonl").write_text("nonsense\n", "utf-8")
    item = '{"id": "i", "rubric": "coda_general", "question": "q", "reference": "a red car", "answer": "a car"}\n'
    (work.folder / "items.jsonl").write_text(item, "utf-8")
    for name in ("judged", "exported", "shown", "swift", "gallery", "report", "carla"):
        (work.folder / name).mkdir()
    binary = work.folder / "carla" / "CarlaUE4.sh"
    binary.write_text("#!/bin/sh\nexec sleep 1000\n", "utf-8")
    binary.chmod(0o755)


def _run(work: Workspace, lines: tuple[str, ...], url: str) -> dict[str, Any]:
    """Exit code of each line; after `carla up` also the files that exist while a server runs."""
    ad2, found = programs()["ad2"], {}
    values = {"data": str(work.data), "repo": str(work.repo), "fake": " ".join(FAKE), "port": PORT, "url": url}
    values["asked"] = f"openai:model=m,base_url={url},max_retries=0"
    with in_workspace(work, OPENAI_API_KEY="sk-golden"):
        for line in lines:
            result = run_in_process(ad2, line.format(**values).split())
            _check(line, result)
            found[line] = result.code
            if line.startswith("carla up"):
                found["files of carla up"] = _names(work.home / "carla")
    return found


def _check(line: str, result: CommandResult) -> None:
    if result.code == "exception":
        raise RuntimeError(f"{line}: {result.err}")


def _names(folder: Path) -> dict[str, int]:
    """Name -> number of files with it."""
    names = [_plain(name) for name in file_names(folder)]
    kinds = Counter(_kind(name) for name in names)
    few = Counter(name for name in names if kinds[_kind(name)] <= MOST)
    return {**few, **{kind: count for kind, count in kinds.items() if count > MOST}}


def _plain(name: str) -> str:
    host = platform.node() or "localhost"
    name = "/".join("<host>" if part == host else part for part in name.split("/"))
    name = re.sub(r"/[0-9a-f]{2}/(?=<hash>)", "/<hh>/", name)
    return re.sub(r"(?:<hash>|\d{8})_\d{6}_", "<time>_", name)


def _kind(name: str) -> str:
    path = PurePath(name)
    return f"{path.parent}/*{path.suffix}"
