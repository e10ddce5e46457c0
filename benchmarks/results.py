"""Drives the suites without a model and writes their tables, and the ceilings that closed-loop tables print.

    python benchmarks/results.py bench2drive220.xml [--out runs/results] [--workers 2] [--only demo,longest6]

Runs `ad2 drive run` for each driver of SUITES with seed 0; a second start resumes. Figures go to
docs/results/closed_loop.json, from which result_pages.py writes the tables of the pages and scoring/ceilings.yaml.
Suites whose route file has not been added (`ad2 drive routes FILE`) keep the figures that they have.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scenarios.suites.lookup import NAMED, VARIABLE, suite

sys.path.insert(0, str(Path(__file__).resolve().parent))
import result_pages

SEED = 0
KEPT = ("n_routes", "driving_score", "success_rate", "efficiency", "comfortness", "abilities", "skill_score")


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
        spoken = ["--config", f"tasks={self.task}", "--interpreter", str(self.interpreter)] if self.task else []
        return ["--agent", self.agent, *spoken]

    @property
    def folder(self) -> str:
        return "-".join(part for part in (self.agent, self.task, self.interpreter) if part)


EXPERT = ResultDriver("expert")
CEILING_DRIVERS = (
    EXPERT,
    ResultDriver("speaking-expert", task="trajectory", interpreter="rules"),
    ResultDriver("speaking-expert", task="action", interpreter="rules"),
)
OTHERS = (
    ResultDriver("late"),
    ResultDriver("steer-only"),
    ResultDriver("speed-only"),
    *(ResultDriver(name, privileged=False) for name in ("straight", "random", "still")),
)
SUITES = {  # name: (profile, drivers)
    "embedded220": ("bench2advlm", (*CEILING_DRIVERS, *OTHERS)),
    "demo": ("bench2advlm", CEILING_DRIVERS),
    "embedded220v4": ("bench2advlm", CEILING_DRIVERS),
    "longest6": ("longest6", CEILING_DRIVERS),
    "fail2drive": ("bench2drive", (EXPERT,)),
}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("routes", type=Path, metavar="bench2drive220.xml")
    p.add_argument("--out", type=Path, default=Path("runs/results"))
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--only", default=",".join(SUITES), help="suites to drive (default: all)")
    args = p.parse_args()
    os.environ[VARIABLE] = str(args.routes.absolute())  # for the commands below
    chosen = [name for name in args.only.split(",") if name not in NAMED or NAMED[name].is_here]
    rows = []
    for name in chosen:
        profile, drivers = SUITES[name]
        for driver in drivers:
            folder = args.out / name / driver.folder
            scores = drive(driver, name, profile, folder, args.workers)
            latest = {(one.route_id, one.repetition): one for one in read_records(folder)}  # a repeated one has two
            rows.append(row_of(driver, name, profile, scores, [*latest.values()]))
    result_pages.keep(rows)
    result_pages.write()
    return 0


def drive(driver: ResultDriver, suite_name: str, profile: str, folder: Path, workers: int) -> Mapping[str, Any]:
    """Drive a suite, or what is missing of it; returns the figures of `ad2 drive score --json`."""
    command = ["--suite", suite_name, "--profile", profile, "--seed", str(SEED), "--workers", str(workers)]
    _ad2("run", *command, *driver.options, "--out", str(folder))
    scores: Mapping[str, Any] = json.loads(_ad2("score", str(folder), "--routes", suite_name, "--json", keep=True))
    return scores


def _ad2(part: str, *words: str, keep: bool = False) -> str:
    command = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", part, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE if keep else None, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: some episodes failed; the table has their number
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout or ""


def row_of(
    driver: ResultDriver,
    suite_name: str,
    profile: str,
    scores: Mapping[str, Any],
    records: Sequence[EpisodeRecord],
) -> dict[str, Any]:
    """The row of closed_loop.json for one driver on one suite."""
    return {
        "suite": suite_name,
        "profile": profile,
        "driver": driver.name,
        "agent": driver.agent,
        "task": driver.task,
        "interpreter": driver.interpreter,
        "seed": SEED,
        "version": ", ".join(sorted({record.version for record in records})),  # of the code that drove
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
        **{name: scores[name] for name in KEPT},
        "n_failed": scores["n_missing"] + scores["n_crashed"] + scores["n_faulted"],
        "experimental": sorted(scores["experimental"]["routes"]) if scores["experimental"] else [],
        "pairs": scores.get("pairs"),
        "scenarios": played(records, suite_name),
        "lost": lost_points(records),
    }


def played(records: Sequence[EpisodeRecord], suite_name: str) -> dict[str, int]:
    """Numbers of scenarios in the route file, and of those that the world had to leave out."""
    left = sum(len(record.world.get("not_played", ())) for record in records)
    return {"in_file": sum(len(route.scenarios) for route in suite(suite_name).routes), "not_played": left}


def lost_points(records: Sequence[EpisodeRecord]) -> list[dict[str, Any]]:
    """The routes below 100 points on certain maps, with their infractions, by scenario type and id."""
    lost = []
    for record in sorted(records, key=lambda r: (r.scenario, r.route_id)):
        if record.score_composed >= 100.0 or record.map.get("experimental"):
            continue
        counts = {name: len(texts) for name, texts in record.infractions.items() if texts}
        counts.pop("min_speed_infractions", None)
        score = round(record.score_composed, 4)
        lost.append(
            {
                "route": record.route_id,
                "scenario": record.scenario,
                "score": score,
                "end": record.end,
                "infractions": counts,
            }
        )
    return lost


if __name__ == "__main__":
    raise SystemExit(main())
