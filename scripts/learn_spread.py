"""Write the tables of several seeds of scripts/learn.sh: each seed, their mean and standard deviation.

    python scripts/learn_spread.py runs/learn runs/learn1 runs/learn2

They stand between the marker lines of docs/learn.md; those of the first seed alone in the card of the shipped model,
which is that seed's.

Scores are those of `ad2 report`, differences those of `ad2 report compare`, paired by route; the order of the folders
is that of the columns.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exit_code import exit_code
from learn import BLIND, SIGHTED
from marked_blocks import insert

from closedloop_plugin.learn.shipped_model import FOLDER
from lmms_eval_ad2.cli.main import main as ad2
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.report.text_table import TextTable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "learn.md"
CARD = FOLDER / "README.md"
DRIVERS = {
    "expert": "expert (privileged)",
    "speaking-expert": "the expert in words (privileged): ceiling",
    SIGHTED: "**the model**",
    "steer-only": "steer-only (privileged, ignores road users)",
    BLIND: "its blind twin",
    "straight": "straight",
}
MAJORITY = "ad2_majority"
Scored = tuple[float, Sequence[float] | None]  # with its 95 % interval over routes, None of few routes


@dataclass(frozen=True)
class LearnedSeed:
    """The scores of one run of scripts/learn.sh.

    drives: by driver, Driving Score. above: the model's less its twin's. answers: by (answerer, task).
    """

    seed: str
    drives: Mapping[str, Scored]
    above: Scored
    answers: Mapping[tuple[str, str], float | None]


def read_seed(out: Path) -> LearnedSeed:
    """The scores of a finished run. Raises Ad2Error if drives or answers are missing."""
    runs = (out / "runs").absolute()
    found = _printed("report", str(runs))
    driven = {_first(one["path"], runs): one for one in (found.get("drive") or {"runs": []})["runs"]}
    names = {run["name"]: _first(run["folder"], runs) for run in found["runs"]}
    answers = {(names[one["run"]], one["part"]): one["score"]["official"] for one in found["tasks"]}
    wanted = [(name, task) for name in (SIGHTED, BLIND, MAJORITY) for task in TASKS]
    missing = [f"drive {name}" for name in DRIVERS if name not in driven]
    missing += [f"questions {name}, {task}" for name, task in wanted if (name, task) not in answers]
    if missing:
        raise Ad2Error(f"{out}: not finished, without {'; '.join(missing[:3])}; scripts/learn.sh --out {out} resumes")
    drives = {name: (one["driving_score"], one["intervals"]["driving_score"]) for name, one in driven.items()}
    above = _difference(runs / SIGHTED / "drive", runs / BLIND / "drive")
    return LearnedSeed(driven[SIGHTED]["provenance"]["seed"], drives, above, answers)


def _difference(model: Path, other: Path) -> Scored:
    """Driving Score of one run less that of another, over the routes of both."""
    rows = {row["name"]: row for row in _printed("report", "compare", str(model), str(other))["rows"]}
    return rows["driving_score"]["drop"], rows["driving_score"]["ci_drop"]


def _first(path: str, runs: Path) -> str:
    """The first folder of a path below `runs`."""
    return Path(path).relative_to(runs).parts[0]


def _printed(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    text = io.StringIO()
    with redirect_stdout(text):
        code = ad2([*words, "--json"])
    if code:
        raise Ad2Error(f"ad2 {' '.join(words)} failed; its message stands above")
    return dict(json.loads(text.getvalue()))


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
        found = [[one.answers[name, task] for name in (SIGHTED, BLIND, MAJORITY)] for one in seeds]
        cells = [" / ".join(_number(value) for value in values) for values in found]
        scores = [values[0] for values in found if values[0] is not None]
        rows.append((task, *cells, spread(scores) if len(scores) == len(seeds) else "–"))
    return _table("task", seeds, rows)


def _table(title: str, seeds: Sequence[LearnedSeed], rows: Sequence[Sequence[str]]) -> str:
    heads = [title, *(f"seed {one.seed}" for one in seeds), "mean ± sd"]
    columns = len(heads) if len(seeds) > 1 else 2
    return TextTable(heads[:columns], [row[:columns] for row in rows], "l" + "r" * (columns - 1)).markdown()


def spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation; nothing of one value."""
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+", type=Path, metavar="OUT", help="a folder of scripts/learn.sh")
    p.add_argument("--page", type=Path, default=PAGE)
    p.add_argument("--card", type=Path, default=CARD)
    args = p.parse_args()
    return exit_code(lambda: write_tables(args.runs, args.page, args.card))


def write_tables(runs: Sequence[Path], page: Path, card: Path) -> None:
    """All runs into `page`, the first one into `card`."""
    seeds = [read_seed(out) for out in runs]
    for file, shown in ((page, seeds), (card, seeds[:1])):
        insert(file, {"drives": driving_table(shown), "answers": answer_table(shown)})


if __name__ == "__main__":
    raise SystemExit(main())
