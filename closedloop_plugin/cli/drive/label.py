"""`ad2 drive label`: questions with answers from the truth about the frames of a collection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option


@dataclass(frozen=True, kw_only=True)
class DriveLabelOptions:
    """`ad2 drive label`."""

    folder: Path = option("a folder of ad2 drive collect", metavar="DIR", positional=True)
    seed: int = option("selects the questions and the order of their options", default=0, least=0)
    per_frame: int = option("greatest number of questions about a frame", default=9, least=1)
    limit: int | None = option("greatest number of questions of each task", default=None, least=1)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "label",
        run,
        DriveLabelOptions,
        help="write questions about the frames of a collection, answered from the truth",
        description="Writes DIR/questions.jsonl: questions in the forms of AD2-Bench and AutoDrive-QA, in English and "
        "Chinese. What a picture does not show is not asked, and answers are balanced. Import them for evaluation with "
        "ad2 data import world DIR.",
    )


def run(options: DriveLabelOptions) -> int:
    from closedloop_plugin.learn.collection import QUESTIONS
    from closedloop_plugin.learn.questions.collection import label_folder
    from lmms_eval_ad2.report.table import Table

    tasks = label_folder(options.folder, seed=options.seed, per_frame=options.per_frame, per_task=options.limit)
    rows = [(x.task, x.possible, x.kept, "–" if x.guess is None else f"{100 * x.guess:.1f} %") for x in tasks]
    print(Table(("task", "possible", "kept", "right without the picture"), rows, "lrrr").plain())
    print(
        f"{sum(x.kept for x in tasks)} questions in {options.folder / QUESTIONS}; import them with: "
        f"ad2 data import world {options.folder} --split test"
    )
    return 0
