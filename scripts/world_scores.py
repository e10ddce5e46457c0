"""Write the table of reference scores of tasks/ad2_world/README.md from runs of `ad2 eval --tasks bench_ad2_world`.

    python scripts/world_scores.py floor=runs/chance majority=runs/majority ceiling=runs/oracle \\
        --label "88 drives, ..." --collection drives/held --limit 150
    python scripts/world_scores.py floor=runs/chance_zh ceiling=runs/oracle_zh --label "..." --language zh

--collection adds what is right without the picture, if each kind of question gets its own most frequent answer, as
`ad2 drive label` prints it: the questions are made again, with its --limit, and not written. Their numbers must be
those of the runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from exit_code import exit_code
from marked_blocks import insert

from closedloop_plugin.cli.drive.label import DriveLabelOptions
from closedloop_plugin.learn.questions.collection import label_folder
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.report.runs import RunSummary, load
from lmms_eval_ad2.report.table import Table

LANGUAGES = {"en": ("scores", ""), "zh": ("scores_zh", "_zh")}  # block of the page, end of the tasks' names
PAGE = Path(__file__).resolve().parent.parent / "tasks" / "ad2_world" / "README.md"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+", metavar="TITLE=FOLDER")
    p.add_argument("--label", required=True, help="the collection, in words")
    p.add_argument("--language", choices=LANGUAGES, default="en")
    p.add_argument("--collection", type=Path, metavar="DIR", help="the drives that the questions are about")
    p.add_argument("--limit", type=int, metavar="N", help="as of ad2 drive label")
    p.add_argument("--page", type=Path, default=PAGE)
    args = p.parse_args()
    return exit_code(lambda: write_table(args))


def write_table(args: argparse.Namespace) -> None:
    """Raises Ad2Error or OSError, before the page is written, for arguments that give no table."""
    block, suffix = LANGUAGES[args.language]
    titles, runs = read_runs(args.runs, suffix)
    asked = {part: runs[0].tasks[f"ad2x_world_{part}{suffix}"].score.n for part in TASKS}
    guesses = unseen(args.collection, args.limit, asked) if args.collection else None
    insert(args.page, {block: f"\n{args.label}\n\n{table(titles, runs, suffix, guesses)}\n"})


def read_runs(texts: Sequence[str], suffix: str) -> tuple[tuple[str, ...], list[RunSummary]]:
    """(titles, runs) from `TITLE=FOLDER`; a folder above several runs is its first one."""
    titles, runs = [], []
    for text in texts:
        title, _, folder = text.partition("=")
        if not (title and folder):
            raise Ad2Error(f"{text}: expected TITLE=FOLDER, for example floor=runs/chance")
        run = load([Path(folder)])[0]
        missing = [name for part in TASKS if (name := f"ad2x_world_{part}{suffix}") not in run.tasks]
        if missing:
            raise Ad2Error(f"{text}: no score of {missing[0]}; run ad2 eval --tasks bench_ad2_world{suffix}")
        titles.append(title)
        runs.append(run)
    return tuple(titles), runs


def unseen(collection: Path, limit: int | None, asked: Mapping[str, int]) -> dict[str, float | None]:
    """Percent right without the picture, by task; None of points, boxes and chains, whose scores are no shares.

    asked: the number of questions of each task in the runs; raises Ad2Error if the collection has another.
    """
    as_labelled = DriveLabelOptions(folder=collection, limit=limit)
    with tempfile.TemporaryDirectory() as folder:
        labelled = label_folder(
            collection,
            per_frame=as_labelled.per_frame,
            per_task=as_labelled.limit,
            out=Path(folder) / "questions.jsonl",
        )
    for one in labelled:
        if one.kept != asked[one.task]:
            found = f"{one.kept} questions of {one.task} in {collection}, {asked[one.task]} in the runs"
            raise Ad2Error(f"--collection: {found}; give the --limit of their ad2 drive label")
    return {one.task: None if one.guess is None or one.task == "cot" else 100 * one.guess for one in labelled}


def table(
    titles: tuple[str, ...], runs: list[RunSummary], suffix: str = "", guesses: Mapping[str, float | None] | None = None
) -> str:
    """Score with its 95 % interval by task and run; n is that of the first run."""
    rows = []
    for part in TASKS:
        task = f"ad2x_world_{part}{suffix}"
        cells = [run.tasks[task].score for run in runs]
        guess = [] if guesses is None else [_cell(guesses[part], None)]
        rows.append((task, cells[0].n, *guess, *(_cell(cell.official, cell.ci) for cell in cells)))
    heads = ("task", "n", *([] if guesses is None else ["without the picture"]), *titles)
    return Table(heads, rows, "l" + "r" * (len(heads) - 1)).markdown()


def _cell(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    low, high = interval or (value, value)
    return f"{value:.1f} ({low:.1f} to {high:.1f})" if low < high else f"{value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
