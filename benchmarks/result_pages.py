"""Writes the tables of closed-loop results from docs/results/closed_loop.json, which results.py measures.

    python benchmarks/result_pages.py

Tables stand between marker lines of docs/results/embedded220.md, docs/results/other-suites.md and README.md; the
ceilings are closedloop_plugin/scoring/ceilings.yaml.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from closedloop_plugin.scoring.ceilings import MeasuredCeiling
from closedloop_plugin.scoring.route_pairs import gap_text
from lmms_eval_ad2.storage.files import atomic_write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from marked_blocks import insert  # noqa: E402

FIGURES = ROOT / "docs" / "results" / "closed_loop.json"
PAGE = ROOT / "docs" / "results" / "embedded220.md"
OTHER_PAGE = ROOT / "docs" / "results" / "other-suites.md"
README = ROOT / "README.md"
CEILINGS = ROOT / "closedloop_plugin" / "scoring" / "ceilings.yaml"
MAIN = "embedded220"
SKILLS = ("Overtaking", "Merging", "Emergency_Brake", "Give_Way", "Traffic_Signs")
CEILING_AGENTS = ("expert", "speaking-expert")
SHORT = (*CEILING_AGENTS, "late", "steer-only", "straight", "random")
FOUR = ("driving_score", "success_rate", "efficiency", "comfortness")

Row = Mapping[str, Any]


def main() -> int:
    write()
    return 0


def read() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else []
    return rows


def keep(rows: Sequence[Row]) -> None:
    """Replace the rows of the suites that were driven; those of other suites stay."""
    driven = {row["suite"] for row in rows}
    every = [row for row in read() if row["suite"] not in driven] + [*rows]
    with atomic_write(FIGURES) as file:
        file.write(json.dumps(every, indent=1, sort_keys=True) + "\n")


def write() -> None:
    rows = read()
    for page, parts in blocks(rows).items():
        insert(page, parts)
    with atomic_write(CEILINGS) as file:
        file.write(ceilings_text(rows))
    print(f"written: {', '.join(str(file.relative_to(ROOT)) for file in (*blocks(rows), CEILINGS))}")


def blocks(rows: Sequence[Row]) -> dict[Path, dict[str, str]]:
    """The text between the marker lines of each page, by the name of the marker."""
    whole = [row for row in rows if row["suite"] == MAIN]
    others = [row for row in rows if row["suite"] not in (MAIN, "demo")]
    short = [row for row in whole if row["agent"] in SHORT]
    return {
        PAGE: {"drivers": f"{table(whole)}\n\n{origin(whole)}", "lost": lost([row for row in whole if row["task"]])},
        README: {"drivers": short_table(short)},
        OTHER_PAGE: {
            "suites": f"{suites_table(others)}\n\n{origin(others)}",
            "lost": lost_by_expert([row for row in others if row["agent"] == "expert"]),
            "pairs": "\n".join(f"```\n{gap_text(row['pairs'])}\n```" for row in others if row["pairs"]),
        },
    }


def origin(rows: Sequence[Row]) -> str:
    """Versions and machines of the rows, once below their table."""
    runs = dict.fromkeys(f"lmms-eval-ad2 {row['version']}, {row['machine']}" for row in rows)
    return f"(seed {rows[0]['seed']}; {'; '.join(runs)})" if rows else ""


def ceilings_text(rows: Sequence[Row]) -> str:
    """ceilings.yaml: the expert and the speaking expert on each suite that has figures."""
    names = [field.name for field in fields(MeasuredCeiling)]
    kept = []
    for row in rows:
        if row["agent"] in CEILING_AGENTS:
            scores = {name: round(row[name], 4) for name in ("driving_score", "success_rate")}
            known = {**row, **scores, "backend": "embedded", "driver": row["agent"]}
            kept.append({name: known[name] for name in names})
    return f"# Written by `make results`.\n{yaml.safe_dump(kept, sort_keys=False)}"


def table(rows: Sequence[Row]) -> str:
    """Markdown table of all figures, one row per driver."""
    head = ["driver", "Driving Score", "Success Rate %", "Efficiency %", "Comfortness %", *SKILLS, "Skill", "failed"]
    lines = [" | ".join(head), " | ".join(["---"] + ["---:"] * (len(head) - 1))]
    for row in rows:
        values = [*(row[name] for name in FOUR), *(row["abilities"].get(k) for k in SKILLS), row["skill_score"]]
        lines.append(" | ".join([row["driver"], *map(_figure, values), str(row["n_failed"])]))
    return _bars(lines)


def short_table(rows: Sequence[Row]) -> str:
    """Markdown table of the four main figures."""
    lines = ["agent | Driving Score | Success Rate % | Efficiency % | Comfortness %", "--- | ---: | ---: | ---: | ---:"]
    lines += [" | ".join([row["driver"], *(_figure(row[name]) for name in FOUR)]) for row in rows]
    return _bars(lines)


def suites_table(rows: Sequence[Row]) -> str:
    """Markdown table of two figures on other suites. Routes on experimental maps are excluded and named."""
    lines = [
        "suite | profile | driver | routes | excluded | scenarios played | Driving Score | Success Rate % | failed",
        "--- | --- | --- | ---: | --- | ---: | ---: | ---: | ---:",
    ]
    for row in rows:
        n = row["scenarios"]
        texts = [f"`{row['suite']}`", f"`{row['profile']}`", row["driver"], str(row["n_routes"])]
        texts += [", ".join(row["experimental"]) or "–", f"{n['in_file'] - n['not_played']} of {n['in_file']}"]
        texts += [_figure(row["driving_score"]), _figure(row["success_rate"]), str(row["n_failed"])]
        lines.append(" | ".join(texts))
    return _bars(lines)


def lost(rows: Sequence[Row]) -> str:
    """Markdown table of the routes on which a ceiling is below 100, with their infractions."""
    lines = ["ceiling | route | scenario | Driving Score | end | infractions", "--- | --- | --- | ---: | --- | ---"]
    for row in rows:
        lines += [" | ".join([f"{row['task']} through {row['interpreter']}", *_lost(one)]) for one in row["lost"]]
    return _bars(lines)


def lost_by_expert(rows: Sequence[Row]) -> str:
    """The same for the expert on other suites."""
    lines = ["suite | route | scenario | Driving Score | end | infractions", "--- | --- | --- | ---: | --- | ---"]
    for row in rows:
        lines += [" | ".join([f"`{row['suite']}`", *_lost(one)]) for one in row["lost"]]
    return _bars(lines)


def _lost(one: Row) -> list[str]:
    counts = ", ".join(f"{name} {n}" for name, n in one["infractions"].items())
    return [one["route"], one["scenario"] or "several", f"{one['score']:.1f}", one["end"], counts or "–"]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _bars(lines: Sequence[str]) -> str:
    return "\n".join(f"| {line} |" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
