"""Write the tables of several seeds of scripts/learn.sh: each seed, their mean and standard deviation.

    python scripts/learn_spread.py runs/learn runs/learn1 runs/learn2
    python scripts/learn_spread.py docs/results/learn/seed0-0.8.0.json runs/learn1 --figures docs/results/learn

They stand between the marker lines of docs/learn.md; those of the first seed alone in the card of the shipped model,
which is that seed's. --figures writes the figures of each folder into a file, which stands for the folder later.

Scores are those of `ad2 report`, differences those of `ad2 report compare`, paired by route; the order of the folders
is that of the columns, which name the release if there are several.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from exit_code import exit_code
from learned_seed import ANSWERERS, DRIVERS, LearnedSeed, Scored, read_seed, write_seed
from marked_blocks import insert

from closedloop_plugin.learn.shipped_model import FOLDER
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.report.table import Table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "learn.md"
CARD = FOLDER / "README.md"


def driving_table(seeds: Sequence[LearnedSeed]) -> str:
    """Driving Score with its interval over routes, by driver and seed."""
    rows = [_scores(label, [one.drives[name] for one in seeds]) for name, label in DRIVERS.items()]
    rows.append(_scores("the model above its twin", [one.above for one in seeds]))
    return _table("driver", seeds, rows)


def _scores(label: str, found: Sequence[Scored]) -> tuple[str, ...]:
    cells = [f"{score:.1f}" + (f" [{span[0]:.1f}, {span[1]:.1f}]" if span else "") for score, span in found]
    return label, *cells, spread([score for score, _ in found])


def answer_table(seeds: Sequence[LearnedSeed]) -> str:
    """Scores of the model / its blind twin / the majority, by task and seed."""
    rows = []
    for task in TASKS:
        found = [[one.answers[name][task] for name in ANSWERERS] for one in seeds]
        cells = [" / ".join(_number(value) for value in values) for values in found]
        scores = [values[0] for values in found if values[0] is not None]
        rows.append((task, *cells, spread(scores) if len(scores) == len(seeds) else "–"))
    return _table("task", seeds, rows)


def _table(title: str, seeds: Sequence[LearnedSeed], rows: Sequence[Sequence[str]]) -> str:
    several = len({one.release for one in seeds}) > 1
    heads = [title, *(f"seed {one.seed}" + (f" ({one.release})" if several else "") for one in seeds), "mean ± sd"]
    columns = len(heads) if len(seeds) > 1 else 2
    return Table(heads[:columns], [row[:columns] for row in rows], "l" + "r" * (columns - 1)).markdown()


def spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation; nothing of one value."""
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "runs", nargs="+", type=Path, metavar="OUT", help="a folder of scripts/learn.sh, or a file of figures"
    )
    p.add_argument("--figures", type=Path, metavar="DIR", help="write DIR/seed<S>-<release>.json of each folder")
    p.add_argument("--page", type=Path, default=PAGE)
    p.add_argument("--card", type=Path, default=CARD)
    args = p.parse_args()
    return exit_code(lambda: write_tables(args.runs, args.page, args.card, args.figures))


def write_tables(runs: Sequence[Path], page: Path, card: Path, figures: Path | None = None) -> None:
    """All runs into `page`, the first one into `card`; the figures of folders into files of `figures`."""
    seeds = [read_seed(out) for out in runs]
    for file, shown in ((page, seeds), (card, seeds[:1])):
        insert(file, {"drives": driving_table(shown), "answers": answer_table(shown)})
    for out, seed in zip(runs, seeds, strict=True):
        if figures and out.is_dir():
            write_seed(figures, seed)


if __name__ == "__main__":
    raise SystemExit(main())
