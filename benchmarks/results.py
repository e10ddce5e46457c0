"""Drives and writes every table of docs/results, and the ceilings that closed-loop tables print (`make results`).

    python benchmarks/results.py bench2drive220.xml [--out runs/results] [--workers 2]

Runs `ad2 drive run` for each driver under the profile bench2advlm with seed 0; a second start resumes. Tables stand
between marker lines of docs/results/embedded220.md and README.md; the ceilings are in scoring/ceilings.yaml. Those of
embedded220v4 are measured if its route file has been added; otherwise they stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scoring.ceilings import MeasuredCeiling, measured
from closedloop_plugin.suites.lookup import NAMED, VARIABLE
from lmms_eval_ad2.storage.code_state import code_label
from lmms_eval_ad2.storage.files import atomic_write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from marked_blocks import insert  # noqa: E402

PAGE = ROOT / "docs" / "results" / "embedded220.md"
README = ROOT / "README.md"
CEILINGS = ROOT / "closedloop_plugin" / "scoring" / "ceilings.yaml"
SUITES = ("embedded220", "demo")
IF_ADDED = "embedded220v4"
PROFILE, SEED = "bench2advlm", 0
SKILLS = ("Overtaking", "Merging", "Emergency_Brake", "Give_Way", "Traffic_Signs")


@dataclass(frozen=True)
class ResultDriver:
    """A row of the tables. task, interpreter: of the speaking expert, which needs no model for them."""

    agent: str
    privileged: bool = True
    task: str | None = None
    interpreter: str | None = None

    @property
    def name(self) -> str:
        said = f" {self.task} through {self.interpreter}" if self.task else ""
        return f"{self.agent}{said}{' (privileged)' if self.privileged else ''}"

    @property
    def options(self) -> list[str]:
        spoken = ["--tasks", self.task, "--interpreter", str(self.interpreter)] if self.task else []
        return ["--agent", self.agent, *spoken]

    @property
    def folder(self) -> str:
        return "-".join(part for part in (self.agent, self.task, self.interpreter) if part)


CEILING_DRIVERS = (
    ResultDriver("expert"),
    ResultDriver("speaking-expert", task="trajectory", interpreter="rules"),
    ResultDriver("speaking-expert", task="action", interpreter="rules"),
)
OTHERS = (
    ResultDriver("late"),
    ResultDriver("steer-only"),
    ResultDriver("speed-only"),
    *(ResultDriver(name, privileged=False) for name in ("straight", "random", "still")),
)
SHORT = (*CEILING_DRIVERS, *(one for one in OTHERS if one.agent in ("late", "steer-only", "straight", "random")))


@dataclass(frozen=True)
class DrivenResult:
    """A driver's scores (of `ad2 drive score --json`) and records on a suite."""

    driver: ResultDriver
    suite: str
    scores: Mapping[str, Any]
    records: Sequence[EpisodeRecord]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("routes", type=Path, metavar="bench2drive220.xml")
    p.add_argument("--out", type=Path, default=Path("runs/results"))
    p.add_argument("--workers", type=int, default=2)
    args = p.parse_args()
    label = code_label()  # before the files below change
    os.environ[VARIABLE] = str(args.routes.absolute())  # for the commands below
    suites = (*SUITES, IF_ADDED) if NAMED[IF_ADDED].is_here else SUITES
    driven = [
        drive(driver, suite, args.out, args.workers)
        for suite in suites
        for driver in ((*CEILING_DRIVERS, *OTHERS) if suite == SUITES[0] else CEILING_DRIVERS)
    ]
    whole = [one for one in driven if one.suite == SUITES[0]]
    kept = [asdict(one) for one in measured() if one.suite not in suites]
    with atomic_write(CEILINGS) as file:
        file.write(ceilings_text(driven, label, kept))
    n = whole[0].scores["n_routes"]
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    where = f"({n} routes, profile {PROFILE}, seed {SEED}, lmms-eval-ad2 {label}, {machine})"
    spoken = [one for one in whole if one.driver.task]
    insert(PAGE, {"drivers": f"{table(whole)}\n\n{where}", "lost": lost(spoken)})
    insert(README, {"drivers": short_table([one for one in whole if one.driver in SHORT])})
    print(f"written: {', '.join(str(file.relative_to(ROOT)) for file in (PAGE, README, CEILINGS))}")
    return 0


