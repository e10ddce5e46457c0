"""Write the table of reference scores of tasks/ad2_world/README.md from runs of `ad2 eval --tasks bench_ad2_world`.

python scripts/world_scores.py floor=runs/chance majority=runs/majority ceiling=runs/oracle --label "44 drives, ..."
"""

from __future__ import annotations

import argparse
from pathlib import Path

from marked_blocks import insert

from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.report.runs import RunSummary, load
from lmms_eval_ad2.report.text_table import TextTable

PAGE = Path(__file__).resolve().parent.parent / "tasks" / "ad2_world" / "README.md"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+", metavar="TITLE=FOLDER")
    p.add_argument("--label", required=True, help="the collection, in words")
    p.add_argument("--page", type=Path, default=PAGE)
    args = p.parse_args()
    titles, folders = zip(*(text.partition("=")[::2] for text in args.runs), strict=True)
    runs = [load([Path(folder)])[0] for folder in folders]
    insert(args.page, {"scores": f"\n{args.label}\n\n{table(titles, runs)}\n"})
    return 0


def table(titles: tuple[str, ...], runs: list[RunSummary]) -> str:
    """Score with its 95 % interval by task and run; n is that of the first run."""
    rows = []
    for task in (f"ad2x_world_{part}" for part in TASKS):
        cells = [run.tasks[task].score for run in runs]
        rows.append((task, cells[0].n, *(_cell(cell.official, cell.ci) for cell in cells)))
    return TextTable(("task", "n", *titles), rows, "lr" + "r" * len(runs)).markdown()


def _cell(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    low, high = interval or (value, value)
    return f"{value:.1f} ({low:.1f} to {high:.1f})" if low < high else f"{value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
