"""Writes the tables of docs/performance.md from what the benchmarks measured (`make bench`, `make results`).

    python benchmarks/performance_page.py [--measured runs/bench]

Takes the files that the benchmarks wrote with --json into docs/results/benchmarks.json, part by part: a part that was
not measured keeps its figures, with the version, day and machine that they are of. Then renders the tables from there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from exit_code import exit_code  # noqa: E402
from marked_blocks import insert  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
STORED = ROOT / "docs" / "results" / "benchmarks.json"
ORIGIN = ("version", "date", "machine")  # of a part's figures
Parts = dict[str, dict[str, Any]]  # by "benchmark.part": ORIGIN and "results"


@dataclass(frozen=True)
class FigureRow:
    """A row of a table. path: benchmark.part.figure in benchmarks.json; factor: from there to the table."""

    text: str
    path: str
    digits: int = 2
    unit: str = ""
    goal: float | None = None
    at_most: bool = False  # the goal is an upper bound
    factor: float = 1.0

    @property
    def part(self) -> str:
        return self.path.rpartition(".")[0]

    def value(self, parts: Mapping[str, Mapping[str, Any]]) -> float | None:
        """None if it was never measured."""
        found = parts.get(self.part, {}).get("results", {}).get(self.path.rpartition(".")[2])
        return None if found is None else self.factor * float(found)

    def shown(self, parts: Mapping[str, Mapping[str, Any]]) -> str:
        value = self.value(parts)
        return "not measured" if value is None else f"{value:,.{self.digits}f} {self.unit}".strip()

    def goal_cells(self, parts: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
        """The goal, and whether what is shown meets it."""
        value = self.value(parts)
        if self.goal is None:
            return "–", "–"
        text = f"{'≤' if self.at_most else '≥'} {self.goal:g} {self.unit}".strip()
        if value is None:
            return text, "–"
        shown = round(value, self.digits)
        return text, "yes" if (shown <= self.goal if self.at_most else shown >= self.goal) else "**no**"


_LOADS = {16: "16 in flight, 200 ms", 64: "64 in flight, 100 ms", 256: "256 in flight, 400 ms"}
_IDEAL = {16: 0.97, 64: 0.9, 256: 0.9}  # docs/decisions/0013: rate before processor time
RATIOS = (
    FigureRow(
        "our tasks against the leanest lmms-eval task, same 1600×900 images, no-op model: time",
        "open_loop.harness.ratio", unit="×", goal=1.1, at_most=True,
    ),
    FigureRow(
        "`lmms-eval --tasks list` with our entry point against without: processor time",
        "open_loop.startup.ratio", unit="×", goal=1.03, at_most=True,
    ),
    FigureRow(
        "scoring 70,000 records against 7,000: time per record",
        "open_loop.scoring.time_per_record_ratio", unit="×", goal=1.1, at_most=True,
    ),
    FigureRow(
        "scoring 70,000 records against 7,000: peak memory",
        "open_loop.scoring.memory_ratio", unit="×", goal=1.5, at_most=True,
    ),
    *(
        FigureRow(f"{name}, {load}: share of the ideal rate", f"request_rate.{part}-{n}.share", goal=_IDEAL[n])
        for part, name in (("judge", "judge"), ("build", "`ad2 mcq build`"))
        for n, load in _LOADS.items()
    ),
    FigureRow(f"a bare loop of requests, {_LOADS[64]}: share of the ideal rate", "request_rate.bare-64.share"),
    *(
        FigureRow(
            f"embedded simulator {what}, {cars} cars, against Scenic's Newtonian simulator on the same scene: steps/s",
            f"closed_loop.world.{figure}_{cars}", digits=1, unit="×", goal=0.7,
        )
        for figure, what in (("ratio", "without camera"), ("ratio_with_truth", "with the ground truth of every step"))
        for cars in (2, 5)
    ),
    FigureRow(
        "embedded simulator with an 800×450 camera and four other cars, 20 Hz, one core: against real time",
        "closed_loop.world.camera_times_real_time", digits=1, unit="×", goal=3.0,
    ),
    FigureRow(
        "the loop itself in a step with that camera", "closed_loop.overhead.camera_loop_share", digits=1, unit="%",
        goal=5.0, at_most=True, factor=100,
    ),
    FigureRow(
        "decision files in a step without camera and model", "closed_loop.overhead.blind_decision_files_share",
        digits=1, unit="%", factor=100,
    ),
    FigureRow(
        "8 workers against 1, a model that takes 200 ms for any batch, fake world: answers/s while all drive",
        "closed_loop.waiting.speedup", digits=1, unit="×", goal=7.5,
    ),
    FigureRow(
        "the same in the embedded simulator", "closed_loop.waiting-embedded.speedup", digits=1, unit="×", goal=6.0,
    ),
    *(
        FigureRow(
            f"endpoint with log-normal latencies (median 200 ms, σ 0.6), {n} workers: rate of independent worlds",
            f"closed_loop.waiting-endpoint.share_{n}", goal=0.95,
        )
        for n in (8, 32)
    ),
    FigureRow(
        "memory of a world process after 100 episodes against after 12", "closed_loop.memory.ratio", digits=3,
        unit="×", goal=1.05, at_most=True,
    ),
    *(
        FigureRow(f"`ad2 serve`, {what}: share of the ideal rate", f"serve.{part}.share")
        for part, what in (
            ("words", "text"), ("picture", "a 1600×900 JPEG each"), ("words-without-batches", "text, no batches"),
        )
    ),
)  # fmt: skip
RATES = (
    FigureRow("one of our tasks, no-op model", "open_loop.harness.ours_ms_per_document", 1, "ms/document"),
    FigureRow("the leanest lmms-eval task", "open_loop.harness.lean_ms_per_document", 1, "ms/document"),
    FigureRow("scoring", "open_loop.scoring.records_per_s", 0, "records/s"),
    FigureRow("peak memory of scoring 70,000 records", "open_loop.scoring.peak_mb", 0, "MB"),
    FigureRow("added to `lmms-eval --tasks list`, processor time", "open_loop.startup.added_cpu_s", 1, "s"),
    *(
        FigureRow(f"{name}, {_LOADS[64]}, processor time", f"request_rate.{part}-64.cpu_ms", 2, "ms/request")
        for part, name in (("judge", "judge"), ("build", "`ad2 mcq build`"), ("bare", "a bare loop of requests"))
    ),
    FigureRow("embedded simulator without camera, 5 cars", "closed_loop.world.steps_per_s_5", 0, "steps/s"),
    FigureRow("... with an 800×450 camera and four other cars", "closed_loop.world.camera_steps_per_s", 0, "steps/s"),
    FigureRow("first picture of an episode", "closed_loop.world.first_picture_s", 2, "s"),
    *(
        FigureRow(
            f"a step of the demo routes with the expert and that camera: {what}",
            f"closed_loop.overhead.camera_{figure}_us", 0, "µs",
        )
        for figure, what in (
            ("step", "simulation"), ("truth", "ground truth"), ("picture", "picture"), ("agent", "the expert"),
            ("loop", "the loop itself"),
        )
    ),
    FigureRow("a decision in its file", "closed_loop.overhead.blind_bytes_per_decision", 0, "bytes"),
    FigureRow("growth of a world process", "closed_loop.memory.growth_kb_per_episode", 0, "kB/episode"),
    FigureRow("`ad2 serve`, one request alone, beyond the model's time", "serve.words.lone_ms_beyond_model", 0, "ms"),
    FigureRow("... with a 1600×900 JPEG", "serve.picture.lone_ms_beyond_model", 0, "ms"),
    *(
        FigureRow(f"60 kB to a robot, 200 bytes back, loopback: {what}", f"robot_link.exchange.{figure}_ms", 1, "ms")
        for figure, what in (
            ("tcp", "bare TCP"), ("ssh_l", "`ssh -N -L`"), ("ssh_r", "`ssh -N -R`"), ("tunnel", "our tunnel"),
        )
    ),
    FigureRow("a whole cycle through our tunnel, without the agent's time", "robot_link.cycle.tunnel_ms", 1, "ms"),
    FigureRow("... after an agent that computes for 100 ms", "robot_link.cycle-with-agent.tunnel_ms", 1, "ms"),
    FigureRow("... of it in the planner", "robot_link.cycle-with-agent.planner_ms", 1, "ms"),
)  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--measured", type=Path, default=ROOT / "runs" / "bench", metavar="DIR")
    files = sorted(p.parse_args().measured.glob("*.json"))
    parts = merged(read(STORED), map(read, files))
    with atomic_write(STORED) as file:
        file.write(json.dumps(parts, indent=1, sort_keys=True) + "\n")
    insert(PAGE, blocks(parts))
    print(f"{PAGE.relative_to(ROOT)}: {len(files)} files of measurements")


def read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise Ad2Error(f"{file}: expected the JSON of a benchmark: {exc}. Remove it or measure again") from exc
    return dict(found)


def merged(stored: Parts, measured: Iterable[Mapping[str, Any]]) -> Parts:
    """The stored parts with those measured since. A trial (scale below 1) and an older measurement are left out."""
    parts = dict(stored)
    for one in measured:
        if missing := {"benchmark", "scale", "results", *ORIGIN} - one.keys():
            raise Ad2Error(f"the JSON of a benchmark lacks {', '.join(sorted(missing))}: remove it or measure again")
        if one["scale"] < 1:
            print(f"{one['benchmark']}: a trial (--scale {one['scale']:g}), left out")
            continue
        for name, results in one["results"].items():
            key = f"{one['benchmark']}.{name}"
            if one["date"] >= parts.get(key, one)["date"]:
                parts[key] = {**{k: one[k] for k in ORIGIN}, "results": results}
    return parts


def blocks(parts: Parts) -> dict[str, str]:
    """Text of each marked block of the page."""
    return {"ratios": _ratios(parts), "rates": f"{_rates(parts)}\n\n{origin(parts)}"}


def _ratios(parts: Parts) -> str:
    rows = ["| what | ratio | goal | met |", "|---|---:|---:|---|"]
    rows += [f"| {row.text} | {row.shown(parts)} | {' | '.join(row.goal_cells(parts))} |" for row in RATIOS]
    return "\n".join(rows)


def _rates(parts: Parts) -> str:
    rows = ["| what | on this machine |", "|---|---:|"]
    return "\n".join([*rows, *(f"| {row.text} | {row.shown(parts)} |" for row in RATES)])


def origin(parts: Parts) -> str:
    """One line on where and when the shown figures were measured, and one on those that are of another version."""
    of: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(row.part for row in (*RATIOS, *RATES)):
        if name in parts:
            of.setdefault(tuple(parts[name][k] for k in ORIGIN), []).append(name)
    if not of:
        return "Nothing was measured yet."
    newest, *others = sorted(of, key=lambda one: (one[1], len(of[one])), reverse=True)
    line = f"Measured with lmms-eval-ad2 {newest[0]} on {newest[1]}: {newest[2]}."
    if others:
        named = "; ".join(f"{', '.join(of[one])}: {one[0]}, {one[1]}, {one[2]}" for one in others)
        line += f"\nOf another version, day or machine: {named}."
    return line


if __name__ == "__main__":
    raise SystemExit(exit_code(main))