def drive(driver: ResultDriver, suite: str, out: Path, workers: int) -> DrivenResult:
    folder = out / suite / driver.folder
    command = ["--suite", suite, "--profile", PROFILE, "--seed", str(SEED), "--workers", str(workers)]
    _ad2("run", *command, *driver.options, "--out", str(folder))
    scores = json.loads(_ad2("score", str(folder), "--routes", suite, "--json", keep=True))
    latest = {(one.route_id, one.repetition): one for one in read_records(folder)}  # a repeated episode has two
    return DrivenResult(driver, suite, scores, [*latest.values()])


def _ad2(part: str, *words: str, keep: bool = False) -> str:
    command = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", part, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE if keep else None, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: some episodes failed; the table has their number
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout or ""


def ceilings_text(driven: Sequence[DrivenResult], version: str, kept: Sequence[Mapping[str, Any]] = ()) -> str:
    """ceilings.yaml: the expert and the speaking expert on each suite. `version`: of the code that drove; `kept`: rows
    of suites that were not driven."""
    rows = [
        asdict(
            MeasuredCeiling(
                backend="embedded",
                suite=one.suite,
                profile=PROFILE,
                driver=one.driver.agent,
                task=one.driver.task,
                interpreter=one.driver.interpreter,
                driving_score=round(one.scores["driving_score"], 4),
                success_rate=round(one.scores["success_rate"], 4),
                n_routes=one.scores["n_routes"],
                seed=SEED,
                version=version,
            )
        )
        for one in driven
        if one.driver in CEILING_DRIVERS
    ]
    return f"# Written by `make results`.\n{yaml.safe_dump([*rows, *kept], sort_keys=False)}"


def table(driven: Sequence[DrivenResult]) -> str:
    """Markdown table, one row per driver."""
    head = ["driver", "Driving Score", "Success Rate %", "Efficiency %", "Comfortness %", *SKILLS, "Skill", "failed"]
    rows = [" | ".join(head), " | ".join(["---"] + ["---:"] * (len(head) - 1))]
    for one in driven:
        s = one.scores
        skills = [s["abilities"].get(k) for k in SKILLS]
        values = [s["driving_score"], s["success_rate"], s["efficiency"], s["comfortness"], *skills, s["skill_score"]]
        cells = ["–" if v is None else f"{v:.1f}" for v in values]
        rows.append(" | ".join([one.driver.name, *cells, str(s["n_missing"] + s["n_crashed"] + s["n_faulted"])]))
    return "\n".join(f"| {row} |" for row in rows)


def lost(driven: Sequence[DrivenResult]) -> str:
    """Markdown table of the routes on which a ceiling is below 100, with their infractions."""
    rows = [
        "| ceiling | route | scenario | Driving Score | end | infractions |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for one in driven:
        for record in sorted(one.records, key=lambda r: (r.scenario, r.route_id)):
            if record.score_composed >= 100.0 or record.map.get("experimental"):
                continue
            found = [f"{name} {len(texts)}" for name, texts in record.infractions.items() if texts]
            named = ", ".join(text for text in found if not text.startswith("min_speed")) or "–"
            cells = [f"{one.driver.task} through {one.driver.interpreter}", record.route_id, record.scenario]
            rows.append(f"| {' | '.join(cells)} | {record.score_composed:.1f} | {record.end} | {named} |")
    return "\n".join(rows)


def short_table(driven: Sequence[DrivenResult]) -> str:
    """Markdown table of the four main figures."""
    rows = ["| agent | Driving Score | Success Rate % | Efficiency % | Comfortness % |", "|---|---:|---:|---:|---:|"]
    for one in driven:
        values = [one.scores[name] for name in ("driving_score", "success_rate", "efficiency", "comfortness")]
        rows.append(f"| {one.driver.name} | {' | '.join('–' if v is None else f'{v:.1f}' for v in values)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    raise SystemExit(main())
