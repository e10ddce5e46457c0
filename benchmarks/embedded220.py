"""Scores of six drivers without a model on the 220 routes of embedded220, as one table.

    python benchmarks/embedded220.py bench2drive220.xml [--out DIR] [--workers 2] [--write docs/results-embedded220.md]

Runs `ad2 drive run --suite embedded220` for each (a second start resumes) and prints a Markdown table.
`--write FILE` inserts it between the marker lines of the file.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

DRIVERS = ("expert", "steer-only", "speed-only", "straight", "random", "still")
PRIVILEGED = DRIVERS[:3]  # use ground truth; marked in the table
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
SKILLS = ("Overtaking", "Merging", "Emergency_Brake", "Give_Way", "Traffic_Signs")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("routes", type=Path, metavar="bench2drive220.xml")
    p.add_argument("--out", type=Path, default=Path("runs/embedded220"))
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--drivers", default=",".join(DRIVERS))
    p.add_argument("--write", type=Path, metavar="FILE.md")
    args = p.parse_args()
    _ad2("routes", "add", str(args.routes))
    scores = {}
    for name in args.drivers.split(","):
        folder = args.out / name
        _ad2("run", *COMMAND, "--agent", name, "--workers", str(args.workers), "--out", str(folder))
        scores[name] = json.loads(_ad2("score", str(folder), "--routes", str(args.routes), "--json", keep=True))
    text = table(scores)
    print(text)
    if args.write:
        head, _, rest = args.write.read_text("utf-8").partition(BEGIN)
        _, _, tail = rest.partition(END)
        args.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    return 0


COMMAND = ("--suite", "embedded220", "--profile", "bench2drive", "--decision-hz", "10", "--seed", "0")


def _ad2(part: str, *words: str, keep: bool = False) -> str:
    command = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", part, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE if keep else None, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: some episodes failed; the table has their number
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout or ""


def table(scores: dict[str, dict[str, Any]]) -> str:
    """Markdown table, one row per driver."""
    head = ["driver", "Driving Score", "Success Rate %", "Efficiency %", "Comfortness %", *SKILLS, "Skill", "failed"]
    rows = [" | ".join(head), " | ".join(["---"] + ["---:"] * (len(head) - 1))]
    for name, s in scores.items():
        skills = [s["abilities"].get(k) for k in SKILLS]
        values = [s["driving_score"], s["success_rate"], s["efficiency"], s["comfortness"], *skills, s["skill_score"]]
        cells = ["–" if v is None else f"{v:.1f}" for v in values]
        label = f"{name} (privileged)" if name in PRIVILEGED else name
        rows.append(" | ".join([label, *cells, str(s["n_missing"] + s["n_crashed"])]))
    n = next(iter(scores.values()))["n_routes"]
    where = f"{n} routes, Python {platform.python_version()}, {platform.machine()}"
    return "\n".join([f"| {row} |" for row in rows] + ["", f"({where})"])


if __name__ == "__main__":
    raise SystemExit(main())
